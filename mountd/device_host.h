/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_DEVICE_HOST_H
#define MOUNTD_DEVICE_HOST_H

/*
 * device_host: the part of the host table that plugins of block devices need of the store: what must be
 * durable before a step that cannot be undone, and where a device is mounted. See plugins/plugin.h,
 * struct host. Part of the manager; thread rule of plugins.
 */

#include "plugins/plugin.h"

struct manager;
struct volume_record;
struct device_record;
struct target;

int device_host_record(struct volume_builder *b);
int device_host_open_staged(struct volume_builder *b, int *ret_fd);
const char *device_host_holders(struct volume_builder *b, dev_t rdev, char *ret_text, size_t size);

/*
 * staged_open: the root of a device's global mount (O_PATH), if it is what the record says it is.
 * Returns 0; -ENOENT with *ret_error (PLUGIN_ERROR_MAX bytes): it is not staged, or not in this boot.
 */
int staged_open(struct manager *m, const char *device_id, int *ret_fd, char *ret_error);

#endif
