/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_H
#define MOUNTD_MOUNT_H

/*
 * mount: the mount system calls and the mount table, by descriptor and one name.
 *
 * Knows mounts and their identity: the unique mount id (Linux 6.8), or the plain one where the kernel
 * has no other. Does not know volumes. Nothing here asks a file system's server: looking at a mount
 * whose server is down does not block. The only user of libmount; its codes become errno values here
 * (mount_errno()). No state, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "mountd/mount_flags.h"
#include "mountd/mount_list.h"

/* What stands at a name, as the mount table sees it. */
struct mount_view {
	uint64_t id;  /* of the mount that the name leads to */
	bool is_root; /* the name is a mount point; id is of the topmost mount there */
	mode_t mode;  /* type, as far as it is known without asking; 0: unknown */
	dev_t dev;
	dev_t rdev; /* of a device node */
};

/*
 * mount_look: 0, -ENOENT, -ENOTDIR, -EACCES, -ETIMEDOUT (what @dir_fd is on does not answer). @name may be "" for what
 * @dir_fd itself is.
 */
int mount_look(int dir_fd, const char *name, struct mount_view *ret_view);

/*
 * mount_clone: a detached private clone of the one mount that @fd (O_PATH will do) is on, with what is below
 * @fd as its root; mounts below it are not cloned.
 * @flags: in which the clone differs from the original; NULL: in none
 * Returns 0, -EINVAL (the mount may not be cloned: locked by a user namespace), -EPERM, -ENOMEM.
 */
int mount_clone(int fd, const struct mount_flags *flags, int *ret_tree_fd, uint64_t *ret_id);

/*
 * mount_flags_like: as @flags, but for a clone of another mount: its attributes are to be those that a clone of the
 * mount of @fd would have, which is asked for them (statfs).
 */
int mount_flags_like(int fd, const struct mount_flags *flags, struct mount_flags *ret_flags);

/*
 * mount_change: the attributes of the mount with this unique id, which is on top at the name. -ENOENT: it is not.
 * -EBUSY: to become read-only while files are open for writing. -EPERM: locked by a user namespace.
 */
int mount_change(int dir_fd, const char *name, uint64_t id, const struct mount_flags *flags);

/* mount_new_tmpfs: a detached tmpfs. @size_bytes 0: the kernel's default. Without swap where known. */
int mount_new_tmpfs(uint64_t size_bytes, mode_t mode, int *ret_tree_fd, uint64_t *ret_id);

/*
 * mount_new_fs: a detached mount of file system @type from @source. A network file system is another matter:
 * its program knows how (mount_by_helper).
 * @options: those of mount(8), separated by commas, or NULL; what they say to programs (x-*, _netdev, nofail) is
 *           skipped, what makes no new mount (bind, remount, propagation) or needs a loop device is -EINVAL
 * @ret_why: @size bytes; on failure one line: what the file system said, or which option it is
 *
 * Blocks for the device. Returns 0, -EINVAL, -ENODEV (the kernel has no such file system), -EBUSY, -EUCLEAN,
 * -EACCES (a read-only device), ...
 */
int mount_new_fs(const char *source, const char *type, const char *options, int *ret_tree_fd,
		 uint64_t *ret_id, char *ret_why, size_t size);

/* mount_needs_helper: whether file system @type is mounted by mount.TYPE; whether there is one is not looked at. */
bool mount_needs_helper(const char *type);

/*
 * mount_by_helper: a mount of file system @type by /sbin/mount.TYPE, attached at @name below @dir_fd.
 * -ENOENT: there is no such program. Else as mount_new_fs().
 */
int mount_by_helper(const char *source, const char *type, const char *options, int dir_fd,
		    const char *name, uint64_t *ret_id, char *ret_why, size_t size);

/* mount_attach: -ENOTDIR/-EISDIR where types differ; -ENOENT, -EPERM, -ENOSPC (too many mounts). */
int mount_attach(int tree_fd, int dir_fd, const char *name);

#define MOUNT_OVERLAY_MS 1000 /* what the end of an overlay may take; its server may be stopped */
#define MOUNT_DEVICE_MS (3600 * 1000) /* and of what has a disk to write to */

/*
 * mount_detach: the topmost mount at the name. -EBUSY (after some tries), -EINVAL (nothing is mounted there), -EPERM, -ETIMEDOUT (after
 * @limit_ms; the mount may be gone, its file system is not).
 */
int mount_detach(int dir_fd, const char *name, bool lazy, uint64_t limit_ms);

/* mount_fs_options: those of the file system that is the topmost mount at the resolved @path. 0, -ENOENT or -errno. */
int mount_fs_options(const char *path, char **ret_options);

/*
 * mount_describe: "<type> from <source>", printable, of the topmost mount at the resolved @path.
 * Returns 0, -ENOENT (nothing is mounted there) or -errno.
 */
int mount_describe(const char *path, char *ret_text, size_t size);

/*
 * mount_is_overlay: whether the topmost mount at the resolved @path is of type @type with the source
 * text @source: how a mount is known whose id was never recorded.
 */
bool mount_is_overlay(const char *path, const char *type, const char *source);

/* mount_table_below: mount_list_below() by mountinfo: for kernels without listmount(2). */
int mount_table_below(const char *path, struct mount_entry **ret_list);

/* mount_table_ids: mount_list_ids() by mountinfo, in any order. */
int mount_table_ids(uint64_t **ret_ids);

/*
 * mount_place: the path of the directory @fd within its file system, whatever is mounted where: two of one
 * file system can be told to enclose each other by it. As it is now: directories can be renamed.
 * Returns 0, -ENOENT (its mount is not in our namespace, or the directory was removed), -ENOMEM, -errno.
 */
int mount_place(int fd, char **ret_path);

/* mount_below: the path of some mount below the resolved @path; the caller's to free. -ENOENT: none. */
int mount_below(const char *path, char **ret_path);

#endif
