/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CALLER_VIEWS_H
#define FS_CALLER_VIEWS_H

/*
 * caller_views: what the mounts of the overlay that a process has make of ids.
 *
 * A request does not say through which mount it came, and the same file belongs to other people through another
 * one. So these are all that the process has in its mount namespace: where each of them gives the same answer, that is
 * the kernel's own. Reads /proc/PID/mountinfo, and only where something there is idmapped the mounts of the machine
 * (mount_spaces.h). Any thread.
 */

#include <stddef.h>
#include <sys/types.h>

#include "fs/id_map.h"

/* One mount: ids on disk, and what they are seen as. */
struct caller_view {
	struct id_map uids, gids;
};

/*
 * caller_views_find: those of process @pid, equal ones once; to be freed with free().
 * @proc_fd: of /proc
 * @device_fd: the overlay's of /dev/fuse
 * Returns their number, at least 1, or -errno: they cannot be told (-ENOSYS: an older kernel, or not privileged enough;
 * -ENOENT: it has none, what it uses was handed to it; -E2BIG).
 */
int caller_views_find(int proc_fd, int device_fd, pid_t pid, struct caller_view **ret_views);

#endif
