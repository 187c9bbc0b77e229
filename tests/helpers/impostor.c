// SPDX-License-Identifier: Apache-2.0

/*
 * impostor: what a keeper is given for a server's program in tests of upgrades. What it does is its name's:
 *
 *     impostor-exit     ends at once
 *     impostor-mute     is never ready
 *     impostor-take     is ready, and ends when it is told to begin
 *     impostor-freeze   is ready, and does nothing when it is told to begin
 */

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
	if (strcmp(name, "-mute") != 0) {
		channel_send(channel, CHANNEL_PREPARED, 0, "impostor");
		channel_receive(channel, &message);
	}
	while (strcmp(name, "-take") != 0)
		pause();
	return EXIT_FAILURE;
}
