/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_MOUNT_SPACES_H
#define FS_MOUNT_SPACES_H

/*
 * mount_spaces: the mounts of a file system in every mount namespace of the machine.
 *
 * Asks the kernel for its namespaces and their mounts (the nsfs ioctls of Linux 6.12, listmount and
 * statmount of 6.11), so that namespaces without a process are seen too, and some thousand mounts take
 * milliseconds. Needs CAP_SYS_ADMIN in the initial user namespace. Does not see mounts that are attached
 * nowhere. Asks no file system's server. No state; single-threaded.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/mounting.h"

enum { COPIES_MAX = 256 };

/* One more mount of the overlay's superblock. */
struct copy {
	uint64_t id, parent_id; /* unique ids (STATX_MNT_ID_UNIQUE) */
	int space;		/* index of its namespace in copies.spaces */
	uint64_t attributes;	/* MOUNT_ATTR_* */
	uint64_t propagation;	/* MS_PRIVATE, MS_SHARED, MS_SLAVE, ... */
	char *root;		/* what it shows: a path from the overlay's root */
	char *point;		/* where: a path from its namespace's root */
};

struct copies {
	struct copy list[COPIES_MAX];
	size_t count;
	struct {
		int fd; /* of the namespace; -1: our own */
		ino_t ino;
	} spaces[COPIES_MAX]; /* those that hold copies */
	size_t space_count;
};

/*
 * copies_find: all mounts of @overlay's superblock but itself. *ret_copies, to be freed by copies_fini() in
 * any case, is complete on 0.
 * @ret_reason: on 1, a line that says what is mounted on the overlay or on a copy
 * Returns 0, 1, -ENOSYS (older kernel, or not privileged enough), -E2BIG (more than COPIES_MAX), -errno.
 */
int copies_find(const struct overlay_mount *overlay, struct copies *ret_copies,
		char ret_reason[256]);
void copies_fini(struct copies *copies);

/*
 * mount_spaces_attributes: MOUNT_ATTR_* that the mount with this unique id, of our own namespace, has now.
 * -ENOSYS: the kernel does not say (before 6.8). -ENOENT: it is not there.
 */
int mount_spaces_attributes(uint64_t id, uint64_t *ret_attributes);

#endif
