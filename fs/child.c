// SPDX-License-Identifier: Apache-2.0
#include "fs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/oom_score.h"
#include "fs/channel.h"
#include "fs/node.h"
#include "fs/request.h"

/* Not less than the largest write, with its head; the kernel refuses to read into less. */
enum { REQUEST_BYTES = (1 << 20) + 8192 };

static void keep_open(int fd)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, 0);
}

/* In the child: becomes the server. Only returns when that fails. */
static void exec_server(const struct child_setup *setup, int channel_fd)
{
	const struct overlay_options *o = setup->options;
	char fds[96], effective[32] = "ownership=converge";
	size_t count = 0;
	sigset_t none;
	char **argv;

	while (setup->arguments[count])
		count++;
	argv = calloc(2 * count + 8, sizeof(*argv));
	if (!argv)
		return;
	snprintf(fds, sizeof(fds), "--server=%d,%d,%d,%d", setup->device_fd, setup->shared_fd,
		 channel_fd, setup->tree_fd);
	count = 0;
	argv[count++] = "fsgroupfs";
	argv[count++] = fds;
	for (size_t i = 0; setup->arguments[i]; i++) {
		argv[count++] = "-o";
		argv[count++] = setup->arguments[i];
	}
	/* What follows from the lower mount, after what was asked for. */
	if (o->ownership == OWNERSHIP_VIRTUAL)
		strcpy(effective, "ownership=virtual");
	else if (o->ownership == OWNERSHIP_NONE)
		strcpy(effective, "ownership=none");
	argv[count++] = "-o";
	argv[count++] = effective;
	if (o->rule.read_only) {
		argv[count++] = "-o";
		argv[count++] = "ro";
	}
	keep_open(setup->device_fd);
	keep_open(setup->shared_fd);
	keep_open(channel_fd);
	keep_open(setup->tree_fd);
	keep_open(o->journal_fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void)oom_score_set(OOM_SCORE_SERVER); /* else it has what its keeper could have */
	if (setup->program_fd >= 0)
		execveat(setup->program_fd, "", argv, environ, AT_EMPTY_PATH);
	else
		execv("/proc/self/exe", argv);
	channel_send(channel_fd, CHANNEL_FAILED, errno, "exec");
}

static int note_started(pid_t pid, struct child *ret_child)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0) {
		int r = -errno;

		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return r;
	}
	*ret_child = CHILD_NONE;
	ret_child->pid = pid;
	ret_child->pidfd = pidfd;
	return 0;
}

int child_start(const struct child_setup *setup, struct child *ret_child)
{
	int pair[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		exec_server(setup, pair[1]);
		_exit(127);
	}
	r = pid < 0 ? -errno : note_started(pid, ret_child);
	close(pair[1]);
	if (r < 0)
		close(pair[0]);
	else
		ret_child->channel_fd = pair[0];
	return r;
}

/* Ends when the connection does. */
static void refuse_requests(int device_fd, struct shared *shared)
{
	char *bytes = malloc(REQUEST_BYTES);

	while (bytes) {
		ssize_t n = read(device_fd, bytes, REQUEST_BYTES);
		uint64_t unique, node;
		uint32_t opcode;
		char reply[64];
		bool is_resent;

		if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
			continue;
		if (n < 0)
			_exit(errno == ENODEV ? EXIT_SUCCESS : EXIT_FAILURE);
		if (!request_is_answered(bytes, (size_t)n, &opcode, &unique, &is_resent))
			continue;
		/* One that a dead server had read may be counted already. */
		if (!is_resent && request_releases_file(bytes, (size_t)n, &node))
			node_note_release(shared, node);
		n = (ssize_t)request_error_reply(request_unique(bytes, (size_t)n), EIO, reply);
		/* -ENOENT: nobody waits for it any more. */
		if (write(device_fd, reply, (size_t)n) < 0 && errno != ENOENT)
			_exit(errno == ENODEV ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	_exit(EXIT_FAILURE);
}

int child_refuse(int device_fd, struct shared *shared, struct child *ret_child)
{
	pid_t keeper = getpid(), pid = fork();
	char notification[64];
	sigset_t none;

	if (pid < 0)
		return -errno;
	if (pid > 0)
		return note_started(pid, ret_child);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper)
		_exit(EXIT_FAILURE);
	prctl(PR_SET_NAME, "fsgroupfs-eio");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A server that was just giving way has left it so. */
	fcntl(device_fd, F_SETFL, O_RDWR);
	if (dup2(device_fd, 3) < 0 || syscall(SYS_close_range, 4, ~0U, 0) < 0)
		_exit(EXIT_FAILURE);
	/* What the dead had read is waiting for an answer, too. */
	if (write(3, notification, request_resend(notification)) < 0 && errno == ENODEV)
		_exit(EXIT_SUCCESS);
	refuse_requests(3, shared);
	return 0;
}

int child_reap(struct child *c, int *ret_status)
{
	pid_t pid;

	do
		pid = waitpid(c->pid, ret_status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return -EAGAIN;
	cleanup_fd(&c->pidfd);
	cleanup_fd(&c->channel_fd);
	*c = CHILD_NONE;
	return 0;
}

void child_end(struct child *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	cleanup_fd(&c->pidfd);
	cleanup_fd(&c->channel_fd);
	*c = CHILD_NONE;
}
