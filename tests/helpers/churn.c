// SPDX-License-Identifier: Apache-2.0

/*
 * churn: several processes, each a user of its own, that work on a tree and know what must come of it.
 *
 *     churn DIR COUNT GID SEED      until SIGTERM; as root, with users 1000, 1001, ... in group GID
 *
 * Each has a directory to itself in DIR, so every call has one right answer: what fails, happens twice, is
 * lost or torn is found by the next look. Prints one line for each process that found something, and at
 * the end the number of rounds and the longest call; 1 when anything was found.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_UID = 1000, WORKERS_MAX = 16, BYTES = 3 * 4096 + 17, NAMES = 40, LIMIT_MS = 8000 };

struct worker {
	unsigned seed, gid;
	int held; /* open and mapped from the first round to the last */
	int nameless;
	char *map;
	unsigned map_round;
	char text[BYTES];
	bool exists[NAMES]; /* f0 ... of the directory */
	unsigned content[NAMES];
	int64_t longest_ms;
};

static volatile sig_atomic_t stopped;

static void on_stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
	int error = errno;
	va_list args;

	va_start(args, format);
	printf("churn: user %u: ", getuid());
	vprintf(format, args);
	printf(": %s\n", strerror(error));
	va_end(args);
	fflush(stdout);
	_exit(1);
}

static void wrong(const char *what, const char *name)
{
	errno = 0;
	fail("%s: %s is wrong", name, what);
}

static void fill(struct worker *w, unsigned content)
{
	for (size_t i = 0; i < BYTES; i++) {
		content = content * 1103515245 + 12345;
		w->text[i] = (char)(content >> 16);
	}
}

static void check_text(const char *name, const char *got, const char *wanted)
{
	if (memcmp(got, wanted, BYTES) != 0)
		wrong("content", name);
}

static void check_file(struct worker *w, const char *name, unsigned content)
{
	char got[BYTES];
	int fd = open(name, O_RDONLY);

	if (fd < 0 || read(fd, got, BYTES) != BYTES)
		fail("read %s", name);
	fill(w, content);
	check_text(name, got, w->text);
	if (close(fd) < 0)
		fail("close %s", name);
}

/* Made once, with everything in it; or by way of another name. */
static void make_file(struct worker *w, const char *name, unsigned content, bool by_rename)
{
	const char *made = by_rename ? "fresh" : name;
	struct stat st;
	int fd = open(made, O_CREAT | O_EXCL | O_RDWR, 0640);

	if (fd < 0)
		fail("create %s", made);
	fill(w, content);
	if (write(fd, w->text, BYTES) != BYTES)
		fail("write %s", made);
	if (fstat(fd, &st) < 0)
		fail("fstat %s", made);
	if (st.st_uid != getuid() || st.st_gid != w->gid || (st.st_mode & 07777) != 0640 ||
	    st.st_nlink != 1 || st.st_size != BYTES)
		wrong("owner, mode, links or size", made);
	if (by_rename && rename(made, name) < 0)
		fail("rename %s", name);
	if (close(fd) < 0)
		fail("close %s", name);
}

static void check_links(const char *name, unsigned count)
{
	struct stat st;

	if (stat(name, &st) < 0)
		fail("stat %s", name);
	if (st.st_nlink != count)
		wrong("number of links", name);
}

static void change_file(const char *name)
{
	char other[32];
	struct stat st;

	if (chmod(name, 0600) < 0 || stat(name, &st) < 0 || (st.st_mode & 07777) != 0600)
		fail("chmod %s", name);
	if (chmod(name, 0640) < 0)
		fail("chmod back %s", name);
	snprintf(other, sizeof(other), "%s.link", name);
	if (link(name, other) < 0)
		fail("link %s", name);
	check_links(name, 2);
	if (unlink(other) < 0)
		fail("unlink %s", other);
	check_links(name, 1);
}

static void remove_file(const char *name)
{
	if (unlink(name) < 0)
		fail("unlink %s", name);
	if (unlink(name) == 0 || errno != ENOENT)
		fail("unlink %s again", name);
}

static void make_tree(void)
{
	if (mkdir("tree", 0750) < 0 || mkdir("tree/a", 0750) < 0 || mkdir("tree/a/b", 0750) < 0)
		fail("mkdir");
	if (mkdir("tree/a", 0750) == 0 || errno != EEXIST)
		fail("mkdir again");
	if (symlink("a/b", "tree/link") < 0)
		fail("symlink");
	if (rename("tree/a/b", "tree/c") < 0)
		fail("rename of a directory");
	if (unlink("tree/link") < 0 || rmdir("tree/c") < 0 || rmdir("tree/a") < 0 ||
	    rmdir("tree") < 0)
		fail("rmdir");
}

