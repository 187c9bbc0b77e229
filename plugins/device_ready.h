/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DEVICE_READY_H
#define PLUGINS_DEVICE_READY_H

/*
 * device_ready: from a block device to one whose file system can be mounted: known again, probed, checked by
 * e2fsck, or formatted where that was asked for and it is empty.
 *
 * Knows the rules of what may be written to a device, and the programs that do it. Does not mount. Called by
 * the plugins of block devices; thread rule of plugin.h. Blocks for as long as the programs run.
 */

#include "plugins/device.h"
#include "plugins/device_content.h"

/*
 * device_ready: the steps, each of which refuses with -errno and b->error:
 *  1. a mkfs that b->metadata says was begun and never finished: -EUCLEAN;
 *  2. the device is claimed: -EBUSY;
 *  3. its signatures are read: an ambivalent or unreadable device, a partition table, anything but one file
 *     system: -EUCLEAN; no signature, and request->format is not set: -ENODATA; another file system than
 *     request->fs_type: -EINVAL;
 *  4. it is the recorded device: -ESTALE; its identity is put on record;
 *  5. a file system of the ext family is checked (e2fsck -p), unless volume or device is read-only: -EUCLEAN
 *     when that left errors, -ENOENT where there is no e2fsck;
 *  6. without a signature, and with request->format: it is found empty, the intent is put on record, it is found
 *     empty again, and mkfs runs, without any option that would overwrite. -ENOTEMPTY, -EROFS, -EIO.
 *
 * @may_be_mounted: a device that is busy, and holds a file system, is taken as it is: it is mounted already and
 *                  is to be mounted once more; nothing is checked or formatted then
 * @ret_content:    the file system
 */
int device_ready(struct volume_builder *b, struct device *device,
		 const struct device_request *request, bool may_be_mounted,
		 struct device_content *ret_content);

/*
 * device_probe: the same as far as that is looking: *ret_text is what the other steps would do. Nothing is written to the
 * device nor put on record. Fails as device_ready() would, and -EBUSY where the device is used at all.
 */
int device_probe(struct volume_builder *b, struct device *device,
		 const struct device_request *request, char *ret_text, size_t size);

/* device_unfinished: the mkfs of step 6 that b->metadata says was begun; "mkfs.ext4"; borrowed; NULL: none. */
const char *device_unfinished(const struct volume_builder *b);

/*
 * device_mount: the ready device at @name below @dir_fd, read-only where the volume is.
 * *ret_mount_id: of what is proven to be a mount of this device. Else -ESTALE, and nothing is mounted.
 */
int device_mount(struct volume_builder *b, const struct device *device,
		 const struct device_content *content, const char *options, int dir_fd,
		 const char *name, uint64_t *ret_mount_id);

/* device_is_mounted_at: whether the mount at @name below @dir_fd is of this device with this file system. */
bool device_is_mounted_at(const struct device *device, const char *uuid, int dir_fd,
			  const char *name);

#endif
