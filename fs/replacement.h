/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_REPLACEMENT_H
#define FS_REPLACEMENT_H

/*
 * replacement: the lower tree in place of copies of the overlay's mount, in whatever mount namespaces they
 * are: a helper process of one thread a namespace, for a process with threads cannot enter one.
 *
 * In steps, so that nothing changes unless all of it can: prepare() finds each copy again by its mount's id
 * and makes the mount that is to replace it (same part of the tree, same flags, same id map); bury() puts these beneath
 * the copies, which nobody sees; uncover() takes the copies away. A helper that does not answer in time
 * counts as failed, and is killed. Called by the keeper, single-threaded.
 */

#include "fs/mount_spaces.h"

enum { REPLACEMENT_STEP_MS = 2000 };

struct replacement;

/* Mounts that lie beneath a copy since an attempt that failed; used when that copy is replaced later. */
struct buried {
	uint64_t ids[COPIES_MAX]; /* a ring; unique ids; 0: none */
	size_t next;
};

/*
 * replacement_prepare: for all @copies (borrowed until the end). @native_tree_fd: a detached mount of the
 * lower tree.
 * @ret_reason: on failure, one line
 * Returns 0, or -errno (-EINVAL: the kernel cannot do it).
 */
int replacement_prepare(const struct copies *copies, int native_tree_fd,
			const struct buried *buried, struct replacement **ret_replacement,
			char ret_reason[256]);

/* replacement_bury: beneath each copy. What a failure leaves is added to @io_buried. */
int replacement_bury(struct replacement *r, struct buried *io_buried, char ret_reason[256]);

/* replacement_uncover: 0, or -errno of the first that failed; the others are done all the same. */
int replacement_uncover(struct replacement *r, char ret_reason[256]);

/* replacement_free: ends the helpers. */
void replacement_free(struct replacement *r);

#endif