static void check_listing(const struct worker *w)
{
	DIR *dir = opendir(".");
	const struct dirent *entry;
	int wanted = 0, got = 0;

	if (!dir)
		fail("opendir");
	while ((entry = readdir(dir)))
		got += entry->d_name[0] == 'f';
	closedir(dir);
	for (int i = 0; i < NAMES; i++)
		wanted += w->exists[i];
	if (got != wanted)
		wrong("number of entries", ".");
}

/* What is mapped, and what has no name, are never opened again. */
static void check_held(struct worker *w)
{
	char got[BYTES];

	fill(w, w->map_round);
	if (pread(w->held, got, BYTES, 0) != BYTES)
		fail("pread of what is mapped");
	check_text("what is mapped", got, w->text);
	if (pread(w->nameless, got, BYTES, 0) != BYTES)
		fail("pread of what has no name");
	check_text("what has no name", got, w->text);
	fill(w, ++w->map_round);
	memcpy(w->map, w->text, BYTES);
	if (pwrite(w->nameless, w->text, BYTES, 0) != BYTES)
		fail("pwrite of what has no name");
}

static void hold_files(struct worker *w)
{
	w->held = open("held", O_CREAT | O_EXCL | O_RDWR, 0640);
	w->nameless = open("nameless", O_CREAT | O_EXCL | O_RDWR, 0640);
	if (w->held < 0 || w->nameless < 0 || unlink("nameless") < 0)
		fail("files to hold");
	fill(w, 0);
	if (write(w->held, w->text, BYTES) != BYTES || write(w->nameless, w->text, BYTES) != BYTES)
		fail("write");
	w->map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->held, 0);
	if (w->map == MAP_FAILED)
		fail("mmap");
}

static void play(struct worker *w)
{
	int i = rand_r(&w->seed) % NAMES;
	char name[16];

	snprintf(name, sizeof(name), "f%d", i);
	switch (rand_r(&w->seed) % 8) {
	case 0:
		make_tree();
		break;
	case 1:
		check_listing(w);
		break;
	case 2:
		check_held(w);
		break;
	default:
		if (!w->exists[i]) {
			w->content[i] = (unsigned)rand_r(&w->seed);
			make_file(w, name, w->content[i], rand_r(&w->seed) % 2);
			w->exists[i] = true;
			break;
		}
		check_file(w, name, w->content[i]);
		change_file(name);
		if (rand_r(&w->seed) % 2) {
			remove_file(name);
			w->exists[i] = false;
		}
	}
}

static void work(const char *dir, unsigned index, unsigned gid, unsigned seed)
{
	struct worker *w = calloc(1, sizeof(*w));
	unsigned long rounds = 0;
	char name[16];

	snprintf(name, sizeof(name), "user%u", index);
	if (!w || setgroups(1, &gid) < 0 || setgid(FIRST_UID + index) < 0 ||
	    setuid(FIRST_UID + index) < 0 || chdir(dir) < 0)
		fail("%s", dir);
	umask(0);
	w->seed = seed + index;
	w->gid = gid;
	if (mkdir(name, 0755) < 0 || chdir(name) < 0)
		fail("%s", name);
	hold_files(w);
	for (; !stopped; rounds++) {
		int64_t began = now_ms();

		play(w);
		if (now_ms() - began > w->longest_ms)
			w->longest_ms = now_ms() - began;
	}
	check_listing(w);
	check_held(w);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		if (w->exists[i])
			check_file(w, name, w->content[i]);
	}
	printf("# user %u: %lu rounds, the longest %lld ms\n", getuid(), rounds,
	       (long long)w->longest_ms);
	fflush(stdout);
	if (w->longest_ms > LIMIT_MS)
		wrong("waiting longer than two seconds", "time");
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct sigaction stop = { .sa_handler = on_stop };
	int count = argc == 5 ? atoi(argv[2]) : 0, status, result = EXIT_SUCCESS;
	pid_t workers[WORKERS_MAX];

	if (count < 1 || count > WORKERS_MAX)
		return 2;
	sigaction(SIGTERM, &stop, NULL);
	for (int i = 0; i < count; i++) {
		workers[i] = fork();
		if (workers[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(argv[1], (unsigned)i, (unsigned)atoi(argv[3]),
			     (unsigned)strtoul(argv[4], NULL, 10));
		}
	}
	for (int left = count; left > 0;) {
		pid_t pid = wait(&status);

		if (pid > 0) {
			left--;
			if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
				result = EXIT_FAILURE;
		} else if (errno != EINTR) {
			return EXIT_FAILURE;
		}
		for (int i = 0; pid < 0 && i < count; i++)
			kill(workers[i], SIGTERM);
	}
	return result;
}
