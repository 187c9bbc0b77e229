/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_HOLDERS_H
#define MOUNTD_HOLDERS_H

/*
 * holders: which processes keep a mount busy: by working directory, root, program, open file or mapping; and
 * which have a block device open.
 *
 * Best effort: processes come and go, and in a user namespace others cannot be looked into. Never asks
 * a file system's server. No state, any thread; takes time in proportion to the open files of the node.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * holders_describe: "held by 12 (bash), 40 (sleep)", or what else is known; at most a few are named.
 * @mount_id: the mount's unique id
 * @dev:      its st_dev where that is the mount's alone (an overlay): finds it in other mount
 *            namespaces too; else 0
 * Returns @ret_text.
 */
char *holders_describe(uint64_t mount_id, dev_t dev, char *ret_text, size_t size);

/*
 * holders_find: the same, and whether anybody is seen at all.
 * @except: a process that does not count: the keeper of the volume's overlay; 0: none
 */
bool holders_find(uint64_t mount_id, dev_t dev, pid_t except, char *ret_text, size_t size);

/* holders_of_node: the same for a block device that processes have open; "": none is seen. */
char *holders_of_node(dev_t rdev, char *ret_text, size_t size);

/* holders_list: [{"mntns", "pids"}] of those that use files on @dev; NULL: no memory. */
json_t *holders_list(dev_t dev);

/*
 * holders_detail: those that keep what is on @dev, one each: {"pid", "program", "mntns", "uses"}, uses being of "file",
 * "directory", "mapping", "cwd", "root", "program", at most @limit; NULL: no memory.
 */
json_t *holders_detail(dev_t dev, size_t limit);

/*
 * holders_copies: the mount namespaces but our own in which the file system @dev is mounted, one each:
 * {"mntns", "pid", "program", "path"}: a process in it, and where; NULL: no memory.
 */
json_t *holders_copies(dev_t dev);

#endif
