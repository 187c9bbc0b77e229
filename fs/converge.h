/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CONVERGE_H
#define FS_CONVERGE_H

/*
 * converge: the walker that makes the real ownership what the consumer already sees.
 *
 * The lower tree is walked (walk.h) by as many threads as there are processors, children before their
 * directory, the root last; a file that is right costs one stat and no write. What a user moves to where
 * the walk has been already is walked again. It orders itself against users by the inode locks of node.h,
 * and never holds two.
 *
 * Knows the run's rule and the tree; does not know FUSE requests, the keeper or the hand-off: it tells
 * its owner through the callback.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/brake.h"
#include "fs/run.h"

/* The priority of the walk's threads: below that of those that serve requests, and never back. */
enum { CONVERGE_NICE = 10 };

struct converger;

struct converge_events {
	/* changed: an inode was changed on disk; @node_id is 0 when the kernel does not know it. Any thread. */
	void (*changed)(void *context, uint64_t node_id);
	/* state_changed: the header's state went to presented (paused) or back to converging. */
	void (*state_changed)(void *context);
	/* finished: the walk reached the root; counters and failures are in the shared header. */
	void (*finished)(void *context);
	/* find_descriptor: the walk's (walk.h). */
	bool (*find_descriptor)(void *context, uint64_t *io_began_ms);
	void *context;
};

/* converge_new: 0, -ENOMEM. All arguments are borrowed. Starts nothing. */
int converge_new(struct run *run, struct brake *brake, const struct converge_events *events,
		 struct converger **ret);

/* converge_start: starts the thread, paused where the shared header says so. 0 or -errno. */
int converge_start(struct converger *c);

/* converge_stop: ends the thread between two files, and waits for it. Safe when it never ran. */
void converge_stop(struct converger *c);
void converge_free(struct converger *c);

/* converge_is_running: started, and not stopped. By the thread that does both. */
bool converge_is_running(const struct converger *c);

/* converge_again: when the walk that is under way has reached the root, the tree is walked once more. */
void converge_again(struct converger *c);

/* converge_wake: the controls in the shared header have changed. */
void converge_wake(struct converger *c);

/*
 * converge_moved: @fd (borrowed) has come to another place of the tree, got another name or lost its
 * last one. A file and a removed directory are converged here and now, any other directory is walked
 * again. Called without inode locks.
 */
void converge_moved(struct converger *c, int fd, const struct stat *st, uint64_t exclude);

/* converge_is_done: the walk reached the root and nothing is left to walk again. */
bool converge_is_done(struct converger *c);

#endif
