// SPDX-License-Identifier: Apache-2.0
#include "mountd/client/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

#define OWN_SPACE "/proc/self/ns/mnt"

static int open_space(const char *space, int *ret_fd)
{
	char path[64];
	uint32_t pid;
	int fd;

	if (parse_u32(space, &pid) == 0) {
		snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid);
		space = path;
	}
	fd = open(space, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int client_place_enter(const char *space)
{
	AUTO_FD int fd = -1;
	int r = open_space(space, &fd);

	if (r < 0)
		return r;
	return setns(fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

/* -1: it is not there. */
static int open_parent(const char *target)
{
	const char *slash = strrchr(target, '/');
	char parent[PATH_MAX];
	int n;

	if (!slash)
		return -1;
	n = snprintf(parent, sizeof(parent), "%.*s", slash == target ? 1 : (int)(slash - target),
		     target);
	if (n < 0 || (size_t)n >= sizeof(parent))
		return -1;
	return open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* There and back: what else is done by path is done where we were. */
static int open_parent_in(int space_fd, const char *target, int *ret_fd)
{
	AUTO_FD int own_fd = open(OWN_SPACE, O_RDONLY | O_CLOEXEC);
	AUTO_FD int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int cwd_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (own_fd < 0 || root_fd < 0 || cwd_fd < 0 || setns(space_fd, CLONE_NEWNS) < 0)
		return -errno;
	*ret_fd = open_parent(target);
	if (setns(own_fd, CLONE_NEWNS) < 0 || fchdir(root_fd) < 0 || chroot(".") < 0 ||
	    fchdir(cwd_fd) < 0)
		return -errno;
	return 0;
}

int client_place_open(const char *target, const char *space, struct client_place *ret_place)
{
	AUTO_FD int space_fd = -1, parent_fd = -1;
	int r = open_space(space ? space : OWN_SPACE, &space_fd);

	*ret_place = (struct client_place){ .is_known = false };
	/* Without /proc nothing is known of our own. */
	if (r < 0)
		return space ? r : 0;
	if (space)
		r = open_parent_in(space_fd, target, &parent_fd);
	else
		parent_fd = open_parent(target);
	if (r < 0 || parent_fd < 0)
		return r;
	ret_place->fds[PROTO_FD_PARENT] = take_fd(&parent_fd);
	ret_place->fds[PROTO_FD_SPACE] = take_fd(&space_fd);
	ret_place->is_known = true;
	return 0;
}

void client_place_close(struct client_place *place)
{
	for (size_t i = 0; place->is_known && i < PROTO_FDS; i++)
		close(place->fds[i]);
	place->is_known = false;
}
