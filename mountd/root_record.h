/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_ROOT_RECORD_H
#define MOUNTD_ROOT_RECORD_H

/*
 * root_record: "a run of this wanted ownership was finished here", written on the lower tree's root
 * itself (trusted.fsgroupfs.run), so that it goes with the volume to the next node (design, section 4,
 * OnRootMismatch).
 *
 * It names the file system and the root's handle, so that a copy of it on another directory is void. It
 * proves no more than the root's own group and mode would: who can write trusted attributes can write
 * those too. No state, any thread; blocks on the file system.
 */

/* What the root says. */
enum root_record {
	ROOT_RECORD_NONE, /* nothing, or nothing that is valid here, or that this very run has begun */
	ROOT_RECORD_EQUAL, /* a run of this wanted ownership was finished */
	ROOT_RECORD_OTHER, /* the last run that was finished wanted something else */
	ROOT_RECORD_BEGUN, /* another run has begun since, and nobody says that it was finished */
};

/*
 * root_record_read: @root_fd (O_PATH will do) has the identity @tree (tree_identity.h).
 * @run_id: the run that the reader knows of, or NULL
 */
enum root_record root_record_read(int root_fd, const char *tree, const char *wanted,
				  const char *run_id);

/*
 * root_record_begin: before a run changes anything: what was finished before is true no longer, except
 * where it was the same. root_record_finish: afterwards. What is equal already is not written, so that
 * the root's ctime stays.
 * Return 0, or the file system's error (-EOPNOTSUPP, -EPERM, -EROFS, -ENOSPC): the record is as it was.
 */
int root_record_begin(int root_fd, const char *tree, const char *wanted, const char *run_id);
int root_record_finish(int root_fd, const char *tree, const char *wanted, const char *run_id);

#endif
