// SPDX-License-Identifier: Apache-2.0

/*
 * attacker: who has the lower tree in his hands, and who uses the overlay meanwhile.
 *
 *     attacker prepare LOWER OUTSIDE   fills LOWER with ARENAS directories: files, directories, FIFOs, and symbolic links
 *                                      that lead to OUTSIDE and to LOWER/trap
 *     attacker swap LOWER              exchanges them all the time until its standard input ends; prints how often
 *     attacker consume TARGET ROUNDS   each round does every operation once, somewhere; prints which succeeded how often
 *     attacker setgid TARGET LOWER ROUNDS  makes files in the directory TARGET and puts a set-group-ID program of his
 *                                      own in their place; fails when that gets another group and keeps the bit
 *     attacker watch PATH...           until its standard input ends; prints every access to the PATHs and their number
 *
 * The consumer follows no link himself: what is reached behind one, the server reached. What belongs to
 * CANARY_UID lies behind the links only; a consumer who sees it has been shown what is not in the volume.
 * swap and watch print "ready" once they do so. Any surprise: one line, status 1.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"

enum { ARENAS = 48, SWAPPERS = 2, CANARY_UID = 31337, EVENTS_SHOWN = 20 };

static void die(const char *what)
{
	printf("%s: %m\n", what);
	exit(EXIT_FAILURE);
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

static int has_ended(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* A generator of the thread's own: which arena, which name. */
static unsigned pick(unsigned below)
{
	static _Thread_local unsigned state;

	while (state == 0) {
		if (getrandom(&state, sizeof(state), 0) != sizeof(state))
			die("getrandom");
	}
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void open_arenas(const char *tree, int ret_arenas[ARENAS])
{
	AUTO_FD int root = open_dir(AT_FDCWD, tree);

	for (int i = 0; i < ARENAS; i++) {
		char name[24];

		snprintf(name, sizeof(name), "arena-%d", i);
		ret_arenas[i] = open_dir(root, name);
		if (ret_arenas[i] < 0)
			die(name);
	}
}

/* ---- prepare ---- */

static void make_file(int dir, const char *name)
{
	AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	if (fd < 0 || dprintf(fd, "of the volume\n") < 0 || fchown(fd, 1000, 1000) < 0)
		die(name);
}

static void make_dir(int dir, const char *name)
{
	AUTO_FD int fd = -1;

	if (mkdirat(dir, name, 0750) < 0 || (fd = open_dir(dir, name)) < 0 ||
	    fchown(fd, 1000, 1000) < 0)
		die(name);
	make_file(fd, "file");
	make_file(fd, "other");
}

/*
 * link-d and link-f lead out of the volume by an absolute and by a relative path, or to the trap by one
 * that is absolute where the lower tree is the root.
 */
static void make_arena(int root, int number, const char *outside)
{
	char name[24], path[4200];
	AUTO_FD int dir = -1;

	snprintf(name, sizeof(name), "arena-%d", number);
	make_dir(root, name);
	dir = open_dir(root, name);
	if (dir < 0)
		die(name);
	make_dir(dir, "d");
	make_dir(dir, "elsewhere");
	make_file(dir, "f");
	if (mkfifoat(dir, "fifo", 0660) < 0)
		die("mkfifo");
	snprintf(path, sizeof(path), "%s",
		 number % 3 == 0 ? outside :
		 number % 3 == 1 ? "../../outside" :
				   "/trap");
	if (symlinkat(path, dir, "link-d") < 0)
		die("symlink");
	strcat(path, "/canary");
	if (symlinkat(path, dir, "link-f") < 0)
		die("symlink");
}

static int prepare(char **arguments)
{
	AUTO_FD int root = open_dir(AT_FDCWD, arguments[0]);

	if (root < 0)
		die(arguments[0]);
	for (int i = 0; i < ARENAS; i++)
		make_arena(root, i, arguments[1]);
	return EXIT_SUCCESS;
}

/* ---- swap ---- */

static const char *const made_names[] = { "n0", "n1", "n2", "n3" };

/* In the place of what a consumer has just made: a link that leads out. */
static void replace_made(int arena)
{
	const char *name = made_names[pick(ARRAY_SIZE(made_names))];
	char target[4200];
	AUTO_FD int dir = open_dir(arena, "d");
	ssize_t len = readlinkat(arena, pick(2) ? "link-d" : "link-f", target, sizeof(target) - 1);

	if (dir < 0 || len < 0)
		return;
	target[len] = '\0';
	unlinkat(dir, "trick", 0);
	if (symlinkat(target, dir, "trick") == 0 &&
	    renameat2(dir, "trick", dir, name, pick(2) ? RENAME_EXCHANGE : 0) == 0)
		unlinkat(dir, pick(2) ? name : "trick", pick(2) ? AT_REMOVEDIR : 0);
}

static void move_away(int arena)
{
	if (renameat(arena, "d", arena, "elsewhere/d") == 0)
		renameat(arena, "elsewhere/d", arena, "d");
	/* What a consumer could not move back, because there was something else meanwhile. */
	renameat2(arena, "moved", arena, "d", RENAME_NOREPLACE);
}

static void exchange(int arena, const char *a, const char *b)
{
	/* Back in most cases: whoever looks finds the real thing often enough. */
	if (renameat2(arena, a, arena, b, RENAME_EXCHANGE) == 0 && pick(16) > 0)
		renameat2(arena, a, arena, b, RENAME_EXCHANGE);
}

/* Every name is again what prepare() made of it. */
static void put_back(int arena)
{
	static const struct {
		const char *name, *other;
		mode_t type;
	} wanted[] = {
		{ "d", "link-d", S_IFDIR },
		{ "f", "link-f", S_IFREG },
		{ "f", "fifo", S_IFREG },
		{ "link-f", "fifo", S_IFLNK },
	};
	struct stat st;

	renameat2(arena, "elsewhere/d", arena, "d", RENAME_NOREPLACE);
	renameat2(arena, "moved", arena, "d", RENAME_NOREPLACE);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (fstatat(arena, wanted[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_mode & S_IFMT) != wanted[i].type)
			renameat2(arena, wanted[i].name, arena, wanted[i].other, RENAME_EXCHANGE);
	}
}

static atomic_bool is_over;
static int swap_arenas[ARENAS];

static void *swap_thread(void *argument)
{
	unsigned long *count = argument;

	for (; !atomic_load(&is_over); ++*count) {
		int arena = swap_arenas[pick(ARENAS)];

		switch (pick(8)) {
		case 0:
		case 1:
			exchange(arena, "d", "link-d");
			break;
		case 2:
			exchange(arena, "f", "link-f");
			break;
		case 3:
			exchange(arena, "f", "fifo");
			break;
		case 4:
			move_away(arena);
			break;
		case 5:
			put_back(arena);
			break;
		default:
			replace_made(arena);
		}
	}
	return NULL;
}

static int swap(char **arguments)
{
	pthread_t threads[SWAPPERS];
	unsigned long counts[SWAPPERS] = { 0 }, sum = 0;
	char byte;

	open_arenas(arguments[0], swap_arenas);
	for (int i = 0; i < SWAPPERS; i++) {
		if (pthread_create(&threads[i], NULL, swap_thread, &counts[i]) != 0)
			die("thread");
	}
	say_ready();
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	atomic_store(&is_over, true);
	for (int i = 0; i < SWAPPERS; i++) {
		pthread_join(threads[i], NULL);
		sum += counts[i];
	}
	for (int i = 0; i < ARENAS; i++)
		put_back(swap_arenas[i]);
	printf("%lu\n", sum);
	return EXIT_SUCCESS;
}

/* ---- consume ---- */

/* What a consumer may be answered in a tree that changes under him. */
static int is_expected(int error)
{
	static const int expected[] = { ENOENT,	   EEXIST, ENOTDIR, EISDIR,    ELOOP, ESTALE,
					ENOTEMPTY, EACCES, EPERM,   EINVAL,    ENXIO, EXDEV,
					ENODATA,   EBUSY,  EMLINK,  EOPNOTSUPP };

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		if (expected[i] == error)
			return 1;
	}
	return 0;
}

