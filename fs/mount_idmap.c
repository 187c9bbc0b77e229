// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* The process that the namespace lies in until it has a descriptor. Its word is a byte. */
static void __attribute__((noreturn)) hold_user_space(int pipe_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER) < 0 || write(pipe_fd, "", 1) != 1)
		_exit(1);
	close(pipe_fd);
	for (;;)
		pause();
}

/* In one call, as the kernel wants it. */
static int write_map(pid_t holder, const char *name, const char *map)
{
	char path[48];
	AUTO_FD int fd = -1;
	size_t len = strlen(map);
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)holder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, map, len);
	return n < 0 ? -errno : (size_t)n == len ? 0 : -EINVAL;
}

static int name_user_space(pid_t holder, int ready_fd, const char *uid_map, const char *gid_map,
			   int *ret_fd)
{
	char path[48], byte;
	int r;

	/* It has failed: for want of namespaces (user.max_user_namespaces), or of memory. */
	if (read(ready_fd, &byte, 1) != 1)
		return -ENOSPC;
	r = write_map(holder, "uid_map", uid_map);
	if (r == 0)
		r = write_map(holder, "gid_map", gid_map);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)holder);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int make_user_space(const char *uid_map, const char *gid_map, int *ret_fd)
{
	int pair[2], r;
	pid_t holder;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	holder = fork();
	if (holder == 0)
		hold_user_space(pair[1]);
	r = holder < 0 ? -errno : 0;
	close(pair[1]);
	if (r == 0)
		r = name_user_space(holder, pair[0], uid_map, gid_map, ret_fd);
	close(pair[0]);
	if (holder > 0) {
		kill(holder, SIGKILL);
		waitpid(holder, NULL, 0);
	}
	return r;
}

int mount_idmap(int tree_fd, const char *uid_map, const char *gid_map)
{
	AUTO_FD int space_fd = -1;
	int r = make_user_space(uid_map, gid_map, &space_fd);
	const struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP,
					 .userns_fd = (uint64_t)space_fd };

	if (r < 0)
		return r;
	return syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ?
		       -errno :
		       0;
}
