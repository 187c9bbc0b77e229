// SPDX-License-Identifier: Apache-2.0
#include "mountd/client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "mountd/path.h"
#include "mountd/path_program.h"

#define DAEMON "fsgroup-mountd"
#define SPAWN_TRIES 3

static int connect_once(const struct layout *layout, int *ret_fd)
{
	struct sockaddr_un address;
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len;

	if (layout->run_fd < 0)
		return -ENOENT;
	if (fd < 0)
		return -errno;
	len = path_socket_address(layout->run_fd, layout->run_path, PATH_SOCKET, &address);
	if (connect(fd, (struct sockaddr *)&address, len) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static void __attribute__((noreturn))
run_daemon(const char *program, const char *root, int error_fd)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(error_fd, STDERR_FILENO) < 0)
		_exit(126);
	close_range(3, ~0U, 0);
	execl(program, program, "--root", root, (char *)NULL);
	dprintf(STDERR_FILENO, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

/* What the daemon says before it is ready, without its name: its standard error ends there. */
static void read_complaint(int fd, char *ret_text, size_t size)
{
	char rest[512];
	size_t used = 0;

	for (;;) {
		size_t room = size - 1 - used;
		ssize_t n = read(fd, room ? ret_text + used : rest, room ? room : sizeof(rest));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += room ? (size_t)n : 0;
	}
	ret_text[used] = '\0';
	ret_text[strcspn(ret_text, "\n")] = '\0';
	if (strncmp(ret_text, DAEMON ": ", strlen(DAEMON ": ")) == 0)
		memmove(ret_text, ret_text + strlen(DAEMON ": "),
			strlen(ret_text + strlen(DAEMON ": ")) + 1);
}

static int spawn(const char *root, bool *ret_is_final, char *ret_error, size_t size)
{
	char program[PATH_MAX], complaint[512];
	AUTO_FD int read_fd = -1;
	int pipe_fds[2], status = 0, r;
	pid_t pid;

	r = program_path(DAEMON, program, sizeof(program));
	if (r < 0)
		return r;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = pipe_fds[0];
	pid = fork();
	if (pid == 0)
		run_daemon(program, root, pipe_fds[1]);
	r = pid < 0 ? -errno : 0;
	close(pipe_fds[1]);
	if (r < 0)
		return r;
	read_complaint(read_fd, complaint, sizeof(complaint));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	/* Without a word: somebody ended it. It is worth another try. */
	if (!complaint[0])
		snprintf(complaint, sizeof(complaint), "it ended while it was starting");
	else
		*ret_is_final = true;
	snprintf(ret_error, size, "fsgroup-mountd cannot be started: %s", complaint);
	return -EIO;
}

static int start(const struct layout *layout, int *ret_fd, char *ret_error, size_t size)
{
	AUTO_FD int lock_fd = openat(layout->run_fd, PATH_START_LOCK,
				     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool is_final = false;
	int r = -ECONNREFUSED;

	if (lock_fd < 0)
		return -errno;
	while (flock(lock_fd, LOCK_EX) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	/* Perhaps the one before us has started it. */
	if (connect_once(layout, ret_fd) == 0)
		return 0;
	for (int i = 0; r < 0 && !is_final && i < SPAWN_TRIES; i++) {
		r = spawn(layout->root, &is_final, ret_error, size);
		if (r == 0)
			r = connect_once(layout, ret_fd);
	}
	return r;
}

int ctl_connect_running(const char *root, int *ret_fd)
{
	AUTO(layout) *layout = NULL;
	int r = layout_open(root, false, &layout);

	return r < 0 ? r : connect_once(layout, ret_fd);
}

int ctl_connect(const char *root, int *ret_fd, char *ret_error, size_t size)
{
	AUTO(layout) *layout = NULL;
	int r;

	ret_error[0] = '\0';
	r = layout_open(root, false, &layout);
	if (r == 0) {
		r = connect_once(layout, ret_fd);
		if (r == 0)
			return 0;
	}
	if (r == -ENOENT || r == -ECONNREFUSED) {
		layout_free(layout);
		layout = NULL;
		umask(077);
		r = layout_open(root, true, &layout);
		if (r == 0)
			r = start(layout, ret_fd, ret_error, size);
	}
	if (r < 0 && !ret_error[0])
		snprintf(ret_error, size, "fsgroup-mountd of %s cannot be reached: %s", root,
			 strerror(-r));
	return r;
}
