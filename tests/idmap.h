/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_IDMAP_H
#define TESTS_IDMAP_H

/*
 * idmap: user namespaces with a map, and idmapped mounts, for tests. As root; single-threaded.
 *
 * A map is "FIRST:LOWER:COUNT", for users and groups alike.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

static inline int idmap_write_map(pid_t pid, const char *name, const char *map)
{
	char path[64], line[64];
	AUTO_FD int fd = -1;

	snprintf(line, sizeof(line), "%s", map);
	for (char *p = line; *p; p++)
		*p = *p == ':' ? ' ' : *p;
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, line, strlen(line)) < 0 ? -errno : 0;
}

/* idmap_user_namespace: a descriptor of a new user namespace, or -errno. */
static inline int idmap_user_namespace(const char *map)
{
	char path[64];
	int pair[2], fd = -1, r;
	pid_t child;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWUSER) < 0 || write(pair[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(pair[1]);
	r = child < 0 ? -errno : read(pair[0], path, 1) == 1 ? 0 : -EPERM;
	close(pair[0]);
	if (r == 0)
		r = idmap_write_map(child, "uid_map", map);
	if (r == 0)
		r = idmap_write_map(child, "gid_map", map);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)child);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
	}
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return r < 0 ? r : fd;
}

/* idmap_clone: a detached mount of what @path shows, idmapped by the namespace @space_fd; or -errno. */
static inline int idmap_clone(const char *path, int space_fd)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)space_fd };
	AUTO_FD int tree =
		(int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0 ||
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return take_fd(&tree);
}

#endif
