/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_EAGER_H
#define TESTS_DIFFERENTIAL_EAGER_H

/*
 * eager: the straightforward recursive change of ownership, written without a look at fs/ownership: the
 * judge's own idea of what is right. lchown(-1, gid), then chmod(mode before | mask) of everything but
 * symbolic links; children first, the root last.
 *
 * The one deliberate deviation it knows: a file's capabilities, which chown(2) takes, are put back.
 */

#include <sys/types.h>

/* eager_change: the tree below @path, which is changed too. Returns 0 or -errno. */
int eager_change(const char *path, gid_t gid);

/* eager_change_one: one file or directory, nothing below it. */
int eager_change_one(const char *path, gid_t gid);

#endif
