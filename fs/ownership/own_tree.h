/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OWNERSHIP_OWN_TREE_H
#define FS_OWNERSHIP_OWN_TREE_H

/*
 * own_tree: the eager form of a run: a whole tree brought to what present() shows, at once.
 *
 * For small trees that a plugin has written itself and that nobody uses yet. Works by descriptor and
 * single names: no symbolic link is followed, no mount and no other file system is entered or changed.
 * Any depth: one directory is open at a time. No state, any thread; blocks for the whole walk.
 */

#include <stddef.h>

#include "fs/ownership/present.h"

/*
 * own_tree: what is below @dir_fd (a directory, O_PATH will do), children before their directory,
 * @dir_fd itself last; what is right is not written. A GID_UNSET rule changes nothing.
 * @ret_error: on failure one line naming the entry, quoted, @size bytes at most
 *
 * Returns 0, -EBUSY (a directory was moved while it was walked), or the errno of the first entry that
 * cannot be changed (fs/ownership/apply.h); what was changed before stays changed.
 */
int own_tree(int dir_fd, const struct ownership_rule *rule, char *ret_error, size_t size);

#endif
