// SPDX-License-Identifier: Apache-2.0

/* Executing, file handles, inotify, the worker's umask, and the driver's own steps. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/op.h"
#include "tests/differential/program.h"

static void generate_regular(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 85))
		pick_type(g, S_IFREG, s->path);
	else
		pick_existing(g, s->path);
}

/* In the child: what it runs may be anything by now, so it gets no time and no files. */
static void execute(const char *path, int out_fd, int error_fd)
{
	const struct rlimit none = { 0, 0 }, second = { 1, 1 };
	char *arguments[] = { (char[]){ "program" }, NULL }, *environment[] = { NULL };

	dup2(out_fd, 1);
	setrlimit(RLIMIT_CPU, &second);
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &none);
	signal(SIGXFSZ, SIG_DFL);
	execve(path, arguments, environment);
	if (write(error_fd, &errno, sizeof(errno)) < 0)
		_exit(126);
	_exit(127);
}

static int64_t run_exec(struct hands *h, const struct step *s, struct result *r)
{
	int out[2], error[2], status, failure = 0;
	uint32_t ids[PROGRAM_OUTPUT_BYTES / sizeof(uint32_t)];
	pid_t child;

	(void)h;
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
		return -1;
	child = vfork(); /* no copies of pages for what executes at once */
	if (child == 0)
		execute(s->path, out[1], error[1]);
	close(out[1]);
	close(error[1]);
	if (read(error[0], &failure, sizeof(failure)) < 0)
		failure = EIO;
	if (read(out[0], ids, sizeof(ids)) == sizeof(ids))
		result_add(r, "ids %u %u %u groups %u %u %u ", ids[0], ids[1], ids[2], ids[3],
			   ids[4], ids[5]);
	waitpid(child, &status, 0);
	close(out[0]);
	close(error[0]);
	if (WIFSIGNALED(status))
		result_add(r, "a signal ");
	else
		result_add(r, "status %#x ", (unsigned)status);
	errno = failure;
	return failure ? -1 : 0;
}

static void generate_handle(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->flags = random_pick(&g->random, ((int[]){ O_RDONLY, O_RDWR, O_PATH }));
	s->slot = (uint8_t)random_below(&g->random, SLOTS);
}

/* Whether two descriptors lead to a file by the same name. */
static bool has_same_name(int a, int b)
{
	char link[64], names[2][8192];
	const int fds[2] = { a, b };

	for (int i = 0; i < 2; i++) {
		ssize_t len;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fds[i]);
		len = readlink(link, names[i], sizeof(names[i]) - 1);
		if (len < 0)
			return false;
		names[i][len] = '\0';
	}
	return strcmp(names[0], names[1]) == 0;
}

/* Opens the file by its handle, or by its path where that leads to another name: compare.h. */
static int open_either(struct hands *h, const struct step *s, struct file_handle *handle)
{
	const int flags = s->flags | O_NONBLOCK | O_CLOEXEC;
	AUTO_FD int named = open(s->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD int handled = open_by_handle_at(h->readable_fd, handle, O_PATH | O_CLOEXEC);

	if (handled < 0)
		return -1;
	if (has_same_name(named, handled))
		return open_by_handle_at(h->readable_fd, handle, flags);
	return open(s->path, flags | O_NOFOLLOW);
}

static int64_t run_handle(struct hands *h, const struct step *s, struct result *r)
{
	struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	struct stat st;
	int mount_id, fd;

	if (name_to_handle_at(AT_FDCWD, s->path, &handle.head, &mount_id, 0) < 0)
		return -1;
	result_add(r, "made ");
	fd = open_either(h, s, &handle.head);
	if (fd >= 0 && fstat(fd, &st) == 0)
		result_add_stat(r, &st);
	return slot_set(h, s->slot, fd);
}

static void generate_watch(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->flags =
		(int)(IN_ALL_EVENTS & ~(random_percent(&g->random, 50) ? IN_OPEN | IN_CLOSE : 0));
}

static int64_t run_watch(struct hands *h, const struct step *s, struct result *r)
{
	(void)r;
	return inotify_add_watch(h->inotify_fd, s->path, (uint32_t)s->flags);
}

/* What comes twice in a row inotify says once: files without a name have one and the same in FUSE, others elsewhere. */
static bool is_merged(const struct inotify_event *last, const struct inotify_event *event)
{
	return last && last->len && event->len && strchr("#/", last->name[0]) &&
	       strchr("#/", event->name[0]) && last->wd == event->wd && last->mask == event->mask;
}

static int64_t run_events(struct hands *h, const struct step *s, struct result *r)
{
	char buffer[65536] __attribute__((aligned(8)));
	ssize_t n = read(h->inotify_fd, buffer, sizeof(buffer));
	const struct inotify_event *event, *last = NULL;

	(void)s;
	for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len), last = event) {
		event = (const void *)(buffer + at);
		if (is_merged(last, event))
			continue;
		result_add(r, "%d:%x:%s ", event->wd, event->mask,
			   event->len == 0		? "" :
			   strchr("#/", event->name[0]) ? "(nameless)" :
							  event->name);
	}
	return n < 0 ? -1 : 0;
}

static void generate_umask(struct generator *g, struct step *s)
{
	s->mode = random_pick(&g->random, ((mode_t[]){ 0, 0022, 0077, 0007, 0027 }));
}

static int64_t run_umask(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	umask(s->mode);
	return 0;
}

static void generate_nothing(struct generator *g, struct step *s)
{
	(void)g, (void)s;
}

static void generate_converge(struct generator *g, struct step *s)
{
	s->a = random_pick(&g->random, ((int[]){ 0, 0, 0, 20, 100 }));
	s->b = random_percent(&g->random, 30);
}

static void generate_refresh(struct generator *g, struct step *s)
{
	s->a = (int64_t)(random_next(&g->random) >> 1);
}

const struct op op_misc_rows[] = {
	{ "exec", "p", 20, generate_regular, run_exec },
	{ "open_by_handle", "pFs", 8, generate_handle, run_handle },
	{ "inotify_add_watch", "pf", 6, generate_watch, run_watch },
	{ "inotify_read", "", 8, generate_nothing, run_events },
	{ "umask", "m", 8, generate_umask, run_umask },
	{ "converge", "ab", 4, generate_converge,
	  NULL }, /* a: files a second, 0: all; b: pause instead */
	{ "refresh", "a", 24, generate_refresh, NULL }, /* a: seed */
};
const unsigned op_misc_count = ARRAY_SIZE(op_misc_rows);
