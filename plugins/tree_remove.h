/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_TREE_REMOVE_H
#define PLUGINS_TREE_REMOVE_H

/*
 * tree_remove: the only deletion of user data in this project.
 *
 * Works by descriptor and single names; symbolic links are deleted, never followed; no mount and no
 * other file system is entered or deleted. Any depth and any number of entries: one descriptor is open
 * at a time, and the memory is that of the names of the directories still to be emptied on the way down.
 * Knows nothing of volumes. No state, any thread; blocks for as long as the deletion takes.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * tree_remove: deletes @name below @dir_fd and everything in it. Stops at the first entry that cannot
 * be deleted; what was deleted before stays deleted, and a further call goes on.
 * @name:      one name, not a path
 * @ret_error: on failure one line naming the entry, quoted, @size bytes at most
 *
 * Returns 0 (also when there is no such name), -EBUSY (a mount, or another file system, is found below,
 * the tree is moved or written to while it is being deleted), -EPERM (immutable or append-only),
 * -EACCES, -EROFS, -ENOMEM, -EIO.
 */
int tree_remove(int dir_fd, const char *name, char *ret_error, size_t size);

/*
 * tree_remove_told: the same; @on_deleted (or NULL) hears now and then, and at the end, how many entries have been
 * deleted so far.
 */
int tree_remove_told(int dir_fd, const char *name, void (*on_deleted)(void *arg, uint64_t entries),
		     void *arg, char *ret_error, size_t size);

#endif
