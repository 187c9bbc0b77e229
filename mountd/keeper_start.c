// SPDX-License-Identifier: Apache-2.0
#include "mountd/keeper_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/path_program.h"

/* Where the inherited descriptors lie in the child. */
enum { CHILD_LOWER = 3, CHILD_PARENT, CHILD_CONTROL, CHILD_READY, CHILD_JOURNAL, CHILD_FIRST_FREE };

struct arguments {
	char **list; /* NULL-terminated */
	size_t count, room;
	bool no_memory;
};

static void arguments_free(struct arguments *args)
{
	for (size_t i = 0; args->list && i < args->count; i++)
		free(args->list[i]);
	free(args->list);
	free(args);
}
DEFINE_AUTO(arguments)

static void push(struct arguments *args, const char *text)
{
	if (args->count + 2 > args->room) {
		size_t room = args->room ? 2 * args->room : 64;
		char **list = reallocarray(args->list, room, sizeof(*list));

		if (!list) {
			args->no_memory = true;
			return;
		}
		args->list = list;
		args->room = room;
	}
	args->list[args->count] = strdup(text);
	if (!args->list[args->count]) {
		args->no_memory = true;
		return;
	}
	args->list[++args->count] = NULL;
}

/* One option in an argument of its own: patterns may hold commas. */
static void __attribute__((format(printf, 2, 3)))
push_option(struct arguments *args, const char *format, ...)
{
	AUTO_FREE char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		args->no_memory = true;
		return;
	}
	push(args, "-o");
	push(args, text);
}

static int build_arguments(const struct overlay_spec *spec, const char *program,
			   struct arguments *args)
{
	push(args, program);
	push(args, "-f");
	push_option(args, "lower_fd=%d", CHILD_LOWER);
	push_option(args, "parent_fd=%d", CHILD_PARENT);
	push_option(args, "control_fd=%d", CHILD_CONTROL);
	push_option(args, "ready_fd=%d", CHILD_READY);
	if (spec->journal_fd >= 0)
		push_option(args, "journal_fd=%d", CHILD_JOURNAL);
	push_option(args, "gid=%u", (unsigned)spec->gid);
	push_option(args, "volume=%s", spec->volume_id);
	push_option(args, "policy=%s", spec->policy);
	push_option(args, "ownership=%s", spec->ownership);
	push_option(args, "coherence=%s", spec->coherence);
	push_option(args, "transport=%s", spec->transport);
	if (spec->idmap)
		push_option(args, "idmap=%s", "yes");
	push_option(args, "handoff=%s",
		    !spec->handoff		? "no" :
		    spec->handoff_in_namespaces ? "namespaces" :
						  "yes");
	push_option(args, "converge_rate=%llu", (unsigned long long)spec->converge_rate);
	if (spec->cpu_latency_us >= 0)
		push_option(args, "cpu_latency=%lld", (long long)spec->cpu_latency_us);
	if (spec->total > 0)
		push_option(args, "total=%llu", (unsigned long long)spec->total);
	if (spec->read_only)
		push_option(args, "ro");
	if (spec->mount_options)
		push_option(args, "%s", spec->mount_options);
	if (spec->keep_private)
		push_option(args, "keep_private");
	if (spec->paused)
		push_option(args, "paused");
	if (spec->run)
		push_option(args, "run=%s", spec->run);
	if (spec->epoch)
		push_option(args, "epoch=%s", spec->epoch);
	for (size_t i = 0; spec->excludes && spec->excludes[i]; i++)
		push_option(args, "exclude=%s", spec->excludes[i]);
	push(args, "--");
	push(args, spec->source);
	push(args, spec->target);
	return args->no_memory ? -ENOMEM : 0;
}

/*
 * In the child, after fork in a threaded process: async-signal-safe calls only. The descriptors are
 * first lifted above the places where they go, so that none overwrites another.
 */
