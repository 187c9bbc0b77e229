/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DEVICE_GROW_H
#define PLUGINS_DEVICE_GROW_H

/*
 * device_grow: a mounted file system made as large as the device that it is on, which has become larger.
 *
 * Knows how each file system is told. Does not know where it is mounted: it is given the mount's root. Called by the
 * plugins of block devices; thread rule of plugin.h. Blocks for as long as the file system works on it.
 */

#include "plugins/plugin.h"

/*
 * device_grow: ext2, ext3 and ext4 by resize2fs, xfs and btrfs by their system calls.
 * @mount_fd:  O_PATH, of the root of a mount that is ours; what is on the device that is on record is proven again
 * @ret_grown: false: it filled its device already
 *
 * A device that is larger than the recorded one is put into b->metadata. Idempotent; cut off it goes on with the next
 * call. Fails with b->error: -ENODEV (the device has gone), -ESTALE (another one, or what is mounted is not on it),
 * -EROFS (volume, device or mount), -EOPNOTSUPP (another file system, or btrfs on several devices), -EPERM (ext4:
 * without CAP_SYS_RESOURCE), -EBUSY (btrfs: it is being balanced), -ENOENT (no resize2fs), -EIO.
 */
int device_grow(struct volume_builder *b, int mount_fd, bool *ret_grown);

#endif
