/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_DEVICE_HOLDERS_H
#define MOUNTD_DEVICE_HOLDERS_H

/*
 * device_holders: what keeps a block device busy: mounts of it in any mount namespace, devices built on it, swap,
 * processes that have it open.
 *
 * Best effort, as holders. No state, any thread; takes time in proportion to the mounts and open files of
 * the node.
 */

#include <stddef.h>
#include <sys/types.h>

/* device_holders_describe: one line, a few named at most. Returns @ret_text. */
char *device_holders_describe(dev_t rdev, char *ret_text, size_t size);

#endif
