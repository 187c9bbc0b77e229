/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_USERS_H
#define FS_USERS_H

/*
 * users: who else uses an overlay, so that it must not be swapped: mounts of its superblock anywhere
 * but at the target, mounts on top of it, files mapped through it.
 *
 * Reads /proc of all processes: their mount namespaces and, on request, their mappings (a mapping made
 * through passthrough lives on after the last close, without a trace in the server). Does not touch the
 * overlay itself. What may not be read (another user's process, from within a user namespace) cannot
 * hold a mount made in ours, and is passed over.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/mounting.h"

/*
 * users_find_mappings: whether any process has a file mapped through the overlay's superblock.
 * @budget_ms: gives up after so much processor time; 0: never
 * @ret_reason: on 1, one line that says who
 * Returns 1 (in use), 0, -ETIMEDOUT, or -errno (cannot be told).
 */
int users_find_mappings(const struct overlay_mount *overlay, int64_t budget_ms,
			char ret_reason[256]);

/* users_find_mounts: the same for mounts of it but the one @overlay, in the namespaces of all processes. */
int users_find_mounts(const struct overlay_mount *overlay, char ret_reason[256]);

/* users_name_space: "process 12 (name)" that is in the mount namespace with this inode; false: none. */
bool users_name_space(ino_t space, char *ret_name, size_t size);

/* users_mount_below: whether something is mounted below @path, in our mount namespace: 1 names it, 0. */
int users_mount_below(const char *path, char ret_mount[256]);

#endif
