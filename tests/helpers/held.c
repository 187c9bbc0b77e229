// SPDX-License-Identifier: Apache-2.0

/*
 * held: what stays usable through a descriptor when the name is gone, and file handles.
 *
 *     held file DIR         a file open for reading and writing, deleted
 *     held path DIR         a file held by an O_PATH descriptor only, deleted
 *     held renamed DIR      the same, replaced by rename(2)
 *     held tmpfile DIR      a file that never had a name, and gets one at the end
 *     held directory DIR    a directory that is somebody's working directory, removed
 *     held many DIR N       as many files as that open at once
 *     held handles DIR N    handles of N files and directories: at once, forgotten, and after deletion
 *
 * Each looks, makes the kernel forget what it can (as root), and looks again. Nothing is printed when all is
 * well; else one line, and the status is 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

enum { HANDLE_BYTES = 128, HANDLES_MAX = 4096, HELD = 30 };

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
	va_list args;

	printf("#  ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	exit(EXIT_FAILURE);
}

static void must(int result, const char *what)
{
	if (result < 0)
		fail("%s: %s", what, strerror(errno));
}

/* The kernel forgets names and inodes that nobody holds. */
static void drop_caches(void)
{
	AUTO_FD int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	must(fd, "drop_caches");
	must((int)write(fd, "2\n", 2), "drop_caches");
}

static const char *fd_path(int fd)
{
	static char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

/* Attributes of a nameless object can be read and changed; @mode_change is of its own each time. */
static void use_nameless(int fd, nlink_t links, mode_t mode_change, const char *when)
{
	struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = mode_change } };
	struct stat before, st;

	if (fstat(fd, &before) < 0)
		fail("%s: stat: %s", when, strerror(errno));
	if (before.st_nlink != links)
		fail("%s: %ju links instead of %ju", when, (uintmax_t)before.st_nlink,
		     (uintmax_t)links);
	if (chmod(fd_path(fd), mode_change) < 0)
		fail("%s: chmod: %s", when, strerror(errno));
	if (chown(fd_path(fd), 1234, (gid_t)-1) < 0)
		fail("%s: chown: %s", when, strerror(errno));
	if (utimensat(AT_FDCWD, fd_path(fd), times, 0) < 0)
		fail("%s: utimensat: %s", when, strerror(errno));
	if (fstat(fd, &st) < 0)
		fail("%s: stat again: %s", when, strerror(errno));
	if ((st.st_mode & 07777) != mode_change || st.st_uid != 1234 ||
	    st.st_mtime != (time_t)mode_change || st.st_ino != before.st_ino)
		fail("%s: not the file that was changed", when);
}

static void use_content(int fd, const char *text, off_t size, const char *when)
{
	char content[64] = "";
	struct stat st;

	if (pread(fd, content, sizeof(content) - 1, 0) < 0)
		fail("%s: read: %s", when, strerror(errno));
	if (strcmp(content, text) != 0)
		fail("%s: \"%s\" instead of \"%s\"", when, content, text);
	if (ftruncate(fd, size) < 0)
		fail("%s: ftruncate: %s", when, strerror(errno));
	must(fstat(fd, &st), when);
	if (st.st_size != size)
		fail("%s: %jd bytes instead of %jd", when, (intmax_t)st.st_size, (intmax_t)size);
}

static int make_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);

	must(fd, name);
	must((int)write(fd, text, strlen(text)), name);
	return fd;
}

static void hold_file(int dir)
{
	AUTO_FD int fd = make_file(dir, "held", "content");
	AUTO_FD int again = -1;

	must(unlinkat(dir, "held", 0), "unlink");
	use_nameless(fd, 0, 0640, "deleted");
	use_content(fd, "content", 4, "deleted");
	drop_caches();
	use_nameless(fd, 0, 0600, "forgotten");
	use_content(fd, "cont", 2, "forgotten");
	again = open(fd_path(fd), O_RDWR | O_CLOEXEC);
	must(again, "open through /proc");
	use_content(again, "co", 1, "opened again");
}

