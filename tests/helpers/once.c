// SPDX-License-Identifier: Apache-2.0

/*
 * once: single calls that no program of the shell makes, for tests that kill an overlay's server in the middle.
 *
 *     once xattr-create FILE NAME VALUE   setxattr(2) with XATTR_CREATE
 *     once exchange A B                   renameat2(2) with RENAME_EXCHANGE
 *     once tmpfile DIR NAME TEXT          a nameless file with that text in DIR, then linked there as NAME
 *     once excl FILE TEXT                 open(2) with O_CREAT | O_EXCL, and the text
 *     once allocate FILE BYTES            fallocate(2)
 *     once make FILE MODE                 mknod(2) of a regular file
 *     once hold PATH                      O_PATH descriptor; prints "held"; at each line of input prints st_ino and st_nlink
 *     once crowd DIR COUNT                makes COUNT files, holds each by O_PATH, removes all, and lets half of them go, not in
 *                                         this order; prints "held"; at each line of input how many of the rest are what they were
 *     once list DIR                       reads some entries, prints "read"; at the end of input the rest, and prints their number
 *     once rewrite FILE COUNT             holds FILE open and writes and reads it back COUNT times, by file and by mapping; 0: until
 *                                         SIGTERM
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "once: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int write_text(int fd, const char *text)
{
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int tmpfile_named(const char *dir, const char *name, const char *text)
{
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY), fd;
	char path[64];

	if (dir_fd < 0 || (fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR, 0640)) < 0)
		return fail("O_TMPFILE");
	if (write_text(fd, text) < 0)
		return fail("write");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return fail("linkat");
	return EXIT_SUCCESS;
}

static int hold(const char *path)
{
	int fd = open(path, O_PATH | O_NOFOLLOW);
	char line[16];
	struct stat st;

	if (fd < 0)
		return fail("O_PATH");
	puts("held");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (fstat(fd, &st) < 0)
			printf("%s\n", strerror(errno));
		else
			printf("%llu %llu\n", (unsigned long long)st.st_ino,
			       (unsigned long long)st.st_nlink);
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}

enum { CROWD_MAX = 1000 };

struct held {
	int fd;
	ino_t ino;
};

static int make_held(int dir_fd, unsigned i, struct held *ret_held)
{
	struct stat st;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "crowd-%u", i);
	fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || close(fd) < 0)
		return -1;
	ret_held->fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW);
	if (ret_held->fd < 0 || fstat(ret_held->fd, &st) < 0)
		return -1;
	ret_held->ino = st.st_ino;
	return unlinkat(dir_fd, name, 0);
}

static int crowd(const char *path, unsigned count)
{
	static struct held held[CROWD_MAX];
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY);
	char line[16];
	struct stat st;

	if (dir_fd < 0 || count > CROWD_MAX)
		return fail("crowd");
	for (unsigned i = 0; i < count; i++) {
		if (make_held(dir_fd, i, &held[i]) < 0)
			return fail("crowd");
	}
	/* Of every four the fourth and then the second. */
	for (unsigned i = 0; i < count / 4; i++) {
		close(held[4 * i + 3].fd);
		close(held[4 * i + 1].fd);
	}
	puts("held");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned same = 0;

		for (unsigned i = 0; i < count; i += 2)
			same += fstat(held[i].fd, &st) == 0 && st.st_ino == held[i].ino &&
				st.st_nlink == 0;
		printf("%u\n", same);
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}

/* One stream: the kernel keeps the place in it, and asks for the next entries by the server's offsets. */
static int list(const char *path)
{
	static char entries[2048];
	int dir = open(path, O_RDONLY | O_DIRECTORY);
	long n, count = 0;

	if (dir < 0)
		return fail(path);
	for (int i = 0; (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0; i++) {
		for (long at = 0; at < n; count++)
			at += ((const struct dirent64 *)(entries + at))->d_reclen;
		if (i == 0) {
			puts("read");
			fflush(stdout);
			while (getchar() != EOF)
				;
		}
	}
	printf("%ld\n", count);
	return n < 0 ? fail(path) : EXIT_SUCCESS;
}

static volatile sig_atomic_t is_ended;

static void on_end(int signal_number)
{
	(void)signal_number;
	is_ended = 1;
}

static int rewrite(const char *path, long count)
{
	const struct sigaction ending = { .sa_handler = on_end, .sa_flags = SA_RESTART };
	enum { BYTES = 16384 };
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0660);
	static char text[BYTES], got[BYTES];
	char *map;

	sigaction(SIGTERM, &ending, NULL);
	if (fd < 0 || ftruncate(fd, BYTES) < 0)
		return fail("open");
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return fail("mmap");
	for (long i = 0; count > 0 ? i < count : !is_ended; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof(text));
		if (i % 2)
			memcpy(map, text, sizeof(text));
		else if (pwrite(fd, text, sizeof(text), 0) != BYTES)
			return fail("pwrite");
		if (pread(fd, got, sizeof(got), 0) != BYTES || memcmp(got, text, BYTES) != 0 ||
		    memcmp(map, text, BYTES) != 0) {
			fprintf(stderr, "once: %s: round %ld is torn\n", path, i);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int fd;

	if (argc == 5 && strcmp(what, "xattr-create") == 0)
		return setxattr(argv[2], argv[3], argv[4], strlen(argv[4]), XATTR_CREATE) < 0 ?
			       fail(argv[2]) :
			       EXIT_SUCCESS;
	if (argc == 4 && strcmp(what, "exchange") == 0)
		return renameat2(AT_FDCWD, argv[2], AT_FDCWD, argv[3], RENAME_EXCHANGE) < 0 ?
			       fail(argv[2]) :
			       EXIT_SUCCESS;
	if (argc == 5 && strcmp(what, "tmpfile") == 0)
		return tmpfile_named(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(what, "excl") == 0) {
		fd = open(argv[2], O_CREAT | O_EXCL | O_WRONLY, 0640);
		return fd < 0 || write_text(fd, argv[3]) < 0 ? fail(argv[2]) : EXIT_SUCCESS;
	}
	if (argc == 4 && strcmp(what, "allocate") == 0) {
		fd = open(argv[2], O_WRONLY);
		return fd < 0 || fallocate(fd, 0, 0, atol(argv[3])) < 0 ? fail(argv[2]) :
									  EXIT_SUCCESS;
	}
	if (argc == 4 && strcmp(what, "make") == 0)
		return mknod(argv[2], S_IFREG | (mode_t)strtoul(argv[3], NULL, 8), 0) < 0 ?
			       fail(argv[2]) :
			       EXIT_SUCCESS;
	if (argc == 3 && strcmp(what, "hold") == 0)
		return hold(argv[2]);
	if (argc == 4 && strcmp(what, "crowd") == 0)
		return crowd(argv[2], (unsigned)atoi(argv[3]));
	if (argc == 3 && strcmp(what, "list") == 0)
		return list(argv[2]);
	if (argc == 4 && strcmp(what, "rewrite") == 0)
		return rewrite(argv[2], atol(argv[3]));
	fprintf(stderr, "once: see the head of its source\n");
	return 2;
}
