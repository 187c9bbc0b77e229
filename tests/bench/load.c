// SPDX-License-Identifier: Apache-2.0

/*
 * load: what benchmarks of the walk compare it with, and whom it must not disturb.
 *
 *     load list DIR            every entry below DIR: getdents(2) and one statx(2) each, one thread
 *     load reset DIR UID GID   every directory back to 0700, everything else to 0600, UID:GID
 *     load eager DIR GID       one pass over the tree, as kubelet makes it: everything gets the group and the bits
 *     load foreground DIR LOOK FILES PER ROUNDS
 *                              in DIR again and again: create a file, stat one below LOOK that nobody has looked
 *                              at, overwrite a block, rest 1 ms; until all rounds are done, or SIGTERM. Prints a line
 *                              "ready" when it begins, and in the end "create|stat|write COUNT P50 P90 P99" each, in
 *                              microseconds
 *
 * LOOK is what `many files LOOK FILES PER` has made.
 */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

enum { BUFFER_BYTES = 64 * 1024, BLOCK_BYTES = 4096, FILE_BLOCKS = 64 };

static const struct timespec REST = { .tv_nsec = 1000 * 1000 };

static volatile sig_atomic_t is_over;

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

static void must(int result, const char *what)
{
	if (result < 0)
		die(what);
}

/* ---- list, reset ---- */

typedef void (*visit_fn)(int dir, const char *name, const struct statx *stx, const uint32_t ids[2]);

static void reset_entry(int dir, const char *name, const struct statx *stx, const uint32_t ids[2])
{
	must(fchownat(dir, name, ids[0], ids[1], AT_SYMLINK_NOFOLLOW), name);
	must(fchmodat(dir, name, S_ISDIR(stx->stx_mode) ? 0700 : 0600, 0), name);
}

/* What is right already is written all the same. */
static void own_entry(int dir, const char *name, const struct statx *stx, const uint32_t ids[2])
{
	mode_t mask = S_ISDIR(stx->stx_mode) ? 02770 : 0660;

	must(fchownat(dir, name, (uid_t)-1, ids[1], AT_SYMLINK_NOFOLLOW), name);
	if (!S_ISLNK(stx->stx_mode))
		must(fchmodat(dir, name, (stx->stx_mode & 07777) | mask, 0), name);
}

static void go_below(int dir, visit_fn visit, const uint32_t ids[2])
{
	AUTO_FREE char *buffer = malloc(BUFFER_BYTES);
	long n;

	if (!buffer)
		die("memory");
	while ((n = syscall(SYS_getdents64, dir, buffer, BUFFER_BYTES)) > 0) {
		for (char *at = buffer; at < buffer + n;) {
			const struct dirent64 *entry = (const struct dirent64 *)at;
			struct statx stx;

			at += entry->d_reclen;
			if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			must(statx(dir, entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
				   &stx),
			     entry->d_name);
			if (S_ISDIR(stx.stx_mode)) {
				AUTO_FD int sub = openat(dir, entry->d_name,
							 O_RDONLY | O_DIRECTORY | O_CLOEXEC);

				must(sub, entry->d_name);
				go_below(sub, visit, ids);
			}
			if (visit)
				visit(dir, entry->d_name, &stx, ids);
		}
	}
	must((int)n, "getdents");
}

/* ---- foreground ---- */

