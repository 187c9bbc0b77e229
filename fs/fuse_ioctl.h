/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_FUSE_IOCTL_H
#define FS_FUSE_IOCTL_H

/*
 * fuse_ioctl: the two requests of /dev/fuse that register a lower file with the kernel for passthrough.
 * Newer than some distributions' linux/fuse.h; the kernel's uapi since Linux 6.9.
 */

#include <linux/fuse.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};

#define DEVICE_BACKING_OPEN _IOW(FUSE_DEV_IOC_MAGIC, 1, struct backing_map)
#define DEVICE_BACKING_CLOSE _IOW(FUSE_DEV_IOC_MAGIC, 2, uint32_t)

#endif
