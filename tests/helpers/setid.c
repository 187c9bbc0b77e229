// SPDX-License-Identifier: Apache-2.0

/*
 * setid: does one thing to each of some files that may take its set-ID bits away, and nothing else.
 *
 *     setid OPERATION PATH...      prints of each that it could not do it to: NAME "errno" NUMBER; then exit status 1
 *
 * Operations: write, append, pwrite, mmap, truncate, ftruncate, open-trunc, creat, fallocate, punch,
 * copy-range, chown-none (-1, -1), lchown-none, fchown-none, chown-group (-1, own group),
 * chown-away (-1, some other group), chmod-same, touch.
 */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

static int with_file(const char *path, int flags, int (*act)(int fd))
{
	AUTO_FD int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : act(fd);
}

static int act_write(int fd)
{
	return (int)write(fd, "x", 1);
}

static int act_pwrite(int fd)
{
	return (int)pwrite(fd, "x", 1, 2);
}

static int act_mmap(int fd)
{
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -1;
	memory[0] = 'm';
	return munmap(memory, 4096);
}

static int act_truncate(int fd)
{
	return ftruncate(fd, 3);
}

static int act_allocate(int fd)
{
	return fallocate(fd, 0, 0, 8192);
}

static int act_punch(int fd)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4);
}

static int act_copy_range(int fd)
{
	off_t in = 0, out = 4;

	return (int)copy_file_range(fd, &in, fd, &out, 2, 0);
}

static int act_chown(int fd)
{
	return fchown(fd, (uid_t)-1, (gid_t)-1);
}

static int act_nothing(int fd)
{
	(void)fd;
	return 0;
}

static int write_at_start(const char *path)
{
	return with_file(path, O_WRONLY, act_write);
}

static int append(const char *path)
{
	return with_file(path, O_WRONLY | O_APPEND, act_write);
}

static int write_in_the_middle(const char *path)
{
	return with_file(path, O_WRONLY, act_pwrite);
}

static int map_and_store(const char *path)
{
	return with_file(path, O_RDWR, act_mmap);
}

static int truncate_by_path(const char *path)
{
	return truncate(path, 3);
}

/* Bits that go with nothing else changed are not dated. */
static int truncate_to_the_same(const char *path)
{
	struct stat before, after;

	if (stat(path, &before) < 0 || truncate(path, before.st_size) < 0 || stat(path, &after) < 0)
		return -1;
	if (memcmp(&before.st_ctim, &after.st_ctim, sizeof(after.st_ctim)) != 0)
		printf("%s dated\n", basename((char *)path));
	return 0;
}

static int truncate_by_file(const char *path)
{
	return with_file(path, O_WRONLY, act_truncate);
}

static int open_truncating(const char *path)
{
	return with_file(path, O_WRONLY | O_TRUNC, act_nothing);
}

static int create_over(const char *path)
{
	return with_file(path, O_WRONLY | O_CREAT | O_TRUNC, act_nothing);
}

static int allocate(const char *path)
{
	return with_file(path, O_WRONLY, act_allocate);
}

static int punch(const char *path)
{
	return with_file(path, O_RDWR, act_punch);
}

static int copy_range(const char *path)
{
	return with_file(path, O_RDWR, act_copy_range);
}

static int chown_nothing(const char *path)
{
	return chown(path, (uid_t)-1, (gid_t)-1);
}

static int lchown_nothing(const char *path)
{
	return lchown(path, (uid_t)-1, (gid_t)-1);
}

static int fchown_nothing(const char *path)
{
	return with_file(path, O_RDONLY, act_chown);
}

static int chown_to_own_group(const char *path)
{
	return chown(path, (uid_t)-1, getegid());
}

static int chown_away(const char *path)
{
	return chown(path, (uid_t)-1, 5555);
}

static int chmod_to_the_same(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : chmod(path, st.st_mode & 07777);
}

static int touch(const char *path)
{
	return utimensat(AT_FDCWD, path, NULL, 0);
}

static const struct {
	const char *name;
	int (*act)(const char *path);
} operations[] = {
	{ "write", write_at_start },
	{ "append", append },
	{ "pwrite", write_in_the_middle },
	{ "mmap", map_and_store },
	{ "truncate", truncate_by_path },
	{ "truncate-same", truncate_to_the_same },
	{ "ftruncate", truncate_by_file },
	{ "open-trunc", open_truncating },
	{ "creat", create_over },
	{ "fallocate", allocate },
	{ "punch", punch },
	{ "copy-range", copy_range },
	{ "chown-none", chown_nothing },
	{ "lchown-none", lchown_nothing },
	{ "fchown-none", fchown_nothing },
	{ "chown-group", chown_to_own_group },
	{ "chown-away", chown_away },
	{ "chmod-same", chmod_to_the_same },
	{ "touch", touch },
};

int main(int argc, char **argv)
{
	int status = EXIT_SUCCESS;

	for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(operations); i++) {
		if (strcmp(argv[1], operations[i].name) != 0)
			continue;
		for (int k = 2; k < argc; k++) {
			if (operations[i].act(argv[k]) >= 0)
				continue;
			printf("%s errno %d\n", basename(argv[k]), errno);
			status = EXIT_FAILURE;
		}
		return status;
	}
	fprintf(stderr, "usage: setid OPERATION PATH...\n");
	return 2;
}