struct samples {
	double *us;
	size_t count;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void print_samples(const char *name, struct samples *s)
{
	qsort(s->us, s->count, sizeof(*s->us), compare_doubles);
	printf("%s %zu", name, s->count);
	for (int i = 0; i < 3; i++) {
		static const double parts[] = { 0.5, 0.9, 0.99 };

		printf(" %.1f", s->count ? s->us[(size_t)((double)(s->count - 1) * parts[i])] : 0);
	}
	printf("\n");
}

static struct timespec begin(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now;
}

static void end(struct samples *s, const struct timespec *since)
{
	struct timespec now = begin();

	s->us[s->count++] = (double)(now.tv_sec - since->tv_sec) * 1e6 +
			    (double)(now.tv_nsec - since->tv_nsec) / 1e3;
}

static void on_term(int signal)
{
	(void)signal;
	is_over = 1;
}

/* The i-th file of `many files`, spread so that every directory is met in turn. */
static void look_at(int look, uint64_t i, uint64_t files, uint64_t per, struct samples *s)
{
	uint64_t file = i * 7919 % files;
	struct timespec since;
	struct stat st;
	char name[64];

	snprintf(name, sizeof(name), "dir-%llu/file-%llu", (unsigned long long)(file / per),
		 (unsigned long long)file);
	since = begin();
	must(fstatat(look, name, &st, AT_SYMLINK_NOFOLLOW), name);
	end(s, &since);
}

static void run_foreground(int dir, int look, uint64_t files, uint64_t per, size_t rounds)
{
	const struct sigaction term = { .sa_handler = on_term };
	struct samples create = { calloc(rounds, sizeof(double)), 0 };
	struct samples stats = { calloc(rounds, sizeof(double)), 0 };
	struct samples writes = { calloc(rounds, sizeof(double)), 0 };
	static const char block[BLOCK_BYTES];
	AUTO_FD int data = openat(dir, "data", O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);

	if (!create.us || !stats.us || !writes.us)
		die("memory");
	must(data, "data");
	must(ftruncate(data, FILE_BLOCKS * BLOCK_BYTES), "data");
	must(sigaction(SIGTERM, &term, NULL), "sigaction");
	puts("ready");
	fflush(stdout);
	for (size_t i = 0; i < rounds && !is_over; i++) {
		struct timespec since;
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "new-%zu", i);
		since = begin();
		fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		end(&create, &since);
		must(fd, name);
		close(fd);
		look_at(look, i, files, per, &stats);
		since = begin();
		must((int)pwrite(data, block, sizeof(block),
				 (off_t)(i % FILE_BLOCKS) * BLOCK_BYTES),
		     "write");
		end(&writes, &since);
		nanosleep(&REST, NULL);
	}
	print_samples("create", &create);
	print_samples("stat", &stats);
	print_samples("write", &writes);
	free(create.us);
	free(stats.us);
	free(writes.us);
}

static uint64_t number(const char *text)
{
	uint64_t value;

	if (parse_u64(text, &value) < 0) {
		fprintf(stderr, "load: not a number: %s\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	AUTO_FD int dir = argc >= 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (argc >= 3)
		must(dir, argv[2]);
	if (argc == 3 && strcmp(argv[1], "list") == 0) {
		go_below(dir, NULL, NULL);
	} else if (argc == 5 && strcmp(argv[1], "reset") == 0) {
		const uint32_t ids[2] = { (uint32_t)number(argv[3]), (uint32_t)number(argv[4]) };

		go_below(dir, reset_entry, ids);
		must(fchown(dir, ids[0], ids[1]), argv[2]);
		must(fchmod(dir, 0700), argv[2]);
	} else if (argc == 4 && strcmp(argv[1], "eager") == 0) {
		const uint32_t ids[2] = { 0, (uint32_t)number(argv[3]) };
		struct stat st;

		go_below(dir, own_entry, ids);
		must(fstat(dir, &st), argv[2]);
		must(fchown(dir, (uid_t)-1, ids[1]), argv[2]);
		must(fchmod(dir, (st.st_mode & 07777) | 02770), argv[2]);
	} else if (argc == 7 && strcmp(argv[1], "foreground") == 0) {
		AUTO_FD int look = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		must(look, argv[3]);
		run_foreground(dir, look, number(argv[4]), number(argv[5]), number(argv[6]));
	} else {
		fprintf(stderr,
			"usage: load list DIR | load reset DIR UID GID | load eager DIR GID |\n"
			"       load foreground DIR LOOK FILES PER ROUNDS\n");
		return 2;
	}
	return EXIT_SUCCESS;
}
