// SPDX-License-Identifier: Apache-2.0

/*
 * many: trees that are large in one way, faster than a shell makes them.
 *
 *     many files DIR COUNT [PER]   COUNT empty files file-<i> in DIR, or, with PER, that many in each of DIR/dir-<j>
 *     many deep DIR DEPTH          a directory in a directory, DEPTH times, and a file "bottom" in the last
 *
 * All belong to 1000:1000 and are nobody else's: directories 0700, files 0600.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

static void die(const char *what)
{
	fprintf(stderr, "many: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

static void make_file(int dir, const char *name)
{
	AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || fchown(fd, 1000, 1000) < 0)
		die(name);
}

static int make_dir(int dir, const char *name)
{
	int fd = mkdirat(dir, name, 0700) < 0 ?
			 -1 :
			 openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fchown(fd, 1000, 1000) < 0)
		die(name);
	return fd;
}

static void make_files(int dir, uint64_t count, uint64_t per)
{
	AUTO_FD int sub = -1;
	char name[32];

	for (uint64_t i = 0; i < count; i++) {
		if (per > 0 && i % per == 0) {
			snprintf(name, sizeof(name), "dir-%llu", (unsigned long long)(i / per));
			cleanup_fd(&sub);
			sub = make_dir(dir, name);
		}
		snprintf(name, sizeof(name), "file-%llu", (unsigned long long)i);
		make_file(per > 0 ? sub : dir, name);
	}
}

static void make_deep(int dir, uint64_t depth)
{
	AUTO_FD int at = dup(dir);

	for (uint64_t i = 0; at >= 0 && i < depth; i++) {
		int next = make_dir(at, "level-name");

		close(at);
		at = next;
	}
	make_file(at, "bottom");
}

int main(int argc, char **argv)
{
	AUTO_FD int dir = argc >= 4 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t count = 0, per = 0;

	if (dir < 0 || parse_u64(argv[3], &count) < 0 ||
	    (argc == 5 && parse_u64(argv[4], &per) < 0) || argc > 5) {
		fprintf(stderr, "usage: many files DIR COUNT [PER] | many deep DIR DEPTH\n");
		return 2;
	}
	if (argv[1][0] == 'f')
		make_files(dir, count, per);
	else
		make_deep(dir, count);
	return EXIT_SUCCESS;
}
