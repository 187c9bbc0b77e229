// SPDX-License-Identifier: Apache-2.0
#include "mountd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fs/base/log.h"
#include "mountd/control_group.h"
#include "mountd/proto.h"

#define LOG_BYTES_MAX (1 << 20)
#define LOCK_WAIT_SECONDS 10
#define LISTEN_BACKLOG 64

int daemon_harden(void)
{
	int r = proto_keep_secret();

	umask(077);
	if (r < 0)
		return r;
	if (close_range(3, ~0U, 0) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static int null_to(int from, int to)
{
	AUTO_FD int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = from; i <= to; i++) {
		if (fd < 0 || dup2(fd, i) < 0)
			return -errno;
	}
	return 0;
}

static void __attribute__((noreturn)) await_ready(int fd)
{
	char byte;
	ssize_t n;

	do {
		n = read(fd, &byte, 1);
	} while (n < 0 && errno == EINTR);
	_exit(n == 1 ? 0 : 1);
}

int daemon_fork(int *ret_ready_fd)
{
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(ready[1]);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		await_ready(ready[0]);
	}
	close(ready[0]);
	if (setsid() < 0)
		_exit(1);
	/* Once more: no session leader, so no terminal can become ours. */
	pid = fork();
	if (pid != 0)
		_exit(pid < 0);
	if (chdir("/") < 0)
		return -errno;
	*ret_ready_fd = ready[1];
	return null_to(STDIN_FILENO, STDOUT_FILENO);
}

int daemon_ready(int ready_fd, int log_fd)
{
	if (dup2(log_fd, STDERR_FILENO) < 0)
		return -errno;
	if (write(ready_fd, "1", 1) != 1)
		return -EIO;
	close(ready_fd);
	return 0;
}

static bool answers(const struct layout *layout)
{
	struct sockaddr_un address;
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len =
		path_socket_address(layout->run_fd, layout->run_path, PATH_SOCKET, &address);

	return fd >= 0 && connect(fd, (struct sockaddr *)&address, len) == 0;
}

static void wake(int signal_number)
{
	(void)signal_number; /* it is enough that flock() is interrupted */
}

/* flock() with a deadline: an event, not a poll. */
static int lock_wait(int fd)
{
	struct sigaction action = { .sa_handler = wake }, before;
	int r;

	sigaction(SIGALRM, &action, &before);
	alarm(LOCK_WAIT_SECONDS);
	r = flock(fd, LOCK_EX) < 0 ? -errno : 0;
	alarm(0);
	sigaction(SIGALRM, &before, NULL);
	return r == -EINTR ? -ETIMEDOUT : r;
}

int daemon_lock(const struct layout *layout, int *ret_lock_fd)
{
	AUTO_FD int fd =
		openat(layout->run_fd, PATH_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (answers(layout))
			return -EALREADY;
		/* It is starting or ending. */
		r = lock_wait(fd);
		if (r == -ETIMEDOUT && answers(layout))
			return -EALREADY;
		if (r < 0)
			return r;
	}
	*ret_lock_fd = take_fd(&fd);
	return 0;
}

int daemon_listen(const struct layout *layout, int *ret_fd)
{
	struct sockaddr_un address;
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len =
		path_socket_address(layout->run_fd, layout->run_path, PATH_SOCKET, &address);

	if (fd < 0)
		return -errno;
	if (unlinkat(layout->run_fd, PATH_SOCKET, 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, len) < 0)
		return -errno;
	if (fchmodat(layout->run_fd, PATH_SOCKET, 0600, 0) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int daemon_log_open(const struct layout *layout, int *ret_fd)
{
	struct stat st;
	int fd;

	if (fstatat(layout->state_fd, PATH_LOG, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_size > LOG_BYTES_MAX &&
	    renameat(layout->state_fd, PATH_LOG, layout->state_fd, PATH_LOG ".1") < 0)
		return -errno;
	fd = openat(layout->state_fd, PATH_LOG,
		    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

void daemon_log_bound(const struct layout *layout)
{
	struct stat st;
	AUTO_FD int fd = -1;

	if (fstat(STDERR_FILENO, &st) < 0 || st.st_size <= LOG_BYTES_MAX)
		return;
	if (daemon_log_open(layout, &fd) < 0 || dup2(fd, STDERR_FILENO) < 0)
		log_line(LOG_WARNING, "log", "ignoring that the log cannot be changed: %s",
			 strerror(errno));
}

/* ---- control group ---- */

#define CGROUP_NAME "fsgroupfs-mountd"

void daemon_enter_cgroup(void)
{
	struct control_group group;

	control_group_find(CGROUP_NAME, &group);
	control_group_join(&group);
}

void daemon_leave_cgroup(void)
{
	struct control_group group;

	control_group_find(CGROUP_NAME, &group);
	control_group_leave(&group);
	control_group_remove(&group); /* another root's daemon may be in it */
}
