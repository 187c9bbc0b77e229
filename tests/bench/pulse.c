// SPDX-License-Identifier: Apache-2.0

/*
 * pulse: a process that looks and writes a thousand times a second, and knows how long it had to wait.
 *
 *     pulse DIR FILES    DIR has FILES files file-<i>
 *
 * Each millisecond, in turn through the files: attributes as the server has them (statx with AT_STATX_FORCE_SYNC), then
 * opens DIR/pulse, writes a block, and closes it. A beat that comes late because the one before took long is made up for.
 * At each line of input it prints "LONGEST_US MISSED BEATS" of the time since the last one: the longest that one beat
 * took, how many milliseconds had no beat of their own, and how many beats there were. Ends with its input; any error:
 * one line, status 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

enum { BLOCK_BYTES = 4096, BEAT_US = 1000 };

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void die(const char *what)
{
	fprintf(stderr, "pulse: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void beat(int dir, uint64_t number)
{
	static const char block[BLOCK_BYTES] = "pulse";
	struct statx stx;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "file-%llu", (unsigned long long)number);
	if (statx(dir, name, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stx) < 0)
		die(name);
	fd = openat(dir, "pulse", O_WRONLY | O_CREAT | O_CLOEXEC, 0660);
	if (fd < 0 || pwrite(fd, block, sizeof(block), 0) != (ssize_t)sizeof(block))
		die("pulse");
	close(fd);
}

/* Until the next beat is due. Returns 1 when there is a line of input meanwhile, -1 at its end, else 0. */
static int await(int64_t due_us)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int64_t left = due_us - now_us();
	struct timespec timeout = { .tv_nsec = left > 0 ? left * 1000 : 0 };
	char line[64];
	ssize_t n;

	if (ppoll(&input, 1, &timeout, NULL) <= 0)
		return 0;
	n = read(STDIN_FILENO, line, sizeof(line));
	return n > 0 ? 1 : -1;
}

int main(int argc, char **argv)
{
	int64_t due_us = now_us(), longest = 0;
	uint64_t files = 0, beats = 0, missed = 0, number = 0;
	int dir = argc == 3 ? open(argv[1], O_PATH | O_DIRECTORY) : -1, asked;

	if (dir < 0 || parse_u64(argv[2], &files) < 0 || files == 0)
		die("DIR FILES");
	while ((asked = await(due_us)) >= 0) {
		int64_t start = now_us(), took;

		if (asked) {
			printf("%lld %llu %llu\n", (long long)longest, (unsigned long long)missed,
			       (unsigned long long)beats);
			fflush(stdout);
			longest = 0;
			missed = beats = 0;
			continue;
		}
		beat(dir, number++ % files);
		took = now_us() - start;
		longest = took > longest ? took : longest;
		beats++;
		for (due_us += BEAT_US; due_us < now_us(); due_us += BEAT_US)
			missed++;
	}
	return EXIT_SUCCESS;
}
