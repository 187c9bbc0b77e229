// SPDX-License-Identifier: Apache-2.0
/*
 * beyond: what a file system may be asked for and FUSE does not pass on.
 *
 *     beyond FILE OTHER [PID]   asks for each of it with FILE, and with OTHER where it takes two; both are 256 KiB at
 *                               least, and their first 256 KiB are written over
 *
 * Prints a line for each: its name and "ok" or the errno. With PID, the server of an overlay, one number more: how many
 * requests it has read meanwhile (syscr of /proc/PID/io: it reads nothing else). Status 1 where something else fails.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum { BLOCK = 64 * 1024, FILE_SIZE = 4 * BLOCK, PAGE = 4096 };

/* Newer than some headers; values of the kernel's uapi. */
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

static const char *path, *server;
static int file = -1, other = -1;

static void die(const char *what)
{
	printf("%s: %m\n", what);
	exit(EXIT_FAILURE);
}

/* A file without holes, which could be swapped to (mkswap(8)). */
static void fill(int fd)
{
	static char bytes[FILE_SIZE];
	uint32_t header[] = { 1, FILE_SIZE / PAGE - 1 };

	memset(bytes, 'x', sizeof(bytes));
	memset(bytes, 0, PAGE);
	memcpy(bytes + 1024, header, sizeof(header));
	memcpy(bytes + PAGE - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) || fsync(fd) < 0)
		die("write");
}

/* ---- one function each: 0 or -1 with errno ---- */

static int fiemap(void)
{
	struct fiemap map = { .fm_length = FILE_SIZE };

	return ioctl(file, FS_IOC_FIEMAP, &map);
}

static int collapse(void)
{
	return fallocate(file, FALLOC_FL_COLLAPSE_RANGE, BLOCK, BLOCK);
}

static int insert(void)
{
	return fallocate(file, FALLOC_FL_INSERT_RANGE, BLOCK, BLOCK);
}

static int unshare_range(void)
{
	return fallocate(file, FALLOC_FL_UNSHARE_RANGE, 0, BLOCK);
}

static int reflink(void)
{
	return ioctl(other, FICLONE, file);
}

static int reflink_range(void)
{
	struct file_clone_range range = { .src_fd = file, .src_length = BLOCK };

	return ioctl(other, FICLONERANGE, &range);
}

static int dedupe(void)
{
	union {
		struct file_dedupe_range range;
		char room[sizeof(struct file_dedupe_range) + sizeof(struct file_dedupe_range_info)];
	} u = { .range = { .src_offset = BLOCK, .src_length = BLOCK, .dest_count = 1 } };

	u.range.info[0].dest_fd = other;
	u.range.info[0].dest_offset = BLOCK;
	if (ioctl(file, FIDEDUPERANGE, &u.range) < 0)
		return -1;
	if (u.range.info[0].status >= 0)
		return 0;
	errno = -u.range.info[0].status;
	return -1;
}

static int swap_file(void)
{
	if (swapon(path, 0) < 0)
		return -1;
	if (swapoff(path) < 0)
		die("swapoff");
	return 0;
}

static int quota(void)
{
	uint32_t format;

	/* QCMD() shifts the command out of an int. */
	return (int)syscall(SYS_quotactl_fd, file, QCMD((unsigned)Q_GETFMT, USRQUOTA), 0, &format);
}

static int uncached_read(void)
{
	char bytes[PAGE];
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };

	return preadv2(file, &iov, 1, 0, RWF_DONTCACHE) < 0 ? -1 : 0;
}

static int uncached_write(void)
{
	char bytes[PAGE] = "";
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };

	return pwritev2(file, &iov, 1, 3 * BLOCK, RWF_DONTCACHE) < 0 ? -1 : 0;
}

static const struct {
	const char *name;
	int (*ask)(void);
} rows[] = {
	/* The first: not to files that share blocks. */
	{ "swapon", swap_file },
	{ "FIEMAP", fiemap },
	{ "FALLOC_FL_COLLAPSE_RANGE", collapse },
	{ "FALLOC_FL_INSERT_RANGE", insert },
	{ "FALLOC_FL_UNSHARE_RANGE", unshare_range },
	{ "FICLONE", reflink },
	{ "FICLONERANGE", reflink_range },
	{ "FIDEDUPERANGE", dedupe },
	{ "quotactl", quota },
	{ "RWF_DONTCACHE read", uncached_read },
	{ "RWF_DONTCACHE write", uncached_write },
};

static unsigned long long requests_read(void)
{
	unsigned long long count = 0;
	bool found = false;
	char line[128];
	FILE *io = fopen(server, "re");

	while (io && !found && fgets(line, sizeof(line), io))
		found = sscanf(line, "syscr: %llu", &count) == 1;
	if (!found)
		die(server);
	fclose(io);
	return count;
}

static void ask(size_t row)
{
	unsigned long long before = 0;
	int r, error;

	fill(file);
	fill(other);
	if (server)
		before = requests_read();
	r = rows[row].ask();
	error = errno;
	printf("%s %s", rows[row].name, r < 0 ? strerrorname_np(error) : "ok");
	if (server)
		printf(" %llu", requests_read() - before);
	putchar('\n');
}

int main(int argc, char **argv)
{
	char io[64];

	if (argc < 3)
		return 2;
	path = argv[1];
	if (argc > 3) {
		snprintf(io, sizeof(io), "/proc/%s/io", argv[3]);
		server = io;
	}
	file = open(path, O_RDWR | O_CLOEXEC);
	other = open(argv[2], O_RDWR | O_CLOEXEC);
	if (file < 0 || other < 0)
		die("open");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ask(i);
	return EXIT_SUCCESS;
}
