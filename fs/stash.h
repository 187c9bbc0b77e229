/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_STASH_H
#define FS_STASH_H

/*
 * stash: where the server lays descriptors that the next server will need, without waking the keeper.
 *
 * Whoever takes a file's last name has the inode pinned until the kernel forgets it, which most often follows at once.
 * To tell the keeper of both cost more than the unlink itself. So a pin is sent over a socket whose other end the server
 * and the keeper both have, and which nobody waits at: it lies in the queue, outlives the server there, and is taken out
 * again by the server; or by the keeper, when the server is dead.
 *
 * A few such queues (cells), by slot; each is first in, first out. A pin that another one overtakes is there to stay:
 * it is passed on to the keeper as a CHANNEL_PIN. So is one that does not fit, and all of them until the keeper has said
 * that it has the cell (CHANNEL_STASHED; a keeper of an older version never does).
 *
 * The server's functions are thread-safe, but for stash_open and stash_offer; the node table sees to it that of one slot there
 * is one call at a time. The keeper's: one thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/pins.h"

enum {
	STASH_CELLS = 4,
	STASH_CELL_MAX = 64,
	/* To take the blocks of a larger file away is the keeper's work: it may be long, and nobody waits for him. */
	STASH_LARGE_BYTES = 1 << 20,
};

/* ---- the server's ---- */

struct stash_cell {
	pthread_mutex_t lock; /* guards what lies in it */
	int put_fd, take_fd;
	_Atomic bool is_shared;		/* the keeper has take_fd too */
	uint32_t slots[STASH_CELL_MAX]; /* of what lies in it; a ring, oldest at first */
	unsigned first, count;
};

struct stash {
	int channel_fd; /* to the keeper */
	struct stash_cell cells[STASH_CELLS];
};

/* stash_open: before the sandbox is locked. @ret_stash stays where it is. 0 or -errno. */
int stash_open(int channel_fd, struct stash *ret_stash);

/* stash_offer: sends the keeper its ends. 0 or -errno. */
int stash_offer(const struct stash *s);

/* stash_note_shared: the keeper has those of @cell; others are ignored. */
void stash_note_shared(struct stash *s, uint32_t cell);

/* stash_hold: @fd, which stays the caller's, is the pin of @slot, which has none. 0 or -errno: nobody holds it. */
int stash_hold(struct stash *s, uint32_t slot, int fd);

/*
 * stash_let_go: @slot has no pin any more. *io_fd is the caller's own descriptor of it, which he is about to close: of a
 * large file it is closed here (then -1), so that the keeper's is the last, which takes the blocks with it.
 */
int stash_let_go(struct stash *s, uint32_t slot, int *io_fd);

/* ---- the keeper's ---- */

/* What the keeper has of the server's stash; -1: no cell. */
struct stash_ends {
	int fds[STASH_CELLS];
};
#define STASH_ENDS_NONE ((struct stash_ends){ .fds = { -1, -1, -1, -1 } })

/*
 * stash_keep: the server's offer: @fd (taken over) is the end of @cell, instead of an earlier server's. 0, or -EINVAL
 * for what is none.
 */
int stash_keep(struct stash_ends *e, uint32_t cell, int fd);

/*
 * stash_empty: the server is dead, or changes nothing any more: what lies in its stash goes to @io_pins. After all that it
 * has said of pins.
 */
void stash_empty(struct stash_ends *e, struct pins *io_pins);

#endif
