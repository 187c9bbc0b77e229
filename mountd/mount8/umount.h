/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT8_UMOUNT_H
#define MOUNTD_MOUNT8_UMOUNT_H

/*
 * mount8_umount: umount.fuse.fsgroupfs: what umount(8) calls for every mount of our type: targets of volumes, which
 * the daemon takes away, and others, which are no business of it: bind mounts of these, overlays without a daemon.
 * It never deletes what a user has written: umount(8) of a native volume, which the kernel does alone, does not either.
 */

#include <stdbool.h>

/* Exit statuses of mount(8). */
enum mount8_exit { MOUNT8_OK = 0, MOUNT8_USAGE = 1, MOUNT8_SYSTEM = 2, MOUNT8_FAILED = 32 };

/* mount8_has_records: whether there is any record at all: without one no daemon is started to be told so. */
bool mount8_has_records(const char *root);

/* umount_main: the whole program; @program names it in messages. Returns the exit status. */
int umount_main(const char *program, int argc, char **argv);

#endif
