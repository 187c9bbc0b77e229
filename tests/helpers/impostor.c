// SPDX-License-Identifier: Apache-2.0

/*
 * impostor: what a keeper is given for a server's program in tests of upgrades. What it does is its name's:
 *
 *     impostor-exit     ends at once
 *     impostor-mute     is never ready
 *     impostor-take     is ready, and ends when it is told to begin
 *     impostor-freeze   is ready, and does nothing when it is told to begin
 *     impostor-late     begins, and answers the first question whether it gives way when it hears the second; what came of
 *                       that is in impostor-late.said. The second answer is in time.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/channel.h"

/* --server=DEVICE,SHARED,CHANNEL,LOWER, as fs/child.c writes it. */
static int channel_of(char **argv)
{
	int device, shared, channel, lower;

	for (int i = 1; argv[i]; i++) {
		if (sscanf(argv[i], "--server=%d,%d,%d,%d", &device, &shared, &channel, &lower) ==
		    4)
			return channel;
	}
	return -1;
}

static void say(const char *self, const char *what)
{
	char path[4200];
	FILE *file;

	snprintf(path, sizeof(path), "%s.said", self);
	file = fopen(path, "w");
	if (!file || fprintf(file, "%s\n", what) < 0 || fclose(file) != 0)
		exit(3);
}

static int give_way_late(int channel, const char *self)
{
	struct pollfd answer = { .fd = channel, .events = POLLIN };
	struct channel_message message;
	uint32_t first = 0;

	while (channel_receive(channel, &message) > 0) {
		if (message.kind == CHANNEL_LEAVE)
			return CHANNEL_EXIT_DRAINED;
		if (message.kind == CHANNEL_MOUNTED)
			channel_send(channel, CHANNEL_READY, 0, NULL);
		if (message.kind == CHANNEL_DRAIN && first == 0) {
			first = message.slot;
		} else if (message.kind == CHANNEL_DRAIN) {
			channel_send_drain(channel, CHANNEL_DRAINED, first, 0);
			/* That nothing comes has no event; the keeper's limit is three times as long. */
			say(self, poll(&answer, 1, 500) > 0 ? "taken" : "void");
			channel_send_drain(channel, CHANNEL_DRAINED, message.slot, 0);
		}
	}
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct channel_message message;
	char self[4096] = "";
	int channel = channel_of(argv);
	const char *name;

	(void)argc;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || channel < 0)
		return 2;
	name = strrchr(self, '-');
	if (!name || strcmp(name, "-exit") == 0)
		return EXIT_FAILURE;
	if (strcmp(name, "-mute") != 0)
		channel_send(channel, CHANNEL_PREPARED, 0, "impostor");
	if (strcmp(name, "-late") == 0)
		return give_way_late(channel, self);
	if (strcmp(name, "-mute") != 0)
		channel_receive(channel, &message);
	while (strcmp(name, "-take") != 0)
		pause();
	return EXIT_FAILURE;
}
