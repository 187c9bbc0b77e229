// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"

enum { IDS = 65536 };

static int write_map(pid_t pid, const char *name)
{
	char path[64], text[64];
	AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	snprintf(text, sizeof(text), "0 %d %d\n", OUTSIDE_FIRST_ID, IDS);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
}

static int open_namespace(pid_t pid, const char *name, int *ret_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int receive_number(int fd, int *ret_number)
{
	return recv(fd, ret_number, sizeof(*ret_number), 0) == sizeof(*ret_number) ? 0 : -EPIPE;
}

static int send_number(int fd, int number)
{
	return send(fd, &number, sizeof(number), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Says that it is in its namespaces, and goes on when it has ids there. */
static int go_inside(int fd)
{
	int r = 0, answer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		r = -errno;
	if (send_number(fd, r) < 0 || r < 0)
		return r < 0 ? r : -EPIPE;
	r = receive_number(fd, &answer);
	if (r < 0 || answer < 0)
		return r < 0 ? r : answer;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;
	return 0;
}

/* Gives it ids, and follows it to its mounts. */
static int let_in(pid_t pid, int fd, int *ret_userns_fd)
{
	AUTO_FD int userns_fd = -1;
	AUTO_FD int mounts_fd = -1;
	int answer, r = receive_number(fd, &answer);

	if (r == 0)
		r = answer;
	if (r == 0)
		r = write_map(pid, "uid_map");
	if (r == 0)
		r = write_map(pid, "gid_map");
	if (r == 0)
		r = open_namespace(pid, "user", &userns_fd);
	if (r == 0)
		r = open_namespace(pid, "mnt", &mounts_fd);
	if (r == 0 && setns(mounts_fd, CLONE_NEWNS) < 0)
		r = -errno;
	if (r == 0)
		*ret_userns_fd = take_fd(&userns_fd);
	(void)send_number(fd, r);
	return r;
}

static void serve(const struct outside_work *work, int fd, int userns_fd)
{
	uint64_t argument;

	while (recv(fd, &argument, sizeof(argument), 0) == sizeof(argument)) {
		if (send_number(fd, work->outside(work->context, userns_fd, argument)) < 0)
			return;
	}
}

int outside_run(const struct outside_work *work)
{
	AUTO_FD int userns_fd = -1;
	int pair[2], status, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		r = go_inside(pair[1]);
		_exit(r < 0 ? 2 : work->inside(work->context, pair[1]));
	}
	close(pair[1]);
	r = pid < 0 ? -errno : let_in(pid, pair[0], &userns_fd);
	if (r == 0)
		serve(work, pair[0], userns_fd);
	close(pair[0]);
	if (pid > 0 && waitpid(pid, &status, 0) < 0 && r == 0)
		r = -errno;
	return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

int outside_ask(int ask_fd, uint64_t argument)
{
	int r, answer;

	if (send(ask_fd, &argument, sizeof(argument), MSG_NOSIGNAL) < 0)
		return -EPIPE;
	r = receive_number(ask_fd, &answer);
	return r < 0 ? r : answer;
}
