// SPDX-License-Identifier: Apache-2.0
/*
 * fsgroup-flexvolume: the two FlexVolume drivers that kubelet calls: fsgroupfs/volume and fsgroupfs/device.
 *
 * kubelet reads standard output and error as one text that must be exactly one JSON document, and waits
 * until every holder of that pipe has ended. So the work is done in a child that has neither; its answer
 * comes through a pipe, and whatever becomes of the child, this process prints one document and ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "mountd/flex/answer.h"
#include "mountd/flex/call.h"
#include "mountd/proto.h"

#define ANSWER_MAX 8192
#define ROOT_FILE ".%s.root"

/*
 * The root directory of the volumes: $FSGROUPFS_ROOT, else what `fsgroupctl install-flexvolume` wrote
 * beside the name under which kubelet calls us, else "/".
 */
static int find_root(const char *self, char *ret_root, size_t size)
{
	const char *given = getenv("FSGROUPFS_ROOT"), *name = strrchr(self, '/');
	char path[PATH_MAX];
	int n, r;

	if (given && *given) {
		n = snprintf(ret_root, size, "%s", given);
		return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
	}
	snprintf(ret_root, size, "/");
	if (!name)
		return 0;
	n = snprintf(path, sizeof(path), "%.*s/" ROOT_FILE, (int)(name - self), self, name + 1);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	r = io_read_line(AT_FDCWD, path, ret_root, size);
	if (r == -ENOENT) {
		snprintf(ret_root, size, "/");
		return 0;
	}
	if (r < 0)
		return r;
	return ret_root[0] == '/' ? 0 : -EINVAL;
}

/* The answer's text; the caller's to free; NULL: no memory. */
static char *answer_text(json_t *answer)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

	json_decref(answer);
	return text;
}

static json_t *work(int argc, char **argv)
{
	char root[PATH_MAX];
	int r = find_root(argv[0], root, sizeof(root));

	if (r < 0)
		return flex_failure("the root directory: %s", strerror(-r));
	return flex_call(root, flex_driver_of(argv[0]), argc - 1, argv + 1);
}

/* Holds neither our output nor anything that kubelet's starter left open. */
static void __attribute__((noreturn)) child(int argc, char **argv, int answer_fd, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	AUTO_FREE char *text = NULL;

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	/* Options may hold secrets; and nobody waits for an answer when the parent has ended. */
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	text = answer_text(work(argc, argv));
	if (!text || io_write_all(answer_fd, text, strlen(text)) < 0)
		_exit(1);
	_exit(0);
}

/* Whatever the child says until it closes the pipe, or until a signal. Returns the signal, or 0. */
static int read_answer(int answer_fd, int signal_fd, char *ret_text, size_t size)
{
	struct pollfd fds[] = { { .fd = answer_fd, .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	size_t used = 0;

	ret_text[0] = '\0';
	for (;;) {
		struct signalfd_siginfo info;
		ssize_t n;

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return 0;
		if (fds[0].revents) {
			n = read(answer_fd, ret_text + used, size - 1 - used);
			if (n <= 0)
				return 0;
			used += (size_t)n;
			ret_text[used] = '\0';
		} else if (fds[1].revents && read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
			return (int)info.ssi_signo;
		}
	}
}

/* A whole document, or it is none. */
static bool is_answer(const char *text, bool *ret_success)
{
	json_t *answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const char *status = json_string_value(json_object_get(answer, "status"));

	*ret_success = status && strcmp(status, "Success") == 0;
	json_decref(answer);
	return status != NULL;
}

static int print(const char *text, bool is_success)
{
	if (io_write_all(STDOUT_FILENO, text, strlen(text)) < 0 ||
	    io_write_all(STDOUT_FILENO, "\n", 1) < 0)
		return 1;
	return is_success ? 0 : 1;
}

static int print_failure(const char *why)
{
	AUTO_FREE char *text = answer_text(flex_failure("%s", why));

	return print(text ? text : "{\"status\":\"Failure\",\"message\":\"no memory\"}", false);
}

int main(int argc, char **argv)
{
	char text[ANSWER_MAX], why[128];
	AUTO_FD int answer_fd = -1, signal_fd = -1;
	int pipe_fds[2], status = 0, signo;
	bool is_success = false;
	pid_t self = getpid(), pid;
	sigset_t signals, old;

	close_range(3, ~0U, 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &old);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	/* Secrets of the volume are among our arguments, and soon in JSON values. */
	proto_wipe_json();
	if (proto_keep_secret() < 0)
		return print_failure("secrets cannot be kept out of core dumps");
	if (signal_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return print_failure("no descriptor for the answer");
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		child(argc, argv, pipe_fds[1], self);
	}
	answer_fd = pipe_fds[0];
	close(pipe_fds[1]);
	if (pid < 0)
		return print_failure("no process for the call");
	signo = read_answer(answer_fd, signal_fd, text, sizeof(text));
	if (signo) {
		kill(pid, SIGKILL);
		snprintf(why, sizeof(why), "ended by signal %d; the call can be repeated", signo);
		return print_failure(why);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (is_answer(text, &is_success))
		return print(text, is_success);
	snprintf(why, sizeof(why), "the driver's process ended without an answer (%s %d)",
		 WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return print_failure(why);
}
