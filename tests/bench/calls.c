// SPDX-License-Identifier: Apache-2.0
/*
 * calls COUNT PROGRAM ARGUMENT...: runs a program again and again as kubelet does, its output read from one pipe to
 * its end, and prints "MEDIAN P99 LONGEST", in microseconds from the start of a run to its end. A run that exits
 * with another status than 0 ends it, its output is printed.
 */
#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t run(char **argv)
{
	posix_spawn_file_actions_t actions;
	uint64_t start = clock_now_ns();
	char output[65536];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds) < 0)
		exit(1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
	posix_spawn_file_actions_addclose(&actions, fds[0]);
	posix_spawn_file_actions_addclose(&actions, fds[1]);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		exit(1);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	n = io_read_all(fds[0], output, sizeof(output) - 1);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || n < 0)
		exit(1);
	if (status != 0) {
		output[n] = '\0';
		fprintf(stderr, "calls: %s: %s", argv[0], output);
		exit(1);
	}
	return (clock_now_ns() - start) / 1000;
}

int main(int argc, char **argv)
{
	uint64_t count = 0, *times;

	if (argc < 3 || parse_u64(argv[1], &count) < 0 || count == 0 || count > 1000000) {
		fputs("usage: calls COUNT PROGRAM ARGUMENT...\n", stderr);
		return 2;
	}
	times = calloc(count, sizeof(*times));
	if (!times)
		return 1;
	for (uint64_t i = 0; i < count; i++)
		times[i] = run(argv + 2);
	qsort(times, count, sizeof(*times), by_value);
	printf("%llu %llu %llu\n", (unsigned long long)times[(count - 1) / 2],
	       (unsigned long long)times[(count * 99 - 1) / 100],
	       (unsigned long long)times[count - 1]);
	free(times);
	return 0;
}