static const char *made(void)
{
	return made_names[pick(ARRAY_SIZE(made_names))];
}

static void unmake(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) < 0)
		unlinkat(dir, name, AT_REMOVEDIR);
}

/* The calls that know only paths: the last component is not followed, and the others are a descriptor. */
static const char *path_of(int dir, const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	return path;
}

static int op_create(int arena, int dir)
{
	AUTO_FD int fd =
		openat(dir, made(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0660);

	(void)arena;
	return fd < 0 ? -1 : (int)write(fd, "made", 4);
}

static int op_mkdir(int arena, int dir)
{
	(void)arena;
	return mkdirat(dir, made(), 0770);
}

static int op_mknod(int arena, int dir)
{
	(void)arena;
	return mknodat(dir, made(), (pick(2) ? S_IFIFO : S_IFREG) | 0660, 0);
}

static int op_symlink(int arena, int dir)
{
	(void)arena;
	return symlinkat("nowhere", dir, made());
}

static int op_link(int arena, int dir)
{
	return pick(2) ? linkat(dir, "file", dir, made(), 0) : linkat(arena, "f", dir, made(), 0);
}

static int op_tmpfile(int arena, int dir)
{
	AUTO_FD int fd = openat(dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0640);
	char path[32];

	(void)arena;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : linkat(AT_FDCWD, path, dir, made(), AT_SYMLINK_FOLLOW);
}

static int op_rename(int arena, int dir)
{
	switch (pick(3)) {
	case 0:
		return renameat(dir, made(), dir, made());
	case 1:
		return renameat2(dir, made(), dir, made(), RENAME_EXCHANGE);
	default:
		if (renameat(arena, "d", arena, "moved") < 0)
			return -1;
		return renameat2(arena, "moved", arena, "d", RENAME_NOREPLACE);
	}
}

static int op_unlink(int arena, int dir)
{
	(void)arena;
	return unlinkat(dir, made(), 0);
}

static int op_rmdir(int arena, int dir)
{
	(void)arena;
	return unlinkat(dir, made(), AT_REMOVEDIR);
}

/* One of the names that are exchanged, pinned; from here on it is one file. */
static int pin(int arena, int dir)
{
	static const char *const names[] = { "d", "f", "fifo", "link-d" };

	return pick(2) ? openat(arena, names[pick(ARRAY_SIZE(names))],
				O_PATH | O_NOFOLLOW | O_CLOEXEC) :
			 openat(dir, pick(2) ? "file" : made(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static int op_chmod(int arena, int dir)
{
	AUTO_FD int fd = pin(arena, dir);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : chmod(path, pick(2) ? 0770 : 0775);
}

static int op_chown(int arena, int dir)
{
	AUTO_FD int fd = pin(arena, dir);

	return fd < 0 ? -1 : fchownat(fd, "", (uid_t)-1, (gid_t)-1, AT_EMPTY_PATH);
}

static int op_times(int arena, int dir)
{
	AUTO_FD int fd = pin(arena, dir);

	return fd < 0 ? -1 : utimensat(fd, "", NULL, AT_EMPTY_PATH);
}

static int op_truncate(int arena, int dir)
{
	AUTO_FD int fd = pin(arena, dir);
	struct stat st;
	char path[32];

	/* Not the FIFO: opening it is the consumer's own affair. */
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return S_ISREG(st.st_mode) ? truncate(path, 4) : 0;
}

static int op_setxattr(int arena, int dir)
{
	return pick(2) ? lsetxattr(path_of(arena, "f"), "user.test", "value", 5, 0) :
			 lsetxattr(path_of(dir, made()), "user.test", "value", 5, 0);
}

static int op_getxattr(int arena, int dir)
{
	char value[16];

	return (int)(pick(2) ? lgetxattr(path_of(arena, "f"), "user.test", value, sizeof(value)) :
			       lgetxattr(path_of(dir, "file"), "user.test", value, sizeof(value)));
}

static int op_removexattr(int arena, int dir)
{
	return pick(2) ? lremovexattr(path_of(arena, "f"), "user.test") :
			 lremovexattr(path_of(dir, made()), "user.test");
}

static int op_acl(int arena, int dir)
{
	/* user::rw-, user:1002:rw-, group::rw-, mask::rw-, other::--- */
	static const unsigned char acl[] = {
		2, 0,	 0,   0,   1,	0,   6,	 0, 255, 255, 255, 255, 2,   0,	  6,
		0, 0xea, 3,   0,   0,	4,   0,	 6, 0,	 255, 255, 255, 255, 16,  0,
		6, 0,	 255, 255, 255, 255, 32, 0, 0,	 0,   255, 255, 255, 255,
	};

	return pick(2) ? lsetxattr(path_of(arena, "f"), "system.posix_acl_access", acl, sizeof(acl),
				   0) :
			 lsetxattr(path_of(dir, made()), "system.posix_acl_access", acl,
				   sizeof(acl), 0);
}

static int op_read(int arena, int dir)
{
	AUTO_FD int fd =
		pick(2) ? openat(arena, "f", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) :
			  openat(dir, "file", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[64] = "";

	if (fd < 0)
		return -1;
	/* Without a writer the FIFO is at its end, and empty (EAGAIN) where the other consumer has just opened it. */
	if (read(fd, text, sizeof(text) - 1) < 0 && errno != EAGAIN)
		return -1;
	if (strstr(text, "CANARY")) {
		printf("read a canary\n");
		exit(EXIT_FAILURE);
	}
	return 0;
}

static int op_write(int arena, int dir)
{
	AUTO_FD int fd =
		pick(2) ? openat(arena, "f", O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) :
			  openat(dir, "file",
				 O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -1;
	/* The other consumer was the FIFO's reader, and has gone. */
	return write(fd, "text", 4) < 0 && errno != EPIPE ? -1 : 0;
}

static void check_stat(const struct stat *st, const char *name)
{
	if (st->st_uid != CANARY_UID)
		return;
	printf("%s shows a file from outside\n", name);
	exit(EXIT_FAILURE);
}

static int op_list(int arena, int dir)
{
	int fd = pick(2) ? open_dir(arena, ".") : open_dir(dir, ".");
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;

	if (!stream)
		return -1;
	while ((errno = 0, entry = readdir(stream))) {
		if (strcmp(entry->d_name, "..") != 0 &&
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			check_stat(&st, entry->d_name);
	}
	closedir(stream);
	return 0;
}

static int op_readlink(int arena, int dir)
{
	char target[4200];

	return (int)(pick(2) ? readlinkat(arena, "link-d", target, sizeof(target)) :
			       readlinkat(dir, made(), target, sizeof(target)));
}

static struct {
	const char *name;
	int (*act)(int arena, int dir);
	unsigned long done, refused;
} operations[] = {
	{ "create", op_create },     { "mkdir", op_mkdir },
	{ "mknod", op_mknod },	     { "symlink", op_symlink },
	{ "link", op_link },	     { "tmpfile", op_tmpfile },
	{ "rename", op_rename },     { "unlink", op_unlink },
	{ "rmdir", op_rmdir },	     { "chmod", op_chmod },
	{ "chown", op_chown },	     { "times", op_times },
	{ "truncate", op_truncate }, { "setxattr", op_setxattr },
	{ "getxattr", op_getxattr }, { "removexattr", op_removexattr },
	{ "acl", op_acl },	     { "read", op_read },
	{ "write", op_write },	     { "list", op_list },
	{ "readlink", op_readlink },
};

/*
 * An arena whose d is a directory just now, and that directory. The kernel remembers a name for a second:
 * where it has seen the link, it will for that long.
 */
static int open_some(const int arenas[ARENAS], int *ret_arena)
{
	for (int i = 0; i < ARENAS; i++) {
		int dir;

		*ret_arena = arenas[pick(ARENAS)];
		dir = open_dir(*ret_arena, "d");
		if (dir >= 0)
			return dir;
		if (!is_expected(errno))
			die("d");
	}
	return -1;
}

/* Every operation once, each in another arena. */
static void consume_round(const int arenas[ARENAS])
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		int arena;
		AUTO_FD int dir = open_some(arenas, &arena);

		if (dir >= 0 && pick(3) == 0)
			unmake(dir, made());
		if (dir >= 0 && operations[i].act(arena, dir) >= 0)
			operations[i].done++;
		else if (dir < 0 || is_expected(errno))
			operations[i].refused++;
		else
			die(operations[i].name);
	}
}

static int consume(char **arguments)
{
	int arenas[ARENAS];
	uint64_t rounds = 0;

	if (parse_u64(arguments[1], &rounds) < 0)
		return 2;
	umask(0);
	signal(SIGPIPE, SIG_IGN);
	open_arenas(arguments[0], arenas);
	for (uint64_t i = 0; i < rounds; i++)
		consume_round(arenas);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		printf("%s:%lu/%lu ", operations[i].name, operations[i].done,
		       operations[i].done + operations[i].refused);
		if (operations[i].done == 0) {
			printf("%s never succeeded\n", operations[i].name);
			return EXIT_FAILURE;
		}
	}
	putchar('\n');
	return EXIT_SUCCESS;
}

/* ---- setgid ---- */

static void *replace_thread(void *argument)
{
	int lower = *(const int *)argument;

	while (!atomic_load(&is_over)) {
		if (linkat(lower, "program", lower, "trick", 0) < 0 && errno != EEXIST)
			die("link");
		renameat(lower, "trick", lower, "made");
	}
	return NULL;
}

static int make_setgid(char **arguments)
{
	AUTO_FD int target = open_dir(AT_FDCWD, arguments[0]);
	AUTO_FD int lower = open_dir(AT_FDCWD, arguments[1]);
	AUTO_FD int program =
		openat(lower, "program", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	uint64_t rounds = 0;
	pthread_t thread;
	struct stat before, st;

	if (parse_u64(arguments[2], &rounds) < 0)
		return 2;
	if (target < 0 || program < 0 || fchown(program, (uid_t)-1, getegid()) < 0 ||
	    fchmod(program, 02755) < 0 || fstat(program, &before) < 0 ||
	    !(before.st_mode & S_ISGID) ||
	    pthread_create(&thread, NULL, replace_thread, &lower) != 0)
		die("program");
	for (uint64_t i = 0; i < rounds; i++) {
		mknodat(target, "made", S_IFREG | 0644, 0);
		if (fstat(program, &st) < 0)
			die("program");
		if (st.st_gid != before.st_gid && st.st_mode & S_ISGID) {
			printf("after %ju rounds: a set-group-ID program of group %u\n",
			       (uintmax_t)i, st.st_gid);
			return EXIT_FAILURE;
		}
		/* Back to the start where it was only given to the group. */
		if (st.st_gid != before.st_gid &&
		    (fchown(program, (uid_t)-1, before.st_gid) < 0 || fchmod(program, 02755) < 0))
			die("chown");
		unlinkat(target, "made", 0);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	unlinkat(lower, "program", 0);
	unlinkat(lower, "trick", 0);
	return EXIT_SUCCESS;
}

/* ---- watch ---- */

static unsigned long print_events(int fd, unsigned long already, char **paths, const int *watches)
{
	char buffer[65536] __attribute__((aligned(8)));
	ssize_t n = read(fd, buffer, sizeof(buffer));
	unsigned long count = 0;

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const void *)(buffer + at);
		char quoted[1100];
		int i = 0;

		while (paths[i] && watches[i] != event->wd)
			i++;
		if (already + count++ < EVENTS_SHOWN)
			printf("event %#x at %s %s\n", event->mask, paths[i] ? paths[i] : "?",
			       log_quote(event->len ? event->name : "", quoted, sizeof(quoted)));
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	return count;
}

static int watch(char **paths)
{
	AUTO_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	unsigned long count = 0;
	AUTO_FREE int *watches = NULL;
	int n = 0;

	while (paths[n])
		n++;
	watches = calloc((size_t)n, sizeof(*watches));
	if (fd < 0 || !watches)
		die("inotify");
	for (int i = 0; i < n; i++) {
		watches[i] = inotify_add_watch(fd, paths[i], IN_ALL_EVENTS);
		if (watches[i] < 0)
			die(paths[i]);
	}
	say_ready();
	while (!has_ended()) {
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = STDIN_FILENO, .events = POLLIN } };

		if (poll(p, ARRAY_SIZE(p), -1) > 0 && p[0].revents)
			count += print_events(fd, count, paths, watches);
	}
	count += print_events(fd, count, paths, watches);
	printf("%lu\n", count);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int arguments; /* -n: at least n */
		int (*act)(char **arguments);
	} commands[] = {
		{ "prepare", 2, prepare },    { "swap", 1, swap },    { "consume", 2, consume },
		{ "setgid", 3, make_setgid }, { "watch", -1, watch },
	};

	for (size_t i = 0; argc >= 3 && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name) == 0 &&
		    (commands[i].arguments == argc - 2 || commands[i].arguments == -1))
			return commands[i].act(argv + 2);
	}
	fprintf(stderr,
		"usage: attacker prepare LOWER OUTSIDE | swap LOWER | consume TARGET ROUNDS | setgid TARGET LOWER ROUNDS | watch PATH...\n");
	return 2;
}