static void __attribute__((noreturn)) child(char *const *argv, const struct control_group *group,
					    const int *fds, size_t count, int error_fd)
{
	int lifted[CHILD_FIRST_FREE], error;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* SIGPIPE stays ignored: a keeper that is ready when we are gone must not die of saying so. */
	setsid();
	control_group_join(group);
	error_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 64);
	for (size_t i = 0; i < count; i++)
		lifted[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
	for (size_t i = 0; i < count; i++) {
		if (lifted[i] >= 0 && dup2(lifted[i], CHILD_LOWER + (int)i) < 0)
			goto fail;
	}
	execv(argv[0], argv);
fail:
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* The keeper's one line, without its newline: "ok", or the error. */
static int read_ready(int fd, char *ret_line, size_t size)
{
	uint64_t deadline = clock_now_ms() + OVERLAY_READY_MS;
	size_t used = 0;

	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_now_ms();
		ssize_t n;
		int r = now >= deadline ? 0 : poll(&poll_fd, 1, (int)(deadline - now));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ETIMEDOUT;
		n = read(fd, ret_line + used, size - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		used += (size_t)n;
		if (n == 0 || memchr(ret_line, '\n', used) || used == size - 1)
			break;
	}
	ret_line[used] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
	return 0;
}

static void kill_and_reap(pid_t pid)
{
	/* Its session: a server that it has started already goes with it. */
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int await_ready(pid_t pid, int ready_fd, int exec_error_fd, char *ret_error)
{
	char line[OVERLAY_ERROR_MAX - 64];
	int error = 0, r;

	/* Ends with the exec: either nothing comes, or why there was none. */
	if (read(exec_error_fd, &error, sizeof(error)) == sizeof(error)) {
		snprintf(ret_error, OVERLAY_ERROR_MAX, "cannot run fsgroupfs: %s", strerror(error));
		kill_and_reap(pid);
		return -error;
	}
	r = read_ready(ready_fd, line, sizeof(line));
	if (r == 0 && strcmp(line, "ok") == 0)
		return 0;
	for (char *p = line; r == 0 && *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
	if (r < 0)
		snprintf(ret_error, OVERLAY_ERROR_MAX, "the overlay did not get ready: %s",
			 strerror(-r));
	else
		snprintf(ret_error, OVERLAY_ERROR_MAX, "%s",
			 line[0] ? line : "the overlay ended before it was ready");
	kill_and_reap(pid);
	return r < 0 ? r : -EIO;
}

int keeper_start(const struct overlay_spec *spec, const struct control_group *group, int listen_fd,
		 pid_t *ret_pid, char *ret_error)
{
	AUTO(arguments) *args = calloc(1, sizeof(*args));
	char program[PATH_MAX];
	int ready[2], exec_error[2];
	AUTO_FD int ready_in = -1, ready_out = -1;
	AUTO_FD int error_in = -1, error_out = -1;
	sigset_t all, saved;
	pid_t pid;
	int r;

	if (!args)
		return -ENOMEM;
	r = program_path("fsgroupfs", program, sizeof(program));
	if (r == 0)
		r = build_arguments(spec, program, args);
	if (r < 0) {
		snprintf(ret_error, OVERLAY_ERROR_MAX, "cannot run fsgroupfs: %s", strerror(-r));
		return r;
	}
	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	ready_in = ready[0];
	ready_out = ready[1];
	if (pipe2(exec_error, O_CLOEXEC) < 0)
		return -errno;
	error_in = exec_error[0];
	error_out = exec_error[1];

	/* No handler of ours may run in the child before its mask and handlers are put right. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pid = fork();
	if (pid == 0) {
		int fds[] = { spec->lower_fd, spec->parent_fd, listen_fd, ready_out,
			      spec->journal_fd };

		child(args->list, group, fds, ARRAY_SIZE(fds), error_out);
	}
	r = -errno;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (pid < 0) {
		snprintf(ret_error, OVERLAY_ERROR_MAX, "cannot start fsgroupfs: %s", strerror(-r));
		return r;
	}
	cleanup_fd(&ready_out);
	cleanup_fd(&error_out);
	r = await_ready(pid, ready_in, error_in, ret_error);
	if (r == 0)
		*ret_pid = pid;
	return r;
}
