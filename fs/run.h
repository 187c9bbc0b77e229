/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_RUN_H
#define FS_RUN_H

/*
 * run: one application of ownership to the lower tree: which files are pending, which are settled.
 *
 * A file is settled, that is shown as it is on disk, when the run is over, when the policy leaves it
 * out, when this run's server made it, or when a user changed its ownership in this run. The slots of
 * the node table remember the last two while the keeper lives. For a run that may be resumed after the
 * keeper is gone there is more: the run's mark on the inode (an extended attribute, written after the
 * file was converged and before the user's change, so that the file system's own journal orders the
 * three), a journal where such attributes are refused, and the birth time, which on the file system's
 * own clock lies after the run's epoch.
 *
 * Lock rule: run_settle_* and run_is_pending are called with the inode's lock held where the answer is
 * acted upon.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "fs/node.h"
#include "fs/options.h"

#define RUN_MARK "trusted.fsgroupfs.settled"
#define RUN_MARK_PREFIX "trusted.fsgroupfs." /* names of ours: hidden in the view */

enum { RUN_CREATIONS_MAX = 128 }; /* at once: more than a server has threads */

struct run {
	const struct overlay_options *options; /* borrowed */
	struct shared *shared;
	const struct tree *tree;
	struct node_table *nodes;
	bool resumed;		  /* files may be settled that the node table does not remember */
	bool is_durable;	  /* has an id: marks, journal */
	_Atomic bool is_finished; /* over, and on record: it will not be resumed */
	struct timespec epoch;	  /* of the file system's clock; all zero: unknown */
	int journal_fd;		  /* borrowed; -1: none */
	pthread_mutex_t journal_lock;
	struct { /* see run_creation_begin */
		pthread_mutex_t lock;
		pthread_cond_t ended;
		atomic_uint count;
		uint64_t begun;			     /* guarded by lock, like the numbers below */
		uint64_t numbers[RUN_CREATIONS_MAX]; /* of those under way, 0: free */
	} creating;
	struct { /* see run_look; each only grows */
		_Atomic uint64_t begun, ended;
	} applying;
};

/*
 * run_start: sets *ret_run up; for the first server of a run finds the epoch (waits until the file
 * system's clock has ticked, some milliseconds) and reads the journal. The texts of @options must be
 * valid already.
 * Returns 0, -EINVAL (the epoch's text), -EUCLEAN (journal), or -errno of the tree.
 */
int run_start(struct run *ret_run, const struct overlay_options *options, struct shared *shared,
	      const struct tree *tree, struct node_table *nodes);

/* run_is_over: everything is shown as it is on disk, for ever. */
bool run_is_over(const struct run *run);

/* Why a file is shown as it is: as the run wants it for the first two, else as it is on disk. */
enum run_reason {
	RUN_PENDING,   /* the walk has not come to it, or could not change it */
	RUN_VIRTUAL,   /* shown so for ever */
	RUN_UNMANAGED, /* ownership=none */
	RUN_EXCLUDED,
	RUN_OVER,
	RUN_SETTLED,  /* made or changed by a user in this run, as the node table remembers */
	RUN_NOT_ROOT, /* policy RootOnly */
	RUN_RIGHT,    /* is already as the run wants it */
	RUN_MARKED,   /* carries this run's mark: changed by a user */
	RUN_BORN,     /* its birth time lies in the run: made by a user */
};

/* run_reason: the one decision; arguments as for run_is_pending(). */
enum run_reason run_reason(struct run *run, const struct node_info *node, int fd,
			   const struct stat *real);

/* run_has_birth: whether the file was made in this run, as far as its birth time says. */
bool run_has_birth(const struct run *run, int fd);

/*
 * run_is_pending: whether the inode @fd, whose node is @node, is to be shown by present() instead of as
 * it is. May note in the table what it learnt from birth time or mark.
 */
bool run_is_pending(struct run *run, const struct node_info *node, int fd, const struct stat *real);

/* run_show: *io_st, real attributes, becomes what the consumer sees. */
void run_show(struct run *run, const struct node_info *node, int fd, struct stat *io_st);

/*
 * run_apply: apply_seen() by this run's rule, under the inode's lock. @record: halfway_begin().
 *
 * A change of group takes set-ID bits and capabilities away, and they are put back: a file that may have such or an
 * ACL must not be looked at meanwhile. Who looks without the lock, which the walker may hold for long, asks run_look()
 * before and gives the answer to run_has_applied() afterwards: true, if what he saw must be looked at again, under the
 * lock.
 */
int run_apply(struct run *run, struct halfway_record *record, int fd, const struct stat *before,
	      bool has_no_xattr, struct stat *ret_st);
uint64_t run_look(const struct run *run);
bool run_has_applied(const struct run *run, uint64_t look);

/*
 * run_creation_begin, run_creation_end: around making an object and run_settle_created(): between the
 * two it is on disk and not yet known to be settled. What begin returned is for end. run_creation_wait:
 * returns when every creation that had begun before is settled; called without inode locks, by the
 * walker, which must not take for pending what a user is just making. It holds no creation up.
 */
unsigned run_creation_begin(struct run *run);
void run_creation_end(struct run *run, unsigned creation);
void run_creation_wait(struct run *run);

/*
 * run_settle_created: @fd was just made through the overlay. run_note_created: the same but for the node table,
 * which must be given *ret_flags (node_lookup_made).
 */
int run_note_created(struct run *run, int fd, const struct stat *st, uint32_t *ret_flags);
int run_settle_created(struct run *run, int fd, const struct stat *st);

/*
 * run_settle_changed: a user is about to change ownership, mode or ACL of @fd. A pending file is
 * converged first; then it is marked. *io_node is brought up to date.
 * @st: its attributes, read under its inode lock, which is held
 *
 * Returns 0, or the error that keeps the file from being converged, which is also the answer to the
 * user's request; nothing of the user's change has happened then.
 */
int run_settle_changed(struct run *run, struct node_info *io_node, int fd, const struct stat *st);

/*
 * run_note_mark: of a resumed run, by the walk: a file that is right may carry the run's mark, which no
 * request has met; noted in the table it is removed with the others when the run is over.
 */
void run_note_mark(struct run *run, int fd, const struct stat *st);

/* run_unmark_void: removes marks of earlier runs from a file (not this run's). */
void run_unmark_void(struct run *run, int fd);

/* run_finish: the run is over, and on record if it has an id: marks are removed, the table remembers no longer. */
void run_finish(struct run *run);

#endif
