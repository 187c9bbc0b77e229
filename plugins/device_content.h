/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DEVICE_CONTENT_H
#define PLUGINS_DEVICE_CONTENT_H

/*
 * device_content: what is on a block device, as far as that can be told from its bytes: a file system,
 * something else, or nothing at all.
 *
 * Knows libblkid's low-level probe; no cache of it is read or written. Works on any descriptor that can be read, so
 * that tests need no device. Does not know builders. No state, any thread; blocks for the device.
 */

#include <stdbool.h>
#include <stdint.h>

enum device_content_kind {
	CONTENT_NONE,	     /* no signature was found; that alone does not make it empty */
	CONTENT_FILE_SYSTEM, /* one file system whose checksum is right, and no partition table */
	CONTENT_OTHER,	     /* anything else that has a signature; what names it */
};

struct device_content {
	enum device_content_kind kind;
	char fs_type[32]; /* as mount(2) wants it; "" unless it is a file system */
	char uuid[64];	  /* as libblkid writes it; may be "" */
	char what[128];	  /* printable: for messages */
};

/*
 * device_content_read: every signature of superblocks, also those with a wrong checksum, and of partition
 * tables counts.
 * Returns 0; -EMLINK: several that exclude each other (ambivalent); -EIO: it could not be read; -ENOMEM.
 */
int device_content_read(int fd, struct device_content *ret_content);

/* The part at each end of an empty device that must be all zero. */
#define DEVICE_END_BYTES (1 << 20)

/*
 * device_ends_are_zero: the first and the last DEVICE_END_BYTES (or all) of @size_bytes.
 * Returns 0, -ENOTEMPTY: some byte is not zero, or read()'s errors, -EIO where it ends early.
 */
int device_ends_are_zero(int fd, uint64_t size_bytes);

#endif
