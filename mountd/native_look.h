/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_NATIVE_LOOK_H
#define MOUNTD_NATIVE_LOOK_H

/*
 * native_look: the attributes of a file below a mount that is no overlay of ours. Its own disk or server may not answer:
 * a process looks, and is left behind when it takes too long; it ends by itself. No state, any thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct native_view {
	struct stat st;
	bool has_acl;
};

/*
 * native_look: the file at @path below what is mounted at @name below @dir_fd; "" is that itself. No link is followed,
 * nothing is opened.
 * Returns 0, -ETIMEDOUT, -EXDEV (a link, or ".." on the way), -ENOENT, -ENOTDIR, -ENAMETOOLONG, or what the file system said.
 */
int native_look(int dir_fd, const char *name, const char *path, uint64_t timeout_ms,
		struct native_view *ret_view);

#endif
