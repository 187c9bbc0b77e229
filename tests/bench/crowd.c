// SPDX-License-Identifier: Apache-2.0

/*
 * crowd: processes that are there and do nothing.
 *
 *     crowd N
 *
 * Prints "ready" once there are N of them; they end with it, at SIGTERM.
 */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fs/base/parse.h"

int main(int argc, char **argv)
{
	uint64_t count = 0;

	if (argc != 2 || parse_u64(argv[1], &count) < 0 || count > 30000) {
		fprintf(stderr, "usage: crowd N\n");
		return 2;
	}
	for (uint64_t i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("crowd: fork");
			return EXIT_FAILURE;
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
