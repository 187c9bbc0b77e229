// SPDX-License-Identifier: Apache-2.0
#include "mountd/caller_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "mountd/mount.h"

/* Linux 6.11; newer than some headers (source: include/uapi/linux/nsfs.h). */
#ifndef NS_GET_MNTNS_ID
#define NS_GET_MNTNS_ID _IOR(0xb7, 0x5, uint64_t)
#endif

static int fail(int error, const struct target *target, const char *why, char *ret_error)
{
	char quoted[256];

	snprintf(ret_error, TARGET_ERROR_MAX, "target %s: %s",
		 log_quote(target->given, quoted, sizeof(quoted)), why);
	return error;
}

/* One directory is told from another without asking its file system. */
static int identify(int fd, struct statx *ret_stx)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, ret_stx) < 0)
		return -errno;
	return 0;
}

static bool is_same_directory(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor &&
	       a->stx_ino == b->stx_ino;
}

static int is_our_space(int space_fd, bool *ret_ours)
{
	struct stat theirs, ours;

	if (ioctl(space_fd, NS_GET_NSTYPE) != CLONE_NEWNS)
		return -EINVAL;
	if (fstat(space_fd, &theirs) < 0 || stat("/proc/self/ns/mnt", &ours) < 0)
		return -errno;
	*ret_ours = theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
	return 0;
}

/* Whether what is mounted in our directory appears in theirs. What cannot be told does not. */
static bool does_propagate(const struct mount_view *ours, const struct mount_view *theirs,
			   int space_fd)
{
	struct mount_peers here, there;
	uint64_t space_id = 0;

	return ioctl(space_fd, NS_GET_MNTNS_ID, &space_id) == 0 &&
	       mount_peers_get(0, ours->id, &here) == 0 &&
	       mount_peers_get(space_id, theirs->id, &there) == 0 && here.group != 0 &&
	       (there.group == here.group || there.master == here.group);
}

int caller_place_check(const struct target *target, const int fds[PROTO_FDS], char *ret_error)
{
	struct statx here, there;
	struct mount_view ours, theirs;
	bool same_space = false;
	int r = is_our_space(fds[PROTO_FD_SPACE], &same_space);

	if (r == 0)
		r = identify(target->parent_fd, &here);
	if (r == 0)
		r = identify(fds[PROTO_FD_PARENT], &there);
	if (r == 0)
		r = mount_look(target->parent_fd, "", &ours);
	if (r == 0)
		r = mount_look(fds[PROTO_FD_PARENT], "", &theirs);
	if (r < 0)
		return fail(r, target, "what the client says of its place cannot be used",
			    ret_error);
	if (!same_space && !is_same_directory(&here, &there))
		return fail(
			-EXDEV, target,
			"the daemon is in another mount namespace, where this is another directory",
			ret_error);
	if (!same_space && !does_propagate(&ours, &theirs, fds[PROTO_FD_SPACE]))
		return fail(
			-EXDEV, target,
			"the daemon is in another mount namespace: what it mounts there would not be seen here",
			ret_error);
	if (same_space && (!is_same_directory(&here, &there) || ours.id != theirs.id))
		return fail(-EXDEV, target,
			    "this is another directory to the daemon: has the client another root?",
			    ret_error);
	return 0;
}

bool caller_is_elsewhere(const char *volume, const int *fds)
{
	AUTO(target) *target = NULL;
	char why[TARGET_ERROR_MAX];

	return fds && target_open(volume, &target, why) == 0 &&
	       caller_place_check(target, fds, why) < 0;
}
