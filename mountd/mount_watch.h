/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_WATCH_H
#define MOUNTD_MOUNT_WATCH_H

/*
 * mount_watch: a thread that hears of every change to the mounts of this mount namespace, whoever makes it.
 *
 * Knows that something has changed, not what: the kernel's event (POLLPRI on mountinfo) says no more. Does not
 * know volumes. Many changes in a short time are one call. Used by the mender.
 */

#include "fs/base/cleanup.h"

struct mount_watch;

/*
 * mount_watch_new: calls @changed with @arg from a thread of its own, with no lock held.
 * Returns 0, -ENOENT (no /proc), -ENOMEM, -errno.
 */
int mount_watch_new(void (*changed)(void *arg), void *arg, struct mount_watch **ret_watch);

/* mount_watch_free: when it returns no call is running. NULL is accepted. */
void mount_watch_free(struct mount_watch *watch);
DEFINE_AUTO(mount_watch)

#endif
