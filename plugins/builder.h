/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_BUILDER_H
#define PLUGINS_BUILDER_H

/*
 * builder: what every plugin does with its volume_builder: failing with a reason, reading the source,
 * looking at names in the volume's own directory, remembering a mount.
 *
 * Knows no kind of volume. Called by plugins only; thread rule of plugin.h.
 */

#include <stdint.h>

#include "plugins/plugin.h"

/* builder_fail: the reason goes to b->error. Returns @error, a -errno. Texts from outside are quoted. */
int builder_fail(struct volume_builder *b, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * builder_source_text: the string @key of the source; "" when it is absent or null.
 * Returns 0, or -EINVAL: it is not a string.
 */
int builder_source_text(struct volume_builder *b, const char *key, const char **ret_text);

/*
 * builder_source_path: the source's "path", absolute, without "..", with single slashes and none at
 * its end; the caller's to free. Returns 0, -EINVAL, -ENOMEM.
 */
int builder_source_path(struct volume_builder *b, char **ret_path);

/* builder_open_source: host->open_source, with a reason for every failure. */
int builder_open_source(struct volume_builder *b, const char *path, int *ret_fd);

/* builder_open_dir: an O_PATH descriptor of the directory @name in the volume's own directory. */
int builder_open_dir(struct volume_builder *b, const char *name, int *ret_fd);

/* builder_mount_at: the unique id of the mount whose root is at @name; 0: nothing is mounted there. */
uint64_t builder_mount_at(const struct volume_builder *b, const char *name);

/* builder_mount_in: the same for a name in another directory. */
uint64_t builder_mount_in(int dir_fd, const char *name);

/* builder_mount_record: keeps the mount in the metadata, with this boot's id. -ENOMEM. */
int builder_mount_record(struct volume_builder *b, uint64_t mount_id);

/* builder_mount_recorded: the mount on record of this boot; 0: none. */
uint64_t builder_mount_recorded(const struct volume_builder *b);

/* builder_mount_forget: takes it out of the metadata. */
void builder_mount_forget(struct volume_builder *b);

/*
 * builder_unmount: the recorded mount at @name, or @left_behind: one that a set-up left which died before
 * it could be recorded; 0: none. Takes it out of the metadata. 0 when there is nothing to unmount.
 */
int builder_unmount(struct volume_builder *b, const char *name, uint64_t left_behind);

/* For statx: the mount that a file is on, by its unique id where the kernel has them. */
#define BUILDER_STATX_MOUNT 0x5000U /* STATX_MNT_ID | STATX_MNT_ID_UNIQUE, which old headers lack */

#endif
