// SPDX-License-Identifier: Apache-2.0

/*
 * hold: uses a file in one way until its standard input ends.
 *
 *     hold open PATH          keeps it open
 *     hold claim PATH         keeps a block device open exclusively
 *     hold map PATH           maps it, closes it, and stores "mapped" at its start when the input ends
 *     hold append PATH        opens it, appends a line, closes it, over and over
 *     hold create DIRECTORY   creates a file with a line in it, closes, reads it back and deletes it, over and over
 *
 * Prints "ready" once it does so, and at the end how often it was done. Any error: one line, status 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void wait_for_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static int has_ended(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static unsigned long hold_with(const char *path, int flags)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

	if (fd < 0)
		die("open");
	say_ready();
	wait_for_end();
	return 1;
}

static unsigned long hold_open(const char *path)
{
	return hold_with(path, 0);
}

static unsigned long hold_claimed(const char *path)
{
	return hold_with(path, O_EXCL);
}

static unsigned long hold_mapped(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char *memory;

	if (fd < 0)
		die("open");
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	close(fd);
	say_ready();
	wait_for_end();
	memcpy(memory, "mapped", 6);
	return munmap(memory, 4096) == 0;
}

static unsigned long append(const char *path)
{
	unsigned long count = 0;

	while (!has_ended()) {
		AUTO_FD int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

		if (fd < 0)
			die("open");
		if (write(fd, "line\n", 5) != 5)
			die("write");
		if (count++ == 0)
			say_ready();
	}
	return count;
}

static void create_once(int dir, const char *name)
{
	AUTO_FD int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	char text[8] = "";

	if (fd < 0)
		die("create");
	if (write(fd, "line\n", 5) != 5)
		die("write");
	cleanup_fd(&fd);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("open again");
	if (read(fd, text, sizeof(text)) != 5 || memcmp(text, "line\n", 5) != 0)
		die("read back");
	if (unlinkat(dir, name, 0) < 0)
		die("unlink");
}

static unsigned long create(const char *path)
{
	unsigned long count = 0;
	char name[600];

	/* By path each time, so that the hand-off is walked into. */
	snprintf(name, sizeof(name), "%s/created-%d", path, (int)getpid());
	while (!has_ended()) {
		create_once(AT_FDCWD, name);
		if (count++ == 0)
			say_ready();
	}
	return count;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned long (*hold)(const char *path);
	} ways[] = {
		{ "open", hold_open }, { "claim", hold_claimed }, { "map", hold_mapped },
		{ "append", append },  { "create", create },
	};

	for (size_t i = 0; argc == 3 && i < ARRAY_SIZE(ways); i++) {
		if (strcmp(argv[1], ways[i].name) == 0) {
			printf("%lu\n", ways[i].hold(argv[2]));
			return EXIT_SUCCESS;
		}
	}
	fprintf(stderr, "usage: hold open|claim|map|append|create PATH\n");
	return 2;
}
