// SPDX-License-Identifier: Apache-2.0

/*
 * rates: how fast names and attributes are, one kind of call after the other.
 *
 *     rates calls DIR COUNT THREADS [PID...]   each thread in a directory of its own, made and removed: COUNT files are
 *                                              created, written, looked at, changed, renamed, removed ...
 *     rates list DIR [PID...]                  every entry of DIR: getdents(2) and one fstatat(2) each
 *     rates chmod DIR MODE ID [PID...]         every file of DIR: fchmodat(2), as user and group ID
 *     rates processor [PID...]                 prints what these have taken of it by now, in microseconds
 *
 * Kinds of calls that the file system does not have are left out. Prints a line "NAME CALLS SECONDS OWN SERVER" for each
 * kind: the last two are seconds of processor time, of this program and of the processes PID, which serve the file
 * system.
 */

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/base/parse.h"

enum {
	BUFFER_BYTES = 64 * 1024,
	CONTENT_BYTES = 512,
	NAME_BYTES = 32,
	THREADS_MAX = 64,
	SERVERS_MAX = 8
};

static const char XATTR[] = "user.bench";

/* ---- time ---- */

struct servers {
	int count;
	uint32_t pids[SERVERS_MAX];
};

struct moment {
	double wall, own, server;
};

static void die(const char *what)
{
	fprintf(stderr, "rates: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

static long must(long result, const char *what)
{
	if (result < 0)
		die(what);
	return result;
}

static double seconds_of(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* Processor time of a process, threads that have ended and all; 0 when it is gone. */
static double processor_seconds(uint32_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid((pid_t)pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct moment now(const struct servers *servers)
{
	struct moment m = { 0 };
	struct rusage usage;
	struct timespec t;

	for (int i = 0; i < servers->count; i++)
		m.server += processor_seconds(servers->pids[i]);
	getrusage(RUSAGE_SELF, &usage);
	m.own = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
	clock_gettime(CLOCK_MONOTONIC, &t);
	m.wall = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	return m;
}

static void print_line(const char *name, uint64_t calls, const struct moment *from,
		       const struct servers *servers)
{
	struct moment to = now(servers);

	printf("%s %llu %.6f %.6f %.6f\n", name, (unsigned long long)calls, to.wall - from->wall,
	       to.own - from->own, to.server - from->server);
	fflush(stdout);
}

/* ---- list, chmod ---- */

typedef void (*visit_fn)(int dir, const char *name, mode_t mode);

static void look(int dir, const char *name, mode_t mode)
{
	struct stat st;

	(void)mode;
	must(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), name);
}

static void change_mode(int dir, const char *name, mode_t mode)
{
	must(fchmodat(dir, name, mode, 0), name);
}

static uint64_t visit_all(int dir, visit_fn visit, mode_t mode)
{
	AUTO_FREE char *buffer = malloc(BUFFER_BYTES);
	uint64_t count = 0;
	long n;

	if (!buffer)
		die("memory");
	must(lseek(dir, 0, SEEK_SET), "lseek");
	while ((n = must(syscall(SYS_getdents64, dir, buffer, BUFFER_BYTES), "getdents")) > 0) {
		for (char *at = buffer; at < buffer + n;) {
			const struct dirent64 *entry = (const struct dirent64 *)at;

			at += entry->d_reclen;
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			visit(dir, entry->d_name, mode);
			count++;
		}
	}
	return count;
}

static void visit_path(const char *name, const char *path, visit_fn visit, mode_t mode,
		       const struct servers *servers)
{
	struct moment from = now(servers);
	AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(dir, path);
	print_line(name, visit_all(dir, visit, mode), &from, servers);
}

/* ---- calls ---- */

struct worker {
	pthread_t thread;
	int dir;
	uint64_t count;
	const struct kind *kind;
	char content[CONTENT_BYTES];
};

static void open_close(const struct worker *w, const char *name, int flags)
{
	close((int)must(openat(w->dir, name, flags | O_CLOEXEC, 0644), name));
}

static const char *name_of(char prefix, uint64_t i, char ret_name[NAME_BYTES])
{
	snprintf(ret_name, NAME_BYTES, "%c-%llu", prefix, (unsigned long long)i);
	return ret_name;
}

static void create_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	open_close(w, name_of('f', i, name), O_CREAT | O_EXCL | O_WRONLY);
}

static void write_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];
	AUTO_FD int fd = openat(w->dir, name_of('f', i, name), O_WRONLY | O_CLOEXEC);

	must(fd, name);
	must(write(fd, w->content, sizeof(w->content)), name);
}

static void stat_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	look(w->dir, name_of('f', i, name), 0);
}

