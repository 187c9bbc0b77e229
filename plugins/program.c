// SPDX-License-Identifier: Apache-2.0
#include "plugins/program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <grp.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/oom_score.h"

/* A killed process that hangs in the kernel is not waited for longer than this. */
#define KILLED_GONE_MS 5000

/* Descriptors that a program may have open, whatever the daemon's own limit is. */
#define PROGRAM_FILES 1024

#define READ_BYTES 4096

static const char *const default_environment[] = { "PATH=" PROGRAM_PATH, "HOME=/", "LC_ALL=C",
						   NULL };

/* One program that runs. */
struct running {
	const struct program_request *request;
	struct program_result *result;
	pid_t pid;
	int pid_fd, output_fd; /* -1: its end has been read */
	int tree_fd;	       /* own_mounts: a detached mount of the working directory */
	size_t room;	       /* of result->output */
	uint64_t deadline_ms, watch_at_ms;
};

/* ---- the child: after fork in a threaded process, async-signal-safe calls only ---- */

/* Never above what the daemon itself may. */
static int limit(int resource, uint64_t value)
{
	struct rlimit now;

	if (getrlimit(resource, &now) < 0)
		return -1;
	if (value > now.rlim_max)
		value = now.rlim_max;
	now = (struct rlimit){ .rlim_cur = value, .rlim_max = value };
	return setrlimit(resource, &now);
}

static int become_user(const struct program_request *q)
{
	/* The raw calls: glibc's ones signal every thread that the parent has, and there is one here. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, q->gid, q->gid, q->gid) < 0 ||
	    syscall(SYS_setresuid, q->uid, q->uid, q->uid) < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* With default handlers for all, also for those signals that the daemon ignores or was made to ignore. */
static void reset_signals(void)
{
	/* The kernel's struct sigaction, all zero: SIG_DFL. The C library keeps two signals to itself. */
	static const unsigned long standard[16];
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		syscall(SYS_rt_sigaction, i, standard, NULL, (NSIG - 1) / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In a mount namespace of our own: all that there was is read-only, and the tree is where it is to be. */
static int enter_place(int tree_fd)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
				   .propagation = MS_PRIVATE };

	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
	    move_mount(tree_fd, "", AT_FDCWD, PROGRAM_PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	return chdir(PROGRAM_PLACE);
}

static int enter_directory(const struct program_request *q, int tree_fd)
{
	if (q->own_mounts)
		return enter_place(tree_fd);
	return q->cwd_fd >= 0 ? fchdir(q->cwd_fd) : chdir("/");
}

/* Places 0, 1 and 2, and error_fd at 3; nothing else stays open. */
static int place_descriptors(int null_fd, int output_fd, int *io_error_fd)
{
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
	    dup2(output_fd, STDERR_FILENO) < 0 || dup3(*io_error_fd, 3, O_CLOEXEC) < 0)
		return -1;
	*io_error_fd = 3;
	return close_range(4, ~0U, 0);
}

static int prepare(const struct running *run, int null_fd, int output_fd, int *io_error_fd)
{
	const struct program_request *q = run->request;
	struct pollfd parent;

	reset_signals();
	/* At the limit it gets an error that it can report, not a signal that nobody hears of. */
	if (q->file_bytes > 0)
		signal(SIGXFSZ, SIG_IGN);
	if (setsid() < 0)
		return -1;
	umask(022);
	/* Best effort, and while /proc can still be written. */
	(void)oom_score_raise();
	if (enter_directory(q, run->tree_fd) < 0)
		return -1;
	if (place_descriptors(null_fd, output_fd, io_error_fd) < 0)
		return -1;
	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, PROGRAM_FILES) < 0 ||
	    (q->file_bytes > 0 && limit(RLIMIT_FSIZE, q->file_bytes) < 0) ||
	    (q->data_bytes > 0 && limit(RLIMIT_DATA, q->data_bytes) < 0))
		return -1;
	if (q->as_user && become_user(q) < 0)
		return -1;
	/* Last: a change of user takes it away again. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -1;
	/* The parent may have died before; its end of the pipe tells, in any pid namespace. */
	parent = (struct pollfd){ .fd = *io_error_fd };
	if (poll(&parent, 1, 0) > 0 && (parent.revents & POLLERR)) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

