// SPDX-License-Identifier: Apache-2.0

/*
 * agree: whether what a consumer does to a file is seen at once, with the size and the times that the lower file has.
 *
 *     agree write|pwrite|append|truncate|mmap|mmap-closed FILE LOWER-FILE
 *     agree list DIR LOWER-DIR      a directory that is read while files come and go in both
 *
 * Nothing is printed when all is well; else one line, and the status is 1.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum { STAYING = 3000, READINGS = 12, PLACES = 16, PAGE = 4096 };

static const char *file_path, *lower_path;

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

static int differ(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec || a->tv_nsec != b->tv_nsec;
}

/* The overlay's word and the lower tree's, after @step; with @before: that the times are new ones. */
static struct stat compare(const char *step, const struct stat *before)
{
	struct stat shown, real;

	must(stat(file_path, &shown), "stat");
	must(stat(lower_path, &real), "stat of the lower file");
	if (shown.st_size != real.st_size)
		fail("%s: %jd bytes are shown, %jd are there", step, (intmax_t)shown.st_size,
		     (intmax_t)real.st_size);
	if (differ(&shown.st_mtim, &real.st_mtim))
		fail("%s: another mtime is shown", step);
	if (differ(&shown.st_ctim, &real.st_ctim))
		fail("%s: another ctime is shown", step);
	if (shown.st_blocks != real.st_blocks)
		fail("%s: %jd blocks are shown, %jd are there", step, (intmax_t)shown.st_blocks,
		     (intmax_t)real.st_blocks);
	if (before && (!differ(&before->st_mtim, &shown.st_mtim) ||
		       !differ(&before->st_ctim, &shown.st_ctim)))
		fail("%s: the times are those from before", step);
	return shown;
}

/* Longer than the tick of the lower file system's clock: what changes later has another time. */
static void let_clock_tick(void)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	nanosleep(&pause, NULL);
}

static int open_file(int flags)
{
	int fd = open(file_path, flags | O_CLOEXEC);

	must(fd, "open");
	return fd;
}

static void use_calls(const char *way)
{
	AUTO_FD int fd = open_file(strcmp(way, "append") == 0 ? O_WRONLY | O_APPEND : O_RDWR);
	struct stat st = compare("opened", NULL);

	for (int i = 0; i < 3; i++) {
		let_clock_tick();
		if (strcmp(way, "pwrite") == 0)
			must((int)pwrite(fd, "text", 4, i * 10000), way);
		else if (strcmp(way, "truncate") == 0)
			must(ftruncate(fd, 5000 * (3 - i)), way);
		else
			must((int)write(fd, "text", 4), way);
		st = compare(way, &st);
	}
	cleanup_fd(&fd);
	compare("closed", NULL);
}

static void use_mapping(int closed)
{
	int fd = open_file(O_RDWR);
	struct stat st;
	char *memory;

	must(ftruncate(fd, PAGE), "ftruncate");
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	if (closed)
		cleanup_fd(&fd);
	st = compare("mapped", NULL);
	for (int i = 0; i < 3; i++) {
		let_clock_tick();
		memory[i] = 'm';
		compare("stored", NULL);
		must(msync(memory, PAGE, MS_SYNC), "msync");
		st = compare("synced", &st);
	}
	memory[3] = 'm';
	must(munmap(memory, PAGE), "munmap");
	compare("unmapped", NULL);
	cleanup_fd(&fd);
	compare("closed", NULL);
}

/* ---- list ---- */

static atomic_bool is_over;

static void *come_and_go(void *argument)
{
	AUTO_FD int dir = open(argument, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[64];

	must(dir, argument);
	for (unsigned i = 0; !atomic_load(&is_over); i = (i + 1) % 500) {
		int fd;

		snprintf(name, sizeof(name), "come-%zu-%u", strlen(argument), i);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		cleanup_fd(&fd);
		snprintf(name, sizeof(name), "come-%zu-%u", strlen(argument), (i + 250) % 500);
		unlinkat(dir, name, 0);
	}
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "come-%zu-%u", strlen(argument), i);
		unlinkat(dir, name, 0);
	}
	return NULL;
}

static void read_once(DIR *dir)
{
	unsigned char seen[STAYING] = { 0 };
	const struct dirent *entry;
	unsigned number, count = 0;

	rewinddir(dir);
	while ((errno = 0, entry = readdir(dir))) {
		if (sscanf(entry->d_name, "stay-%u", &number) != 1)
			continue;
		if (number >= STAYING || seen[number]++)
			fail("%s is listed twice", entry->d_name);
		count++;
	}
	if (errno)
		fail("readdir: %s", strerror(errno));
	if (count != STAYING)
		fail("%u of %d files are listed", count, STAYING);
}

/* From where telldir() was, reading goes on as it did then: among the files that stay. */
static void read_from_places(DIR *dir)
{
	struct {
		long at;
		char next[256];
	} places[PLACES];
	const struct dirent *entry;
	int count = 0;

	rewinddir(dir);
	for (int i = 0; count < PLACES; i++) {
		long at = telldir(dir);

		entry = readdir(dir);
		if (!entry)
			break;
		if (i % 150 == 75 && strncmp(entry->d_name, "stay-", 5) == 0) {
			places[count].at = at;
			snprintf(places[count++].next, sizeof(places[0].next), "%s", entry->d_name);
		}
	}
	if (count < 4)
		fail("only %d places to seek to", count);
	while (count-- > 0) {
		seekdir(dir, places[count].at);
		/* What came in between may be listed first. */
		do
			entry = readdir(dir);
		while (entry && strncmp(entry->d_name, "come-", 5) == 0);
		if (!entry || strcmp(entry->d_name, places[count].next) != 0)
			fail("after a seek %s instead of %s", entry ? entry->d_name : "nothing",
			     places[count].next);
	}
}

static void list(void)
{
	pthread_t threads[2];
	char name[4200];
	DIR *dir;

	for (int i = 0; i < STAYING; i++) {
		int fd;

		snprintf(name, sizeof(name), "%s/stay-%d", i % 2 ? file_path : lower_path, i);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		must(fd, name);
		close(fd);
	}
	dir = opendir(file_path);
	if (!dir)
		fail("opendir: %s", strerror(errno));
	if (pthread_create(&threads[0], NULL, come_and_go, (void *)file_path) != 0 ||
	    pthread_create(&threads[1], NULL, come_and_go, (void *)lower_path) != 0)
		fail("thread");
	for (int i = 0; i < READINGS; i++) {
		read_once(dir);
		read_from_places(dir);
	}
	atomic_store(&is_over, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	closedir(dir);
}

int main(int argc, char **argv)
{
	static const char *const calls[] = { "write", "pwrite", "append", "truncate" };

	if (argc == 4) {
		file_path = argv[2];
		lower_path = argv[3];
		for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
			if (strcmp(argv[1], calls[i]) == 0) {
				use_calls(calls[i]);
				return EXIT_SUCCESS;
			}
		}
		if (strcmp(argv[1], "list") == 0) {
			list();
			return EXIT_SUCCESS;
		}
		if (strncmp(argv[1], "mmap", 4) == 0) {
			use_mapping(argv[1][4] != '\0');
			return EXIT_SUCCESS;
		}
	}
	fprintf(stderr,
		"usage: agree write|pwrite|append|truncate|mmap|mmap-closed FILE LOWER-FILE | list DIR LOWER-DIR\n");
	return 2;
}
