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
#include <sys/ioctl.h>
#include <sys/types.h>

#include "fs/mounting.h"

/* The ioctls on a mount namespace's descriptor with which the others are found (linux/nsfs.h). */
struct mount_space_info {
	uint32_t size;
	uint32_t mount_count;
	uint64_t id;
};
#define MOUNT_SPACE_INFO _IOR(0xb7, 10, struct mount_space_info)
#define MOUNT_SPACE_NEXT _IOR(0xb7, 11, struct mount_space_info)
#define MOUNT_SPACE_PREVIOUS _IOR(0xb7, 12, struct mount_space_info)
#define MOUNT_SPACES_IOCTLS MOUNT_SPACE_INFO, MOUNT_SPACE_NEXT, MOUNT_SPACE_PREVIOUS

/* And the system calls with which the mounts in one are: newer than some headers, the same on every architecture. */
enum { MOUNT_SPACES_STATMOUNT = 457, MOUNT_SPACES_LISTMOUNT = 458 };

enum { COPIES_MAX = 256 };

/* One more mount of the overlay's superblock. */
struct copy {
	uint64_t id, parent_id; /* unique ids (STATX_MNT_ID_UNIQUE) */
	int space;		/* index of its namespace in copies.spaces */
	uint64_t attributes;	/* MOUNT_ATTR_* */
	uint64_t propagation;	/* MS_PRIVATE, MS_SHARED, MS_SLAVE, ... */
	char *root;		/* what it shows: a path from the overlay's root */
	char *point;		/* where: a path from its namespace's root */
	char *uid_map,
		*gid_map; /* of an idmapped one, as id_map.h reads them; NULL: the kernel does not say */
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

/* What a mount of the overlay, which is idmapped, makes of ids: texts as id_map.h reads them. */
struct mount_maps {
	uint32_t short_id; /* as in mountinfo: told apart by it while it is mounted */
	char *uid_map, *gid_map;
};

/*
 * mount_spaces_find_maps: the maps of @count idmapped mounts, wherever they are. Ids are those of our own user
 * namespace. Any thread.
 * @own_space_fd: of the thread's own mount namespace
 * @device: only its device numbers are looked at
 * @io_maps: their texts are NULL, and on success no longer; to be freed by mount_maps_free() in any case
 * Returns 0, -ENOENT (one of them is nowhere), -ENOSYS (the kernel does not tell: before 6.15, not privileged enough, not in
 * the first pid namespace),
 * -errno.
 */
int mount_spaces_find_maps(int own_space_fd, const struct overlay_mount *device,
			   struct mount_maps *io_maps, size_t count);
void mount_maps_free(struct mount_maps *maps, size_t count);

#endif
