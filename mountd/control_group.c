// SPDX-License-Identifier: Apache-2.0
#include "mountd/control_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* Between our making a group and our joining it somebody may sweep it away, but not for ever. */
#define JOIN_TRIES 16

/*
 * Where the session manager's tree is: version 2, alone or beside version 1, or version 1's named
 * hierarchy. Controllers' own trees are left alone: they are the container's limits.
 */
static const char *const roots[CONTROL_GROUP_HIERARCHIES] = {
	"/sys/fs/cgroup/systemd",
	"/sys/fs/cgroup/unified",
	"/sys/fs/cgroup",
};

/* The calling process goes into the group at @path. */
static int enter(const char *path)
{
	AUTO_FD int dir_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD int fd =
		dir_fd < 0 ? -1 : openat(dir_fd, "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) < 0)
		return -errno;
	return 0;
}

void control_group_find(const char *name, struct control_group *ret_group)
{
	memset(ret_group, 0, sizeof(*ret_group));
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		char procs[64];

		snprintf(procs, sizeof(procs), "%s/cgroup.procs", roots[i]);
		if (access(procs, W_OK) == 0)
			snprintf(ret_group->paths[i], sizeof(ret_group->paths[i]), "%s/%s",
				 roots[i], name);
	}
}

void control_group_join(const struct control_group *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		const char *path = group->paths[i];
		int r = path[0] ? -ENOENT : 0;

		for (int tries = 0; tries < JOIN_TRIES && (r == -ENOENT || r == -ENODEV); tries++) {
			if (mkdir(path, 0755) < 0 && errno != EEXIST)
				break;
			r = enter(path);
		}
		/* One that cannot be used is not left there. */
		if (r < 0)
			rmdir(path);
	}
}

void control_group_leave(const struct control_group *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		if (group->paths[i][0] && access(group->paths[i], F_OK) == 0)
			(void)enter(roots[i]);
	}
}

void control_group_remove(const struct control_group *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		if (group->paths[i][0])
			rmdir(group->paths[i]);
	}
}

void control_groups_sweep(const char *prefix)
{
	struct control_group group;

	control_group_find(prefix, &group);
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		DIR *dir = group.paths[i][0] ? opendir(roots[i]) : NULL;
		struct dirent *entry;

		while (dir && (entry = readdir(dir)) != NULL) {
			if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
				unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
		}
		if (dir)
			closedir(dir);
	}
}
