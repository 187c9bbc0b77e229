/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_LOWER_H
#define PLUGINS_LOWER_H

/*
 * lower: the mount that is a volume's lower tree, at one name in the volume's own directory, and how it
 * is known again: by its mount id in this boot, and by the directory that it shows.
 *
 * Knows the builder's metadata and host table. Called by the plugins whose strategy is the mount point;
 * the thread rule of plugin.h.
 */

#include <sys/stat.h>

#include "plugins/plugin.h"

#define LOWER_NAME "lower"

/* lower_is_set_up: the recorded mount is there and shows the recorded directory. */
bool lower_is_set_up(struct volume_builder *b);

/*
 * lower_bind: binds the directory @source_fd (O_PATH), whose attributes are @st, and records it. A bind that an
 * interrupted set-up made is taken over; one of another directory goes first.
 */
int lower_bind(struct volume_builder *b, int source_fd, const struct stat *st);

/* lower_record: that mount @mount_id is at the lower's name, with what it shows. */
int lower_record(struct volume_builder *b, uint64_t mount_id);

/* lower_unmount: what is recorded there, or what an interrupted set-up left. 0: nothing is there. */
int lower_unmount(struct volume_builder *b);

/* lower_open: an O_PATH descriptor of its root. */
int lower_open(struct volume_builder *b, int *ret_lower);

/* lower_set_up: the end of a plugin's set_up: what is mounted is opened; ownership is for the manager. */
int lower_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
		 enum ownership_outcome *ret_ownership);

/* lower_tear_down: unmounts it and removes the empty directory that it was mounted on. */
int lower_tear_down(struct volume_builder *b);

#endif
