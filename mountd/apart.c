// SPDX-License-Identifier: Apache-2.0
#include "mountd/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/packet.h"

/* Where a job's descriptors are in its process; all others are closed there: locks and sockets of ours among them. */
enum { JOB_DIR = 3, JOB_ANSWER, JOB_FIRST_FREE, LIFTED = 64 };

/* What is to be done; made before the fork, for after it only async-signal-safe calls are made. */
struct job {
	int (*call)(const struct job *job); /* -errno, 0, or a descriptor for the caller */
	int dir_fd;			    /* or AT_FDCWD, for absolute paths */
	char path[PATH_MAX];
	struct open_how how;
	int flags;
	uint64_t limit_ms;
};

/* ---- in the process apart ---- */

static void answer(int result)
{
	int error = result < 0 ? result : 0;

	(void)packet_send(JOB_ANSWER, &error, sizeof(error), result > 0 ? result : -1);
}

/*
 * When nobody waits for the answer any more, a signal ends this process: most waits in the kernel are given up for that.
 */
static void end_with_asker(void)
{
	sigset_t none;

	signal(SIGIO, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fcntl(JOB_ANSWER, F_SETOWN, getpid());
	fcntl(JOB_ANSWER, F_SETFL, O_ASYNC);
}

static void __attribute__((noreturn)) work(struct job *job, int answer_fd)
{
	int dir_fd = job->dir_fd < 0 ? job->dir_fd : fcntl(job->dir_fd, F_DUPFD, LIFTED);

	answer_fd = fcntl(answer_fd, F_DUPFD, LIFTED);
	if (answer_fd < 0 || dup2(answer_fd, JOB_ANSWER) < 0)
		_exit(1);
	if (dir_fd >= 0 && dup2(dir_fd, JOB_DIR) < 0)
		_exit(1);
	syscall(SYS_close_range, JOB_FIRST_FREE, ~0U, 0);
	if (dir_fd >= 0)
		job->dir_fd = JOB_DIR;
	else
		close(JOB_DIR);
	end_with_asker();
	answer(job->call(job));
	_exit(0);
}

/* ---- in ours ---- */

static int receive(int fd, uint64_t limit_ms, int *ret_fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	AUTO_FD int passed = -1;
	int error = -EIO, r;

	do
		r = poll(&poll_fd, 1, (int)limit_ms);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	if (packet_receive(fd, &error, sizeof(error), 0, &passed) != (ssize_t)sizeof(error))
		return -EIO; /* it was ended */
	if (passed >= 0)
		*ret_fd = take_fd(&passed);
	return error;
}

/*
 * A child that tells nobody of its end, so that it is not taken for one that somebody else waits for; nor is one that does
 * not end waited for: a later call takes its exit status. Not by fork(3): nothing of the C library is used in it.
 */
static pid_t start(struct job *job, int answer_fd)
{
	sigset_t all, saved;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	if (pid == 0)
		work(job, answer_fd);
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return pid;
}

static int run(struct job *job, int *ret_fd)
{
	AUTO_FD int ours = -1, theirs = -1;
	int pair[2], r;
	pid_t pid;

	while (waitpid(-1, NULL, __WCLONE | WNOHANG) > 0)
		;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	pid = start(job, theirs);
	if (pid < 0)
		return pid;
	cleanup_fd(&theirs);
	r = receive(ours, job->limit_ms, ret_fd);
	if (r != -ETIMEDOUT)
		waitpid(pid, NULL, __WCLONE);
	return r;
}

static int call_open(const struct job *job)
{
	int fd = (int)syscall(SYS_openat2, job->dir_fd, job->path, &job->how, sizeof(job->how));

	return fd < 0 ? -errno : fd;
}

int apart_open(int dir_fd, const char *path, uint64_t flags, uint64_t resolve, int *ret_fd)
{
	struct job job = {
		.call = call_open,
		.dir_fd = dir_fd,
		.how = { .flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_CACHED },
		.limit_ms = APART_OPEN_MS,
	};
	int fd, r;

	if (strlen(path) >= sizeof(job.path))
		return -ENAMETOOLONG;
	strcpy(job.path, path);
	fd = call_open(&job);
	/* -EINVAL: a kernel that does not know that it can be asked so. */
	if (fd != -EAGAIN && fd != -EINVAL) {
		if (fd < 0)
			return fd;
		*ret_fd = fd;
		return 0;
	}
	job.how.resolve = resolve;
	fd = -1;
	r = run(&job, &fd);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

static int call_unmount(const struct job *job)
{
	return umount2(job->path, UMOUNT_NOFOLLOW | job->flags) < 0 ? -errno : 0;
}

int apart_unmount(int dir_fd, const char *name, int flags, uint64_t limit_ms)
{
	struct job job = {
		.call = call_unmount, .dir_fd = dir_fd, .flags = flags, .limit_ms = limit_ms
	};
	int n = snprintf(job.path, sizeof(job.path), "/proc/self/fd/%d/%s", JOB_DIR, name), fd = -1;

	if (n < 0 || (size_t)n >= sizeof(job.path))
		return -ENAMETOOLONG;
	return run(&job, &fd);
}

static int call_statfs(const struct job *job)
{
	int fd = openat(job->dir_fd, job->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs sfs;

	return fd < 0 || fstatfs(fd, &sfs) < 0 ? -errno : 0;
}

int apart_ask(int dir_fd, const char *name, uint64_t limit_ms)
{
	struct job job = { .call = call_statfs, .dir_fd = dir_fd, .limit_ms = limit_ms };
	int fd = -1;

	if (strlen(name) >= sizeof(job.path))
		return -ENAMETOOLONG;
	strcpy(job.path, name);
	return run(&job, &fd);
}
