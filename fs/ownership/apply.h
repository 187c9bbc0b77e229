/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OWNERSHIP_APPLY_H
#define FS_OWNERSHIP_APPLY_H

/*
 * apply: brings one file's real ownership to what present() shows.
 *
 * Works on an O_PATH descriptor only: no name is resolved, nothing is opened, so that FIFOs, devices
 * and racing renames are harmless. Knows nothing of runs, marks or excludes: the caller decides
 * whether the file is due and orders it against other changes of the same file.
 */

#include <sys/stat.h>

#include "fs/ownership/present.h"

enum apply_result { APPLY_RIGHT = 0, APPLY_CHANGED = 1 };

/*
 * apply_entry: group and mode of one file.
 * @fd:     O_PATH | O_NOFOLLOW descriptor of the file, of any type
 * @fd_dir: a path prefix under which "<prefix>/<number>" is this process's descriptor: "/proc/self/fd",
 *          or "." where that is the working directory
 * @ret_st: the file as it is afterwards; may be NULL
 *
 * What is right is not written at all: its ctime stays. A file capability is put back after the group
 * change that drops it; set-ID bits are put back only if the file did not change in between, and taken
 * away again if it did while they were put back, so that bits which a writer lost do not come back.
 *
 * Blocks on the file system only. Returns APPLY_RIGHT, APPLY_CHANGED, or -errno of the first step
 * that failed (-EPERM immutable or append-only, -EROFS, -EINVAL a gid that the file system cannot
 * hold, -EIO, -ENOSPC, -EDQUOT, -ESTALE); a failed apply may have changed the group and not the mode,
 * which the next call finishes.
 */
int apply_entry(int fd, const char *fd_dir, const struct ownership_rule *rule, struct stat *ret_st);

/*
 * apply_seen: the same for a caller who has just looked.
 * @before:       the file's attributes
 * @has_no_xattr: it has no extended attribute, or no capability at least; false: not known
 */
int apply_seen(int fd, const char *fd_dir, const struct ownership_rule *rule,
	       const struct stat *before, bool has_no_xattr, struct stat *ret_st);

/*
 * apply_finish: of an apply that was not finished: if the group was changed, what that took away comes back as it would
 * have then. Once more does no harm.
 * @before:     type, mode, size and mtime as they were before
 * @capability: and the file capability; @capability_len 0: none
 *
 * Returns 0 or -errno.
 */
int apply_finish(int fd, const char *fd_dir, const struct ownership_rule *rule,
		 const struct stat *before, const void *capability, size_t capability_len);

/*
 * apply_mode: chmod(2) of an O_PATH descriptor: fchmodat2(2), which knows them since Linux 6.6; before, the
 * descriptor's path leads there, at twice the price. @fd_dir: as of apply_entry. 0 or -errno.
 */
int apply_mode(int fd, const char *fd_dir, mode_t mode);

#endif
