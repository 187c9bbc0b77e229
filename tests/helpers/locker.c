// SPDX-License-Identifier: Apache-2.0

/*
 * locker: many processes that open, lock, write, map and close the same few files all the time, and know
 * what they must find.
 *
 *     locker paths|descriptor DIR PROCESSES FILES REST_US
 *
 * The files DIR/0, DIR/1, ... have PAGE bytes. They are opened by their absolute paths, or below a
 * descriptor of DIR that is opened once and for all. Each is locked in one way, by its number: 0 fcntl(2),
 * 1 flock(2), 2 open file description locks; 3 and on: the same again. Who has the lock looks in memory
 * that all processes share whether somebody else has it, compares the file's content with what was last
 * stored, stores a new one (by write, or through a mapping that lives on after the file is closed), and rests REST_US microseconds between two files. Runs until SIGTERM.
 *
 * Prints "ready", and at the end "COUNT STALL_US": how often a lock was had, and the longest open(2). Any
 * error, a lock that two have, or content that is not the last: one line, status 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

enum { PAGE = 4096, FILES_MAX = 64, PROCESSES_MAX = 256 };

static struct common {
	_Atomic uint32_t stop, failed;
	_Atomic uint64_t count, stall_us;
	struct {
		_Atomic uint32_t owner;
		_Atomic uint64_t value;
	} files[FILES_MAX];
} * common;

static const char *dir_path; /* NULL: below the descriptor */
static uint32_t self;

static void die(const char *what, unsigned file)
{
	printf("file %u: %s: %s\n", file, what, strerror(errno));
	fflush(stdout);
	atomic_store(&common->failed, 1);
	atomic_store(&common->stop, 1);
	_exit(EXIT_FAILURE);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int open_file(int dir, unsigned file)
{
	uint64_t start = now_us(), took, longest;
	char name[4200];
	int fd;

	if (dir_path)
		snprintf(name, sizeof(name), "%s/%u", dir_path, file);
	else
		snprintf(name, sizeof(name), "%u", file);
	fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("open", file);
	took = now_us() - start;
	longest = atomic_load(&common->stall_us);
	while (took > longest && !atomic_compare_exchange_weak(&common->stall_us, &longest, took))
		;
	return fd;
}

/* Whether the lock could be had. Every second time it is waited for. */
static int lock_file(int fd, unsigned file, int waits)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int command, r;

	if (file % 3 == 1) {
		r = flock(fd, LOCK_EX | (waits ? 0 : LOCK_NB));
	} else {
		command = file % 3 == 0 ? (waits ? F_SETLKW : F_SETLK) :
					  (waits ? F_OFD_SETLKW : F_OFD_SETLK);
		r = fcntl(fd, command, &lock);
	}
	if (r < 0 && errno != EAGAIN && errno != EACCES)
		die("lock", file);
	return r == 0;
}

static uint64_t read_value(int fd, unsigned file)
{
	uint64_t value = 0;

	if (pread(fd, &value, sizeof(value), 0) != (ssize_t)sizeof(value))
		die("read", file);
	return value;
}

/* With the lock. Returns the mapping that the value was stored through, or NULL. */
static void *change(int fd, unsigned file, uint64_t round)
{
	uint32_t other = atomic_exchange(&common->files[file].owner, self);
	uint64_t last = atomic_load(&common->files[file].value), value = last + 1;
	uint64_t *page = NULL;

	errno = EEXIST;
	if (other != 0)
		die("two have the lock", file);
	if (read_value(fd, file) != last)
		die("not what was stored last", file);
	if (round % 2) {
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (page == MAP_FAILED)
			die("mmap", file);
		*(volatile uint64_t *)page = value;
	} else if (pwrite(fd, &value, sizeof(value), 0) != (ssize_t)sizeof(value)) {
		die("write", file);
	}
	if (read_value(fd, file) != value)
		die("read again", file);
	atomic_store(&common->files[file].value, value);
	atomic_store(&common->files[file].owner, 0);
	return page;
}

static void unmap(void *page, unsigned file)
{
	if (page && munmap(page, PAGE) < 0)
		die("munmap", file);
}

static void __attribute__((noreturn)) work(int dir, unsigned files, unsigned rest_us)
{
	struct timespec rest = { .tv_sec = rest_us / 1000000,
				 .tv_nsec = (long)(rest_us % 1000000) * 1000 };
	uint64_t seed = self;

	for (uint64_t round = 0; !atomic_load(&common->stop); round++) {
		unsigned file;
		void *page = NULL;
		int fd;

		seed = seed * 6364136223846793005U + 1442695040888963407U;
		file = (unsigned)(seed >> 33) % files;
		fd = open_file(dir, file);
		if (lock_file(fd, file, round % 2 == 0)) {
			page = change(fd, file, seed >> 40);
			atomic_fetch_add(&common->count, 1);
		}
		/* The lock goes with the descriptor; the mapping stays for a little longer. */
		if (close(fd) < 0)
			die("close", file);
		if (page && *(volatile uint64_t *)page == 0)
			die("nothing is left in the mapping", file);
		unmap(page, file);
		nanosleep(&rest, NULL);
	}
	_exit(EXIT_SUCCESS);
}

/* SIGTERM, which is blocked; or what a child has met. */
static void await_end(const sigset_t *term)
{
	const struct timespec step = { .tv_nsec = 100 * 1000 * 1000 };

	while (!atomic_load(&common->stop) && sigtimedwait(term, NULL, &step) < 0)
		;
	atomic_store(&common->stop, 1);
}

int main(int argc, char **argv)
{
	bool by_path = argc == 6 && strcmp(argv[1], "paths") == 0;
	AUTO_FD int dir =
		argc == 6 && !by_path ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t processes, files, rest_us;
	sigset_t term;
	int status, result = EXIT_SUCCESS;

	if ((dir < 0 && !by_path) || parse_u64(argv[3], &processes) < 0 ||
	    processes > PROCESSES_MAX || parse_u64(argv[4], &files) < 0 || files == 0 ||
	    files > FILES_MAX || parse_u64(argv[5], &rest_us) < 0 || rest_us > 10000000) {
		fprintf(stderr, "usage: locker paths|descriptor DIR PROCESSES FILES REST_US\n");
		return 2;
	}
	if (by_path)
		dir_path = argv[2];
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (common == MAP_FAILED)
		return EXIT_FAILURE;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	for (uint64_t i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return EXIT_FAILURE;
		self = (uint32_t)i + 1;
		if (pid == 0)
			work(dir, (unsigned)files, (unsigned)rest_us);
	}
	puts("ready");
	fflush(stdout);
	await_end(&term);
	while (wait(&status) > 0 || errno == EINTR) {
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
			result = EXIT_FAILURE;
	}
	printf("%llu %llu\n", (unsigned long long)atomic_load(&common->count),
	       (unsigned long long)atomic_load(&common->stall_us));
	return result == EXIT_SUCCESS && !atomic_load(&common->failed) ? EXIT_SUCCESS :
									 EXIT_FAILURE;
}