/* From an O_PATH descriptor one gets to the content through /proc. */
static void use_path(int fd, const char *text, off_t size, const char *when)
{
	AUTO_FD int file = open(fd_path(fd), O_RDWR | O_CLOEXEC);

	if (file < 0)
		fail("%s: open: %s", when, strerror(errno));
	use_content(file, text, size, when);
}

static void hold_path_after(int dir, void (*remove)(int dir, const char *name))
{
	AUTO_FD int file = make_file(dir, "held", "content");
	AUTO_FD int fd = openat(dir, "held", O_PATH | O_CLOEXEC);

	must(fd, "O_PATH");
	cleanup_fd(&file);
	drop_caches();
	remove(dir, "held");
	use_nameless(fd, 0, 0640, "deleted");
	use_path(fd, "content", 4, "deleted");
	drop_caches();
	use_nameless(fd, 0, 0600, "forgotten");
	use_path(fd, "cont", 2, "forgotten");
}

static void remove_by_unlink(int dir, const char *name)
{
	must(unlinkat(dir, name, 0), "unlink");
}

static void remove_by_rename(int dir, const char *name)
{
	close(make_file(dir, "other", "other"));
	must(renameat(dir, "other", dir, name), "rename");
	must(unlinkat(dir, name, 0), "unlink");
}

static void hold_path(int dir)
{
	hold_path_after(dir, remove_by_unlink);
}

static void hold_renamed(int dir)
{
	hold_path_after(dir, remove_by_rename);
}

static void hold_tmpfile(int dir)
{
	AUTO_FD int fd = openat(dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0660);
	AUTO_FD int found = -1;

	must(fd, "O_TMPFILE");
	must((int)write(fd, "content", 7), "write");
	use_nameless(fd, 0, 0640, "nameless");
	drop_caches();
	use_nameless(fd, 0, 0600, "forgotten");
	use_content(fd, "content", 4, "forgotten");
	must(linkat(AT_FDCWD, fd_path(fd), dir, "named", AT_SYMLINK_FOLLOW), "linkat");
	use_nameless(fd, 1, 0640, "named");
	found = openat(dir, "named", O_RDWR | O_CLOEXEC);
	must(found, "open by its new name");
	use_content(found, "cont", 3, "found by its new name");
	must(unlinkat(dir, "named", 0), "unlink");
	drop_caches();
	use_nameless(fd, 0, 0660, "deleted again");
}

