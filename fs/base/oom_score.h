/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_OOM_SCORE_H
#define FS_BASE_OOM_SCORE_H

/*
 * oom_score: whom the kernel ends when memory runs out (oom_score_adj of proc(5)): the lower, the later.
 *
 * A keeper is the last before those that are never ended: its mount would end with it, and it is small whatever the
 * tree is. A server comes before its keeper, and after everything that is not the node's own: its death is made good, but
 * what it has in memory its successor needs again. What makes it grow is inodes that the kernel knows, of which the kernel
 * itself holds ten times as much, and inodes that a run must remember: both are given back when the kernel
 * reclaims, or the run ends.
 */

enum { OOM_SCORE_KEEPER = -999, OOM_SCORE_SERVER = -998 };

/*
 * oom_score_set: of the calling process; who may not go below what he was given (CAP_SYS_RESOURCE) goes to 0, where he
 * may. Async-signal-safe. 0, -EACCES (neither), or -errno.
 */
int oom_score_set(int score);

/*
 * oom_score_raise: of the calling process to 0, where it is lower: for programs of others, which a daemon that is spared
 * must not make spared as well. Async-signal-safe. 0 or -errno.
 */
int oom_score_raise(void);

#endif