static void open_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	open_close(w, name_of('f', i, name), O_RDONLY);
}

static void read_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];
	AUTO_FD int fd = openat(w->dir, name_of('f', i, name), O_RDONLY | O_CLOEXEC);

	must(fd, name);
	must(read(fd, w->content, sizeof(w->content)), name);
}

static void chmod_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	change_mode(w->dir, name_of('f', i, name), 0600);
}

/* xattr calls have no directory descriptor. */
static const char *path_of(const struct worker *w, uint64_t i, char ret_path[2 * NAME_BYTES])
{
	snprintf(ret_path, 2 * NAME_BYTES, "/proc/self/fd/%d/f-%llu", w->dir,
		 (unsigned long long)i);
	return ret_path;
}

static void set_xattr(struct worker *w, uint64_t i)
{
	char path[2 * NAME_BYTES];

	must(setxattr(path_of(w, i, path), XATTR, "value", 5, 0), path);
}

static void get_xattr(struct worker *w, uint64_t i)
{
	char path[2 * NAME_BYTES], value[16];

	must(getxattr(path_of(w, i, path), XATTR, value, sizeof(value)), path);
}

static void link_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES], other[NAME_BYTES];

	must(linkat(w->dir, name_of('f', i, name), w->dir, name_of('l', i, other), 0), other);
}

static void make_symlink(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES], other[NAME_BYTES];

	must(symlinkat(name_of('f', i, name), w->dir, name_of('s', i, other)), other);
}

static void rename_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES], other[NAME_BYTES];

	must(renameat(w->dir, name_of('f', i, name), w->dir, name_of('r', i, other)), other);
}

static void make_directory(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	must(mkdirat(w->dir, name_of('d', i, name), 0755), name);
}

static void remove_directory(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	must(unlinkat(w->dir, name_of('d', i, name), AT_REMOVEDIR), name);
}

static void unlink_file(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	must(unlinkat(w->dir, name_of('r', i, name), 0), name);
}

/* Not measured: they clean up. */
static void unlink_link(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	must(unlinkat(w->dir, name_of('l', i, name), 0), name);
}

static void unlink_symlink(struct worker *w, uint64_t i)
{
	char name[NAME_BYTES];

	must(unlinkat(w->dir, name_of('s', i, name), 0), name);
}

/*
 * In this order: each finds what those before have made. What was written is looked at for a while before looks are hot: a
 * server may let go of it once, some ms after the first look (fs/rest.h), and is asked for all of it again.
 */
static const struct kind {
	const char *name; /* NULL: nothing is printed */
	void (*call)(struct worker *w, uint64_t i);
	unsigned repeat; /* of all files: the cheap ones need more to be measured */
	bool needs_xattr;
	unsigned at_least_ms; /* or as often as that takes */
} kinds[] = {
	{ "create", create_file, 1 },	    { "write", write_file, 1 },
	{ "stat-written", stat_file, 1 },   { NULL, stat_file, 1, .at_least_ms = 50 },
	{ "stat", stat_file, 10 },	    { "open", open_file, 2 },
	{ "read", read_file, 2 },	    { "chmod", chmod_file, 1 },
	{ "setxattr", set_xattr, 1, true }, { "getxattr", get_xattr, 2, true },
	{ "symlink", make_symlink, 1 },	    { "link", link_file, 1 },
	{ NULL, unlink_link, 1 },	    { "rename", rename_file, 1 },
	{ "unlink", unlink_file, 1 },	    { "mkdir", make_directory, 1 },
	{ "rmdir", remove_directory, 1 },   { NULL, unlink_symlink, 1 },
};