static void hold_directory(int dir)
{
	struct stat st;

	must(mkdirat(dir, "held", 0770), "mkdir");
	must(fchdir(dir), "chdir");
	must(chdir("held"), "chdir");
	must(unlinkat(dir, "held", AT_REMOVEDIR), "rmdir");
	for (int i = 0; i < 2; i++) {
		const char *when = i == 0 ? "removed" : "forgotten";
		AUTO_FD int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		must(stat(".", &st), when);
		must(fd, when);
		must(chmod(".", i == 0 ? 0700 : 0750), when);
		if (open("new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != ENOENT)
			fail("%s: a file was made in it", when);
		drop_caches();
	}
	must(chdir("/"), "chdir");
}

static void hold_many(int dir, uint64_t count)
{
	AUTO_FREE int *fds = calloc(count, sizeof(*fds));
	char name[32], text[32];

	if (!fds)
		fail("memory");
	for (uint64_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "many-%u", (unsigned)i);
		fds[i] = make_file(dir, name, name);
	}
	for (uint64_t i = 0; i < count; i++) {
		ssize_t n = pread(fds[i], text, sizeof(text) - 1, 0);

		snprintf(name, sizeof(name), "many-%u", (unsigned)i);
		must((int)n, name);
		text[n] = '\0';
		if (strcmp(text, name) != 0)
			fail("%s contains \"%s\"", name, text);
		must(unlinkat(dir, name, 0), name);
		close(fds[i]);
	}
}

/* ---- handles ---- */

struct handle {
	union {
		struct file_handle head;
		char room[sizeof(struct file_handle) + HANDLE_BYTES];
	};
	ino_t ino;
};

static struct handle handles[HANDLES_MAX];

static void name_of(unsigned i, char ret_name[32])
{
	snprintf(ret_name, 32, "handle-%u", i);
}

static void make_handle(int dir, unsigned i)
{
	struct handle *h = &handles[i];
	char name[32];
	struct stat st;
	int mount_id;

	name_of(i, name);
	if (i % 3 == 0)
		must(mkdirat(dir, name, 0770), name);
	else
		close(make_file(dir, name, name));
	must(fstatat(dir, name, &st, 0), name);
	h->ino = st.st_ino;
	h->head.handle_bytes = HANDLE_BYTES;
	must(name_to_handle_at(dir, name, &h->head, &mount_id, 0), "name_to_handle_at");
}

/* The handle leads to its own file, or, where allowed, nowhere. Returns whether it was found. */
static int open_handle(int dir, unsigned i, int may_be_stale, const char *when)
{
	AUTO_FD int fd = open_by_handle_at(dir, &handles[i].head, O_RDONLY | O_CLOEXEC);
	char name[32], text[32] = "";
	struct stat st;

	name_of(i, name);
	if (fd < 0 && errno == ESTALE && may_be_stale)
		return 0;
	if (fd < 0)
		fail("%s: handle of %s: %s", when, name, strerror(errno));
	must(fstat(fd, &st), when);
	if (st.st_ino != handles[i].ino)
		fail("%s: handle of %s leads to another file", when, name);
	if (S_ISREG(st.st_mode) &&
	    (read(fd, text, sizeof(text) - 1) < 0 || strcmp(text, name) != 0))
		fail("%s: handle of %s leads to \"%s\"", when, name, text);
	return 1;
}

/*
 * A handle is good as long as the kernel knows the inode, or the server must remember it. What both have
 * forgotten has another number when it is seen again: then the handle leads nowhere.
 */
static void use_handles(int dir, uint64_t count)
{
	int held[HELD];
	char name[32];
	unsigned i;

	for (i = 0; i < count; i++)
		make_handle(dir, i);
	for (i = 0; i < HELD; i++) {
		name_of(i, name);
		held[i] = openat(dir, name, O_PATH | O_CLOEXEC);
		must(held[i], name);
	}
	for (i = 0; i < count; i++)
		open_handle(dir, i, 0, "at once");
	drop_caches();
	for (i = 0; i < count; i++)
		open_handle(dir, i, i >= HELD, "forgotten");
	for (i = 0; i < HELD; i++)
		close(held[i]);
	drop_caches();
	for (i = 0; i < count; i += 2) {
		name_of(i, name);
		must(unlinkat(dir, name, i % 3 == 0 ? AT_REMOVEDIR : 0), name);
	}
	/* Others take the places that became free, on the lower tree and in the table. */
	for (i = 0; i < count; i += 2) {
		snprintf(name, sizeof(name), "new-%u", i);
		close(make_file(dir, name, name));
	}
	for (int round = 0; round < 2; round++) {
		for (i = 0; i < count; i++) {
			int found = open_handle(dir, i, 1, "some deleted");

			if (found && i % 2 == 0)
				fail("handle %u of a deleted file leads somewhere", i);
		}
		drop_caches();
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*act)(int dir);
	} ways[] = {
		{ "file", hold_file },		 { "path", hold_path },
		{ "renamed", hold_renamed },	 { "tmpfile", hold_tmpfile },
		{ "directory", hold_directory },
	};
	AUTO_FD int dir = argc >= 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t count = 0;

	umask(0);
	if (dir >= 0 && argc == 4 && parse_u64(argv[3], &count) == 0 && count >= HELD &&
	    count <= HANDLES_MAX) {
		if (strcmp(argv[1], "many") == 0)
			hold_many(dir, count);
		else
			use_handles(dir, count);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; dir >= 0 && argc == 3 && i < ARRAY_SIZE(ways); i++) {
		if (strcmp(argv[1], ways[i].name) == 0) {
			ways[i].act(dir);
			return EXIT_SUCCESS;
		}
	}
	fprintf(stderr,
		"usage: held file|path|renamed|tmpfile|directory DIR | held many|handles DIR N\n");
	return 2;
}