static void __attribute__((noreturn))
child(const struct running *run, int null_fd, int output_fd, int error_fd)
{
	const struct program_request *q = run->request;
	const char *const *envp = q->envp ? q->envp : default_environment;
	int error;

	if (prepare(run, null_fd, output_fd, &error_fd) == 0)
		execve(q->path, (char *const *)q->argv, (char *const *)envp);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* ---- the parent ---- */

/* fork() with a pidfd and perhaps namespaces: 0 in the child, -1 and errno on failure. */
static pid_t fork_program(uint64_t namespaces, int *ret_pid_fd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | namespaces,
		.pidfd = (uintptr_t)ret_pid_fd,
		.exit_signal = SIGCHLD,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int start(struct running *run, int null_fd, int output_fd, int error_fd)
{
	const struct program_request *q = run->request;
	sigset_t all, saved;
	pid_t pid;
	int r;

	/* No handler of ours may run in the child before its mask and handlers are put right. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pid = fork_program((q->own_pids ? CLONE_NEWPID : 0) | (q->own_mounts ? CLONE_NEWNS : 0),
			   &run->pid_fd);
	if (pid < 0 && errno == EPERM && q->own_pids && !q->own_mounts)
		pid = fork_program(0, &run->pid_fd);
	if (pid == 0)
		child(run, null_fd, output_fd, error_fd);
	r = -errno;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (pid < 0)
		return r;
	run->pid = pid;
	return 0;
}

/* Its whole group. Only while the program has not been waited for: its number may be another's then. */
static void kill_group(const struct running *run)
{
	kill(-run->pid, SIGKILL);
	/* It may not have got as far as its own session. */
	kill(run->pid, SIGKILL);
}

static int wait_for(struct running *run)
{
	siginfo_t info = { 0 };

	while (waitid(P_PIDFD, (id_t)run->pid_fd, &info, WEXITED) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	run->result->exit_status = info.si_code == CLD_EXITED ? info.si_status : -1;
	run->result->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
	return 0;
}

/* Kills what runs. One that hangs in the kernel stays, and is a zombie when it comes out. */
static void end(struct running *run)
{
	struct pollfd gone = { .fd = run->pid_fd, .events = POLLIN };
	uint64_t until = clock_now_ms() + KILLED_GONE_MS, now;

	kill_group(run);
	while ((now = clock_now_ms()) < until) {
		if (poll(&gone, 1, (int)(until - now)) > 0) {
			wait_for(run);
			return;
		}
	}
}

static int keep_output(struct running *run, const char *bytes, size_t len)
{
	struct program_result *result = run->result;
	size_t max = run->request->output_max;

	if (len > max - result->output_len) {
		len = max - result->output_len;
		result->output_cut = true;
	}
	if (result->output_len + len + 1 > run->room) {
		size_t room = 2 * (result->output_len + len + 1);
		char *longer = realloc(result->output, room);

		if (!longer)
			return -ENOMEM;
		result->output = longer;
		run->room = room;
	}
	memcpy(result->output + result->output_len, bytes, len);
	result->output_len += len;
	result->output[result->output_len] = '\0';
	return 0;
}

/* What is in the pipe now, without waiting. Each call reads a bounded amount. */
static int read_output(struct running *run)
{
	char bytes[READ_BYTES];

	for (int i = 0; i < 64 && run->output_fd >= 0; i++) {
		ssize_t n = read(run->output_fd, bytes, sizeof(bytes));
		int r;

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0)
			cleanup_fd(&run->output_fd);
		r = keep_output(run, bytes, (size_t)n);
		if (r < 0)
			return r;
	}
	return 0;
}

/* How long poll may sleep; -1: for ever. */
static int sleep_ms(const struct running *run, uint64_t now)
{
	uint64_t until = run->deadline_ms;

	if (run->watch_at_ms < until)
		until = run->watch_at_ms;
	if (until == UINT64_MAX)
		return -1;
	if (until <= now)
		return 0;
	return until - now > 60000 ? 60000 : (int)(until - now);
}

static int check_limits(struct running *run)
{
	const struct program_request *q = run->request;
	uint64_t now = clock_now_ms();

	if (now >= run->deadline_ms)
		return -ETIMEDOUT;
	if (now < run->watch_at_ms)
		return 0;
	run->watch_at_ms = now + q->watch_ms;
	return q->watch(q->watch_arg);
}

/* Until the program itself has ended; processes that it left may hold the pipe open for longer. */
static int follow(struct running *run)
{
	int r = 0;

	while (r == 0) {
		struct pollfd fds[] = {
			{ .fd = run->pid_fd, .events = POLLIN },
			{ .fd = run->output_fd, .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), sleep_ms(run, clock_now_ms())) < 0 && errno != EINTR)
			return -errno;
		r = read_output(run);
		if (r == 0 && fds[0].revents)
			return read_output(run);
		if (r == 0)
			r = check_limits(run);
	}
	return r;
}

static int run_to_end(struct running *run, int error_fd)
{
	int error = 0, r;
	ssize_t n;

	/* Ends with the exec: either nothing comes, or why there was none. */
	do {
		n = read(error_fd, &error, sizeof(error));
	} while (n < 0 && errno == EINTR);
	r = n == sizeof(error) ? -error : follow(run);
	if (r < 0) {
		end(run);
		return r;
	}
	if (!run->request->may_leave)
		kill_group(run);
	return wait_for(run);
}

static int make_pipe(int flags, int *ret_in, int *ret_out)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_in = fds[0];
	*ret_out = fds[1];
	if (flags && fcntl(fds[0], F_SETFL, flags) < 0)
		return -errno;
	return 0;
}

static int open_null(int *ret_fd)
{
	AUTO_FD int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Above the places that the child fills. */
static int lift(int *io_fd)
{
	int fd = fcntl(*io_fd, F_DUPFD_CLOEXEC, 16);

	if (fd < 0)
		return -errno;
	cleanup_fd(io_fd);
	*io_fd = fd;
	return 0;
}

/* Cloned here: the child's namespace has copies of the mounts, and cwd_fd is on one of ours. */
static int clone_tree(const struct program_request *q, int *ret_fd)
{
	if (!q->own_mounts)
		return 0;
	*ret_fd = open_tree(q->cwd_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	return *ret_fd < 0 ? -errno : lift(ret_fd);
}

int program_run(const struct program_request *request, struct program_result **ret_result)
{
	AUTO(program_result) *result = calloc(1, sizeof(*result));
	AUTO_FD int null_fd = -1, output_in = -1, output_out = -1, error_in = -1, error_out = -1;
	AUTO_FD int tree_fd = -1;
	struct running run = {
		.request = request,
		.result = result,
		.pid_fd = -1,
		.output_fd = -1,
		.deadline_ms = UINT64_MAX,
		.watch_at_ms = UINT64_MAX,
	};
	int r;

	if (!result || keep_output(&run, "", 0) < 0)
		return -ENOMEM;
	if ((r = open_null(&null_fd)) < 0 ||
	    (r = make_pipe(O_NONBLOCK, &output_in, &output_out)) < 0 ||
	    (r = make_pipe(0, &error_in, &error_out)) < 0 || (r = lift(&null_fd)) < 0 ||
	    (r = lift(&output_out)) < 0 || (r = lift(&error_out)) < 0 ||
	    (r = clone_tree(request, &tree_fd)) < 0)
		return r;
	run.tree_fd = tree_fd;
	if (request->timeout_ms > 0)
		run.deadline_ms = clock_now_ms() + request->timeout_ms;
	if (request->watch)
		run.watch_at_ms = clock_now_ms() + request->watch_ms;
	r = start(&run, null_fd, output_out, error_out);
	if (r < 0)
		return r;
	cleanup_fd(&output_out);
	cleanup_fd(&error_out);
	run.output_fd = take_fd(&output_in);
	r = run_to_end(&run, error_in);
	cleanup_fd(&run.output_fd);
	cleanup_fd(&run.pid_fd);
	if (r < 0)
		return r;
	*ret_result = take_ptr(&result);
	return 0;
}

void program_result_free(struct program_result *result)
{
	if (!result)
		return;
	free(result->output);
	free(result);
}

char *program_quote(const char *line, char *ret_text, size_t size)
{
	static const char space[] = "\\x20";
	char *to = ret_text;

	log_quote(line, ret_text, size);
	for (const char *from = ret_text; *from; to++) {
		bool is_space = strncmp(from, space, strlen(space)) == 0;

		*to = is_space ? ' ' : *from;
		from += is_space ? strlen(space) : 1;
	}
	*to = '\0';
	return ret_text;
}

char *program_result_line(const struct program_result *result, char *ret_text, size_t size)
{
	const char *end = result->output + result->output_len, *begin;
	AUTO_FREE char *line = NULL;

	while (end > result->output && strchr(" \t\r\n", end[-1]))
		end--;
	for (begin = end; begin > result->output && begin[-1] != '\n'; begin--)
		;
	line = strndup(begin, (size_t)(end - begin));
	if (line && *line)
		return program_quote(line, ret_text, size);
	if (result->signal)
		snprintf(ret_text, size, "ended by signal %d", result->signal);
	else
		snprintf(ret_text, size, "exit status %d", result->exit_status);
	return ret_text;
}

int program_find(const char *name, char *ret_path, size_t size)
{
	for (const char *dir = PROGRAM_PATH; *dir;) {
		size_t len = strcspn(dir, ":");
		int n = snprintf(ret_path, size, "%.*s/%s", (int)len, dir, name);
		struct stat st;

		if (n < 0 || (size_t)n >= size)
			return -ENAMETOOLONG;
		if (stat(ret_path, &st) == 0 && S_ISREG(st.st_mode) && access(ret_path, X_OK) == 0)
			return 0;
		dir += len + (dir[len] == ':');
	}
	return -ENOENT;
}
