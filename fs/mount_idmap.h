/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_MOUNT_IDMAP_H
#define FS_MOUNT_IDMAP_H

/*
 * mount_idmap: gives a mount the id map of another.
 *
 * The kernel takes a map from a user namespace only, and does not hand out that of a mount. So one is made that has the
 * same, by a process that lives for as long. Needs /proc and CAP_SYS_ADMIN; single-threaded.
 */

/*
 * mount_idmap: @tree_fd is a detached mount that has none yet.
 * @uid_map, @gid_map: lines as id_map.h reads them, of struct copy
 * Returns 0, -EINVAL (its file system cannot be idmapped, or the map is too long), -EPERM (it has one), -errno.
 */
int mount_idmap(int tree_fd, const char *uid_map, const char *gid_map);

#endif
