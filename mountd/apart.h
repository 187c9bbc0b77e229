/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_APART_H
#define MOUNTD_APART_H

/*
 * apart: system calls that may have to wait for a file system's server, made by a process apart.
 *
 * A server of ours can be stopped, or wait in the kernel for the file system below it, for ever. Whoever is to help
 * then must not wait with it: these calls give up after a time, and leave the process behind that made them. It ends
 * as soon as the kernel lets it. No state, any thread.
 */

#include <stdint.h>

#define APART_OPEN_MS 500

/*
 * apart_open: openat2(2), with @resolve of RESOLVE_*. Where the kernel knows the way without asking anybody it is
 * asked at once, else by a process apart. Returns 0, -ETIMEDOUT (after APART_OPEN_MS), or openat2()'s error.
 */
int apart_open(int dir_fd, const char *path, uint64_t flags, uint64_t resolve, int *ret_fd);

/*
 * apart_unmount: umount2(2) of the topmost mount at @name below @dir_fd, with @flags besides UMOUNT_NOFOLLOW.
 * Returns 0, -ETIMEDOUT (after @limit_ms: it goes on, and nothing may be mounted there any more), or umount2()'s error.
 */
int apart_unmount(int dir_fd, const char *name, int flags, uint64_t limit_ms);

/*
 * apart_ask: statfs(2) of what is at @name below @dir_fd, for its error alone: 0, -ENOTCONN (nobody serves it any more),
 * -ETIMEDOUT (after @limit_ms), ...
 */
int apart_ask(int dir_fd, const char *name, uint64_t limit_ms);

#endif
