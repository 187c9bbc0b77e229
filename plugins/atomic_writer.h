/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_ATOMIC_WRITER_H
#define PLUGINS_ATOMIC_WRITER_H

/*
 * atomic_writer: brings a payload into a volume's root directory so that a reader sees the whole old or
 * the whole new one (semantics: kubelet's AtomicWriter, pkg/volume/util/atomic_writer.go):
 *
 *     ..2026_11_22_05_21_03.1f0c99a2e4b7d610/   the files, complete and with their final ownership
 *     ..data   -> ..2026_11_22_05_21_03.1f0c...  swapped by rename: the one moment of the change
 *     NAME     -> ..data/NAME                    one for each first name of a path
 *
 * Differences: a name that is new gets its link before the swap and a name that goes loses it after it,
 * so that what can be opened changes in that one moment; modes and ownership count as content; what a
 * crash left is removed by the next call. Names of others in the root directory are left alone.
 *
 * Knows nothing of where a payload comes from. Descriptors and single names; no symbolic link is
 * followed. One call for a directory at a time; blocks for the file system.
 */

#include "fs/ownership/present.h"
#include "plugins/payload.h"

struct atomic_write {
	int dir_fd;		       /* of the volume's root */
	const struct payload *payload; /* sealed */
	/*
	 * What the files and the root get on top of their modes. GID_UNSET: the group is whatever the file
	 * system gives, and the root is left alone.
	 */
	struct ownership_rule rule;
	void (*on_step)(void *arg); /* called before each change on disk; NULL: none. For tests. */
	void *arg;
};

/*
 * atomic_write: makes the directory show the payload.
 * @ret_changed: whether anything was written or repaired
 * @ret_error:   @size bytes, one line on failure; names paths, never content
 *
 * On failure the old payload is still seen, or, where only removing it failed, the new one. Returns 0, -ENOSPC, -EDQUOT, -ENOMEM, -EROFS, -EEXIST (a
 * directory or a mount is where a name of the payload should be), -EIO ...
 */
int atomic_write(const struct atomic_write *w, bool *ret_changed, char *ret_error, size_t size);

/* atomic_write_is_done: whether a payload can be seen in the directory: a first call has succeeded. */
bool atomic_write_is_done(int dir_fd);

#endif
