/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_TREE_IDENTITY_H
#define MOUNTD_TREE_IDENTITY_H

/*
 * tree_identity: the name under which runs of a lower tree are on record: the UUID of its file system
 * and the file handle of its root (design, section 2). It outlives reboots where the file system has
 * a UUID; else it holds the boot id, and a run cannot be resumed after a reboot. No state, any thread.
 */

/*
 * tree_identity: lower-case hex text of the tree whose root directory @root_fd (O_PATH will do) is.
 * @boot_id: of this boot
 * Blocks on the file system. Returns 0, -ENOMEM, or open()'s and statfs()'s errors.
 */
int tree_identity(int root_fd, const char *boot_id, char **ret_text);

#endif
