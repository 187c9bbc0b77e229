/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_JOURNAL_H
#define FS_JOURNAL_H

/*
 * journal: the settled files of a run on file systems that refuse the mark on the inode: an append-only
 * file of fixed-size records, each on disk before the user's request is answered.
 *
 * Knows records and checksums, not what they are for. One writer at a time (the caller's lock); reading
 * happens before writing.
 */

#include <stdint.h>

#include "fs/tree.h"

/* journal_append: one record, synced. 0 or -errno; on an error a torn record is cut off again. */
int journal_append(int fd, const struct tree_key *key, uint64_t ino);

/*
 * journal_read: every whole record is given to @add, oldest first. A torn record at the end (a crash
 * while appending, so its request was never answered) is cut off; anything else that is wrong is damage.
 * Returns 0, -EUCLEAN (damage), -errno, or what @add returned.
 */
int journal_read(int fd, int (*add)(void *context, const struct tree_key *key, uint64_t ino),
		 void *context);

#endif
