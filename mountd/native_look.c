// SPDX-License-Identifier: Apache-2.0
#include "mountd/native_look.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/xattr.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "fs/base/cleanup.h"

struct report {
	int error; /* errno, positive */
	struct native_view view;
};

/* In the process that looks, a copy of one of many threads: system calls only. */

static int walk(int dir_fd, const char *name, const char *path, struct report *report)
{
	char part[256], link[32];
	int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	while (fd >= 0 && *path) {
		size_t len = strcspn(path, "/");
		int next;

		if (len >= sizeof(part))
			return ENAMETOOLONG;
		memcpy(part, path, len);
		part[len] = '\0';
		path += len + strspn(path + len, "/");
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0)
			return EXDEV;
		next = openat(fd, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	if (fd < 0 || fstat(fd, &report->view.st) < 0)
		return errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	report->view.has_acl = getxattr(link, XATTR_NAME_POSIX_ACL_ACCESS, NULL, 0) > 0;
	return 0;
}

static void __attribute__((noreturn))
look(int dir_fd, const char *name, const char *path, unsigned seconds, int out_fd)
{
	struct report report;
	sigset_t none;

	/* Where it hangs, this ends it once it can be ended. */
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(seconds);
	memset(&report, 0, sizeof(report));
	report.error = walk(dir_fd, name, path, &report);
	_exit(write(out_fd, &report, sizeof(report)) == (ssize_t)sizeof(report) ? 0 : 1);
}

/* A grandchild: nobody has to wait for it. */
static int start(int dir_fd, const char *name, const char *path, unsigned seconds, int out_fd)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		pid_t looker = fork();

		if (looker == 0)
			look(dir_fd, name, path, seconds, out_fd);
		_exit(looker < 0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

int native_look(int dir_fd, const char *name, const char *path, uint64_t timeout_ms,
		struct native_view *ret_view)
{
	AUTO_FD int in_fd = -1, out_fd = -1;
	struct report report;
	struct pollfd ready;
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	in_fd = pair[0];
	out_fd = pair[1];
	r = start(dir_fd, name, path, (unsigned)(timeout_ms / 1000) + 1, out_fd);
	if (r < 0)
		return r;
	cleanup_fd(&out_fd);
	ready = (struct pollfd){ .fd = in_fd, .events = POLLIN };
	if (poll(&ready, 1, (int)timeout_ms) <= 0)
		return -ETIMEDOUT;
	if (read(in_fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
		return -EIO;
	if (report.error)
		return -report.error;
	*ret_view = report.view;
	return 0;
}
