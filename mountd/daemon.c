// SPDX-License-Identifier: Apache-2.0
#include "mountd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/control_group.h"
#include "mountd/proto.h"

#define LOG_BYTES_MAX (1 << 20)
#define PATH_LOG_OLD PATH_LOG ".1"
#define LOCK_WAIT_SECONDS 10

int daemon_harden(int keep_fd)
{
	int r = proto_keep_secret();

	umask(077);
	if (r < 0)
		return r;
	if ((keep_fd > 3 && close_range(3, (unsigned)keep_fd - 1, 0) < 0) ||
	    close_range(keep_fd >= 3 ? (unsigned)keep_fd + 1 : 3, ~0U, 0) < 0)
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

int daemon_lock(const struct layout *layout, bool is_socket_passed, int *ret_lock_fd)
{
	AUTO_FD int fd =
		openat(layout->run_fd, PATH_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (!is_socket_passed && answers(layout))
			return -EALREADY;
		/* It is starting or ending. */
		r = lock_wait(fd);
		if (r == -ETIMEDOUT && !is_socket_passed && answers(layout))
			return -EALREADY;
		if (r < 0)
			return r;
	}
	*ret_lock_fd = take_fd(&fd);
	return 0;
}

/* What stands at the socket's path. */
static int look_at_socket(const struct layout *layout, struct stat *ret_st)
{
	return fstatat(layout->run_fd, PATH_SOCKET, ret_st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int note_socket(const struct layout *layout, int fd, bool is_passed,
		       struct daemon_socket *ret_socket)
{
	struct stat st;
	int r = look_at_socket(layout, &st);

	if (r < 0)
		return r;
	*ret_socket = (struct daemon_socket){
		.fd = fd, .dev = st.st_dev, .ino = st.st_ino, .is_passed = is_passed
	};
	return 0;
}

int daemon_listen(const struct layout *layout, struct daemon_socket *ret_socket)
{
	struct sockaddr_un address;
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len =
		path_socket_address(layout->run_fd, layout->run_path, PATH_SOCKET, &address);
	int r;

	if (fd < 0)
		return -errno;
	if (unlinkat(layout->run_fd, PATH_SOCKET, 0) < 0 && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, len) < 0)
		return -errno;
	if (fchmodat(layout->run_fd, PATH_SOCKET, 0600, 0) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	r = note_socket(layout, fd, false, ret_socket);
	if (r == 0)
		take_fd(&fd);
	return r;
}

int daemon_listen_passed(const struct layout *layout, int fd, struct daemon_socket *ret_socket)
{
	struct sockaddr_un address = { 0 }, wanted;
	socklen_t len = sizeof(address);
	AUTO_FD int passed = fd;
	int r;

	path_socket_address(layout->run_fd, layout->run_path, PATH_SOCKET, &wanted);
	if (getsockname(passed, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	if (strncmp(address.sun_path, wanted.sun_path, sizeof(address.sun_path)) != 0)
		return -EADDRNOTAVAIL;
	r = note_socket(layout, passed, true, ret_socket);
	if (r == 0)
		take_fd(&passed);
	return r;
}

int daemon_let_in(const struct layout *layout, gid_t gid)
{
	const bool some = gid != GID_UNSET;
	const gid_t group = some ? gid : getegid();

	if (fchownat(layout->run_fd, PATH_SOCKET, (uid_t)-1, group, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(layout->run_fd, PATH_SOCKET, some ? 0660 : 0600, 0) < 0 ||
	    fchown(layout->run_fd, (uid_t)-1, group) < 0 ||
	    fchmod(layout->run_fd, some ? 0710 : 0700) < 0)
		return -errno;
	return 0;
}

bool daemon_socket_stands(const struct layout *layout, const struct daemon_socket *socket)
{
	struct stat st;

	return look_at_socket(layout, &st) == 0 && st.st_dev == socket->dev &&
	       st.st_ino == socket->ino;
}

void daemon_socket_close(const struct layout *layout, struct daemon_socket *socket)
{
	if (!socket->is_passed && daemon_socket_stands(layout, socket))
		unlinkat(layout->run_fd, PATH_SOCKET, 0);
	cleanup_fd(&socket->fd);
}

/* ---- the log ---- */

int daemon_log_open(const struct layout *layout, int *ret_fd)
{
	int fd = openat(layout->state_fd, PATH_LOG,
			O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* All of @from. A part is worth nothing: then the target is as it was, or gone. */
static int copy_log(const struct layout *layout, int from)
{
	static const char fresh[] = PATH_LOG ".new";
	AUTO_FD int to = openat(layout->state_fd, fresh,
				O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	off_t at = 0;
	ssize_t n;

	if (to < 0)
		return -errno;
	do {
		n = sendfile(to, from, &at, LOG_BYTES_MAX);
	} while (n > 0);
	if (n == 0 && renameat(layout->state_fd, fresh, layout->state_fd, PATH_LOG_OLD) == 0)
		return 0;
	n = -errno;
	unlinkat(layout->state_fd, fresh, 0);
	return (int)n;
}

void daemon_log_bound(const struct layout *layout)
{
	struct stat st;
	int r;

	if (fstat(STDERR_FILENO, &st) < 0 || st.st_size <= LOG_BYTES_MAX)
		return;
	r = copy_log(layout, STDERR_FILENO);
	/* Also without a copy: what is bounded stays bounded. */
	if (ftruncate(STDERR_FILENO, 0) < 0)
		r = -errno;
	if (r < 0)
		log_line(LOG_WARNING, "log", "ignoring that old lines are lost: %s", strerror(-r));
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
