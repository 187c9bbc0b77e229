// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/killer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
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

static void *run(void *argument)
{
	struct killer *k = argument;

	while (!atomic_load(&k->stop)) {
		unsigned ms = 1 + (unsigned)rand_r(&k->seed) % k->most_ms;
		const struct timespec pause = { .tv_nsec = ms * 1000000L };
		uint32_t pid;

		nanosleep(&pause, NULL); /* a random moment is what is wanted */
		pid = find_server(k);
		if (pid > 1 && kill((pid_t)pid, SIGKILL) == 0)
			k->kills++;
	}
	return NULL;
}

int killer_start(struct killer *k, int control_fd, unsigned seed, unsigned most_ms)
{
	int r;

	k->control_fd = control_fd;
	k->seed = seed;
	k->most_ms = most_ms;
	k->kills = 0;
	atomic_store(&k->stop, false);
	r = pthread_create(&k->thread, NULL, run, k);
	if (r != 0)
		cleanup_fd(&k->control_fd);
	return -r;
}

unsigned killer_stop(struct killer *k)
{
	if (k->control_fd < 0)
		return 0;
	atomic_store(&k->stop, true);
	pthread_join(k->thread, NULL);
	cleanup_fd(&k->control_fd);
	return k->kills;
}
