// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/killer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "fs/base/packet.h"
#include "fs/base/parse.h"

/* The pid of the server that is serving now, 0 when it cannot be told. */
static uint32_t find_server(struct killer *k)
{
	static const char request[] = "status\n";
	AUTO_FREE char *answer = malloc(KEYVAL_MAX + 1);
	char text[32];
	uint32_t pid = 0;
	ssize_t n;

	if (!answer || send(k->control_fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return 0;
	n = recv(k->control_fd, answer, KEYVAL_MAX, 0);
	if (n <= 0)
		return 0;
	answer[n] = '\0';
	if (keyval_get(answer, "server_pid", text, sizeof(text)) < 0 || parse_u32(text, &pid) < 0)
		return 0;
	return pid;
}

/* Whether another server serves then. */
static bool upgrade(struct killer *k)
{
	static const char request[] = "upgrade\n";
	char answer[512];
	ssize_t n;

	if (packet_send(k->control_fd, request, strlen(request), k->program_fd) < 0)
		return false;
	n = recv(k->control_fd, answer, sizeof(answer) - 1, 0);
	answer[n > 0 ? n : 0] = '\0';
	return keyval_verb_is(answer, "ok");
}

static void *run(void *argument)
{
	struct killer *k = argument;

	while (!atomic_load(&k->stop)) {
		unsigned ms = 1 + (unsigned)rand_r(&k->seed) % k->most_ms;
		const struct timespec pause = { .tv_nsec = ms * 1000000L };
		uint32_t pid;

		nanosleep(&pause, NULL); /* a random moment is what is wanted */
		if (rand_r(&k->seed) % 2) {
			k->upgrades += upgrade(k);
			continue;
		}
		pid = find_server(k);
		if (pid > 1 && kill((pid_t)pid, SIGKILL) == 0)
			k->kills++;
	}
	return NULL;
}

int killer_start(struct killer *k, int control_fd, const char *program, unsigned seed,
		 unsigned most_ms)
{
	int r;

	k->control_fd = control_fd;
	k->program_fd = open(program, O_PATH | O_CLOEXEC);
	if (k->program_fd < 0)
		return -errno;
	k->seed = seed;
	k->most_ms = most_ms;
	k->kills = k->upgrades = 0;
	atomic_store(&k->stop, false);
	r = pthread_create(&k->thread, NULL, run, k);
	if (r != 0) {
		cleanup_fd(&k->control_fd);
		cleanup_fd(&k->program_fd);
	}
	return -r;
}

unsigned killer_stop(struct killer *k)
{
	if (k->control_fd < 0)
		return 0;
	atomic_store(&k->stop, true);
	pthread_join(k->thread, NULL);
	cleanup_fd(&k->control_fd);
	cleanup_fd(&k->program_fd);
	return k->kills;
}
