/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_HALFWAY_H
#define FS_HALFWAY_H

/*
 * halfway: the files whose ownership is being changed, noted in shared memory, for the successor of a server that dies
 * meanwhile. It puts back the set-ID bits and capabilities that a change of group had taken away, has the ACL follow a mode
 * that was changed without it (btrfs: the thread was killed when its chmod(2) waited for room), and has the kernel ask again
 * for what the dead server had changed and not yet told.
 *
 * Each change has a record of its own. Knows the tree and the rule; not why a file is changed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct shared;
struct tree;
struct ownership_rule;

/* Changes at once: more than a server has threads. HALFWAY_HANDLE_MAX is NODE_HANDLE_MAX. */
enum { HALFWAY_MAX = 96, HALFWAY_HANDLE_MAX = 56, HALFWAY_CAPABILITY_MAX = 64 };

struct halfway_record {
	_Atomic uint32_t is_used;
	_Atomic uint32_t is_noted; /* what follows node_id is the file as it was */
	uint64_t node_id;	   /* the kernel may believe old times of it; 0: it does not */
	uint64_t ino;
	int64_t size, mtime_sec, mtime_nsec;
	uint32_t mode;
	uint32_t capability_len;
	int32_t handle_type;
	uint32_t handle_len;
	unsigned char handle[HALFWAY_HANDLE_MAX];
	unsigned char capability[HALFWAY_CAPABILITY_MAX];
};

/* halfway_begin: @node_id: to be told to the kernel afterwards, by the caller, before halfway_end(). */
struct halfway_record *halfway_begin(struct shared *shared, uint64_t node_id);

/*
 * halfway_note: the file @fd, O_PATH, is about to get another group or mode.
 * @before:       its attributes, read under its lock, which is held until the change is made
 * @has_no_xattr: it has no extended attribute; false: not known
 *
 * Returns whether it is known, by now, to have no capability.
 */
bool halfway_note(struct halfway_record *record, const struct tree *tree, int fd,
		  const struct stat *before, bool has_no_xattr);

/* halfway_done: it is changed, or that failed: before its lock is given back, after which users may change it. */
void halfway_done(struct halfway_record *record);

/* halfway_end: and the kernel is told. */
void halfway_end(struct halfway_record *record);

/*
 * halfway_recover: finishes what is noted, before any other thread runs.
 * @invalidate: called for each node id that the kernel must ask for again
 */
void halfway_recover(struct shared *shared, const struct tree *tree,
		     const struct ownership_rule *rule,
		     void (*invalidate)(void *context, uint64_t node_id), void *context);

#endif
