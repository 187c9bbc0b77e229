/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DEVICE_H
#define PLUGINS_DEVICE_H

/*
 * device: one block device: found, pinned, known again, claimed.
 *
 * Knows sysfs and the ioctls of block devices. Does not know what is on it (device_content) nor what is done
 * with it (device_ready). A device is pinned by an O_PATH descriptor of its node: what a path leads to is
 * looked at once, and programs and the kernel are given that descriptor or a path that leads to the same
 * device number. Called by plugins; thread rule of plugin.h.
 */

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/base/cleanup.h"
#include "plugins/plugin.h"

struct device {
	int fd; /* O_PATH, of the node */
	dev_t rdev;
	uint64_t
		disk_seq; /* tells devices apart that had the same number in this boot; 0: old kernel */
	uint64_t size_bytes;
	bool read_only;
	char path
		[PATH_MAX]; /* a path to it: /dev/NAME where that is it, else as given; for people */
	char serial[128];   /* printable; "" where it has none */
};

/*
 * device_open: the block device at @path, which the front end must be allowed to use.
 * @partition: 0, or the number of one of its partitions, which is then meant; found in sysfs
 *
 * Returns 0, or with b->error: host->open_source()'s errors, -ENOTBLK, -ENXIO (no such partition, or no
 * node for it), -ENOMEDIUM (its size is 0).
 */
int device_open(struct volume_builder *b, const char *path, unsigned partition,
		struct device **ret_device);

/* device_pin: the same for a node that is open already (O_PATH; it stays the caller's). */
int device_pin(struct volume_builder *b, int node_fd, const char *path, unsigned partition,
	       struct device **ret_device);

void device_free(struct device *device);
DEFINE_AUTO(device)

/*
 * device_record: the device's identity into b->metadata: size and serial, what stands on it, and where it is in this
 * boot. @fs_type and @uuid "": not known, or nothing.
 */
int device_record(struct volume_builder *b, const struct device *device, const char *fs_type,
		  const char *uuid);

/*
 * device_compare: whether it can be the recorded one, perhaps larger now: 0 also where nothing is recorded, or
 * -ESTALE with b->error naming what differs.
 */
int device_compare(struct volume_builder *b, const struct device *device, const char *fs_type,
		   const char *uuid);

/* device_uuid: the recorded file system's, in libblkid's spelling; borrowed; NULL: none is recorded. */
const char *device_uuid(const struct volume_builder *b);

/* device_identity: the recorded identity as a canonical text; the caller's to free; NULL: no memory. */
char *device_identity(const struct volume_builder *b);

/*
 * device_reopen: the recorded device, as long as it is the very one of this boot.
 * Returns 0, -ENODEV: it has gone, or another one has its number; or -ENXIO with b->error: it is there but
 * no node leads to it.
 */
int device_reopen(struct volume_builder *b, struct device **ret_device);

/*
 * device_claim: opened for reading, exclusively: nothing on the node mounts it, swaps on it or builds on it while
 * the descriptor is open. -EBUSY with b->error.
 * @patience_ms: how long it may stay busy: the kernel tells nobody when it no longer is. 0: it is tried once,
 *               and the error does not say who keeps it busy, which takes a walk through /proc
 */
int device_claim(struct volume_builder *b, const struct device *device, unsigned patience_ms,
		 int *ret_fd);

/* Somebody may just have looked at it. */
#define DEVICE_GLANCE_MS 400

/* device_look: opened for reading, whoever else uses it. */
int device_look(struct volume_builder *b, const struct device *device, int *ret_fd);

/* device_is_same: whether @fd (of the device, opened) still is what was pinned, with the same size. */
bool device_is_same(const struct device *device, int fd);

/* device_program_path: the node as another process may open it as long as the device is pinned. */
void device_program_path(const struct device *device, char *ret_path, size_t size);

/* device_mount_path: a path to mount it from: the device's own as long as that leads to it, for mountinfo tells it. */
void device_mount_path(const struct device *device, char *ret_path, size_t size);

#endif