static void *work(void *argument)
{
	struct worker *w = argument;
	uint64_t until_ns = clock_now_ns() + w->kind->at_least_ms * 1000000ULL;

	for (unsigned n = 0; n < w->kind->repeat || clock_now_ns() < until_ns; n++) {
		for (uint64_t i = 0; i < w->count; i++)
			w->kind->call(w, i);
	}
	return NULL;
}

static void measure_kind(const struct kind *kind, struct worker *workers, unsigned threads,
			 const struct servers *servers)
{
	struct moment from = now(servers);

	for (unsigned i = 0; i < threads; i++) {
		workers[i].kind = kind;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			die("thread");
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	if (kind->name)
		print_line(kind->name, workers[0].count * threads * kind->repeat, &from, servers);
}

static void run_calls(const char *path, uint64_t count, unsigned threads,
		      const struct servers *servers)
{
	AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct worker *workers = calloc(threads, sizeof(*workers));
	char name[NAME_BYTES];
	bool has_xattr;

	must(dir, path);
	if (!workers)
		die("memory");
	for (unsigned i = 0; i < threads; i++) {
		must(mkdirat(dir, name_of('t', i, name), 0755), name);
		workers[i].dir =
			(int)must(openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), name);
		workers[i].count = count;
	}
	has_xattr = fsetxattr(dir, XATTR, "", 0, 0) == 0;
	if (has_xattr)
		must(fremovexattr(dir, XATTR), path);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		if (has_xattr || !kinds[k].needs_xattr)
			measure_kind(&kinds[k], workers, threads, servers);
	}
	for (unsigned i = 0; i < threads; i++) {
		close(workers[i].dir);
		must(unlinkat(dir, name_of('t', i, name), AT_REMOVEDIR), name);
	}
	free(workers);
}

static void become(uint32_t id)
{
	must(setgroups(0, NULL), "setgroups");
	must(setresgid(id, id, id), "setresgid");
	must(setresuid(id, id, id), "setresuid");
}

static int usage(void)
{
	fprintf(stderr,
		"usage: rates calls DIR COUNT THREADS [PID...] | rates list DIR [PID...] |\n"
		"       rates chmod DIR MODE ID [PID...] | rates processor [PID...]\n");
	return 2;
}

static int read_servers(char **argv, struct servers *ret_servers)
{
	*ret_servers = (struct servers){ 0 };
	for (; *argv; argv++) {
		if (ret_servers->count == SERVERS_MAX ||
		    parse_u32(*argv, &ret_servers->pids[ret_servers->count++]) < 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t count = 0;
	uint32_t threads = 0, id = 0;
	struct servers servers;

	if (argc >= 5 && strcmp(argv[1], "calls") == 0 && parse_u64(argv[3], &count) == 0 &&
	    count > 0 && parse_u32(argv[4], &threads) == 0 && threads > 0 &&
	    threads <= THREADS_MAX && read_servers(argv + 5, &servers) == 0) {
		run_calls(argv[2], count, threads, &servers);
	} else if (argc >= 3 && strcmp(argv[1], "list") == 0 &&
		   read_servers(argv + 3, &servers) == 0) {
		visit_path("list", argv[2], look, 0, &servers);
	} else if (argc >= 5 && strcmp(argv[1], "chmod") == 0 && parse_u32(argv[4], &id) == 0 &&
		   read_servers(argv + 5, &servers) == 0) {
		become(id);
		visit_path("chmod", argv[2], change_mode, (mode_t)strtoul(argv[3], NULL, 8),
			   &servers);
	} else if (argc >= 2 && strcmp(argv[1], "processor") == 0 &&
		   read_servers(argv + 2, &servers) == 0) {
		printf("%.0f\n", now(&servers).server * 1e6);
	} else {
		return usage();
	}
	return EXIT_SUCCESS;
}
