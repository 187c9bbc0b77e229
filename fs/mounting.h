/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_MOUNTING_H
#define FS_MOUNTING_H

/*
 * mounting: the keeper's mounts: the overlay at its target, the lower tree beneath it.
 *
 * By descriptors: the target is its parent directory and one name, resolved without following, so that
 * nobody can lead a mount elsewhere. Whether what is mounted there is ours is told by the mount's unique
 * id, never by its path. Nothing here waits for the overlay's server: no path at or below the target is
 * resolved, but the mount on top of it is (O_PATH asks the file system nothing).
 * Single-threaded. Functions return 0 or -errno.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mount_target {
	int parent_fd;	/* O_PATH */
	char name[256]; /* one component */
};

/* mounting_open_target: resolves the parent of @path; "." and ".." as last component: -EINVAL. */
int mounting_open_target(const char *path, struct mount_target *ret_target);

/* mounting_attributes: MOUNT_ATTR_* of the mount that @fd lies on. */
int mounting_attributes(int fd, uint64_t *ret_attributes);

/*
 * mounting_count_files: how many files the tree below @fd has, when @fd is the root of a whole file
 * system that counts its inodes; 0: unknown. An estimate for progress: file systems count some of their
 * own too.
 */
uint64_t mounting_count_files(int fd);

/*
 * mounting_clone: a detached, private copy of the directory @fd as a mount, without what is mounted
 * below it, with exactly the attributes @attributes.
 */
int mounting_clone(int fd, uint64_t attributes, int *ret_tree_fd);

/*
 * mounting_clone_quiet: the directory @fd, O_RDONLY, on a copy of its mount that keeps no access times; where the mount
 * itself keeps none *ret_fd stays as it is.
 */
int mounting_clone_quiet(int fd, int *ret_fd);

/* statx(2): the mount's unique id, never used again (Linux 6.8; newer than some headers). */
#define MOUNTING_UNIQUE_ID 0x00004000U

/* mounting_set_attributes: gives the mount @tree_fd exactly the attributes @attributes. */
int mounting_set_attributes(int tree_fd, uint64_t attributes);

struct overlay_mount {
	uint64_t id;		       /* unique, never used again (STATX_MNT_ID_UNIQUE) */
	uint64_t short_id;	       /* as in mountinfo */
	uint32_t dev_major, dev_minor; /* of its superblock */
	bool is_below;		       /* it does not show all of that (MOUNTING_ROOT_NAME) */
};

/*
 * mounting_make_overlay: a new FUSE file system on @device_fd, mounted nowhere yet.
 * @source:  what mountinfo shows.
 * @context: the label of its files (fs/base/selinux.h), or "": that which the kernel gives them
 */
int mounting_make_overlay(int device_fd, const char *source, const char *context,
			  uint64_t attributes, int *ret_mount_fd);

/* What the volume's root is called in the directory above it (ops_top.c), and so in mountinfo's fourth field. */
#define MOUNTING_ROOT_NAME "volume"

/*
 * mounting_take_root: of @overlay_fd, as mounting_make_overlay() made it, the volume's root as a detached mount. The
 * server is asked for it: may wait for ever. -EINVAL: kernels before 6.15 clone no detached mount.
 */
int mounting_take_root(int overlay_fd, int *ret_mount_fd);

/* mounting_attach: the detached mount @mount_fd goes to @target. */
int mounting_attach(int mount_fd, const struct mount_target *target,
		    struct overlay_mount *ret_mount);

/* mounting_is_on_top: whether the mount with this unique id is what one sees at the target. */
int mounting_is_on_top(const struct mount_target *target, uint64_t id);

/*
 * mounting_swap: puts the detached mount @tree_fd beneath the overlay, and detaches the overlay: at no
 * moment is there nothing at the target. *ret_id is the unique id of what is there now.
 */
int mounting_swap(const struct mount_target *target, const struct overlay_mount *overlay,
		  int tree_fd, uint64_t *ret_id);

/*
 * mounting_move_beneath: the detached mount @tree_fd between the mount whose root @top_fd is and what that
 * one is mounted on; *ret_id is its unique id. -EINVAL, -ENOSYS: the kernel cannot do that there.
 */
int mounting_move_beneath(int tree_fd, int top_fd, uint64_t *ret_id);

/* mounting_detach: unmounts the overlay from its target; -EBUSY when it is in use, unless @lazy. */
int mounting_detach(const struct mount_target *target, uint64_t id, bool lazy);

#endif
