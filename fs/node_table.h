/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_NODE_TABLE_H
#define FS_NODE_TABLE_H

/*
 * node_table: the inside of node.h, for node.c (what handlers ask), node_index.c (from handles to slots), node_prune.c (what the
 * kernel is asked to forget) and node_recover.c (what a successor does with a table that it finds). Nobody else includes it.
 *
 * Functions are called with the table's lock held, or before there is a second thread.
 */

#include "fs/node.h"

enum {
	INODE_LOCKS = 256,
	INO_COUNTS = 1 << 16,
	DIRECTORIES = 16,
	DOOMED_MAX = 16,
	LEAVING_MAX = 16
};

/* The run must remember these slots after the kernel forgot them. */
#define NODE_REMEMBERED (NODE_SETTLED | NODE_MARKED)

/*
 * A directory that is being worked in: three requests of four name one, and its handle takes five times as long to open
 * as a descriptor to duplicate. Kept from the second request in a row on, of those that share the place.
 */
struct node_directory {
	uint64_t id, next_id; /* node ids; 0: none */
	int fd;		      /* O_PATH; -1: none yet */
};

/* A slot that is free, but the keeper is still to let go of its pin: nobody gets it before that. */
struct node_leaving {
	uint32_t slot;
	int pin;
};

struct node_table {
	struct shared *shared;
	const struct tree *tree;
	pthread_mutex_t lock; /* guards slots, index, pins and counts */

	uint32_t *index; /* open addressing: slot numbers, 0: empty; a power of two long */
	size_t index_size, index_used;
	uint64_t index_seed[2];

	int *pins; /* by slot: descriptor + 1, 0: none; address space for NODE_SLOTS_MAX */
	_Atomic uint32_t pinned;      /* how many there are */
	_Atomic uint32_t pinned_most; /* node_limit_pinned() */
	struct node_keeper keeper;
	bool keeps_directories;
	struct node_directory directories[DIRECTORIES]; /* by slot */
	int doomed[DOOMED_MAX];				/* descriptors to be closed */
	unsigned doomed_count;
	struct node_leaving leaving[LEAVING_MAX];
	unsigned leaving_count;
	uint32_t used;
	_Atomic uint64_t opens;
	_Atomic uint64_t rests;
	uint64_t kept
		[NODE_KEPT_MAX]; /* ids that were forgotten while NODE_KEPT; a ring, kept_next the oldest */
	unsigned kept_next;
	_Atomic uint32_t ino_counts[INO_COUNTS]; /* slots in use by a hash of their inode number */

	pthread_mutex_t inode_locks[INODE_LOCKS];
};

static inline uint64_t node_id_of(const struct node_table *t, uint32_t slot)
{
	return (uint64_t)t->shared->slots[slot].generation << 32 | slot;
}

static inline void node_pin_put(struct node_table *t, uint32_t slot, int fd)
{
	t->pins[slot] = fd + 1;
	atomic_fetch_add_explicit(&t->pinned, 1, memory_order_relaxed);
}

/* node_pin_take: the slot has none after that. The caller's, or -1. */
static inline int node_pin_take(struct node_table *t, uint32_t slot)
{
	int fd = t->pins[slot] - 1;

	t->pins[slot] = 0;
	atomic_fetch_sub_explicit(&t->pinned, fd >= 0, memory_order_relaxed);
	return fd;
}

/*
 * node_table_unlock: and closes what is doomed, and sees off what leaves. The last descriptor of a file without a name takes
 * its blocks with it, which may take long; to let go of a pin takes longer than all that is done under the lock.
 */
void node_table_unlock(struct node_table *t);

/* node_table_doom: @fd is closed when the lock is given back. */
void node_table_doom(struct node_table *t, int fd);

/* node_slot_check: the slot of a node id, -EPERM for what is above the root, or -ESTALE. */
int node_slot_check(const struct node_table *t, uint64_t id, uint32_t *ret_slot);

/* node_slot_new: a slot for @key, which has none; known to nobody yet. 0 or -errno. */
int node_slot_new(struct node_table *t, const struct tree_key *key, uint64_t ino,
		  uint32_t *ret_slot);

/* node_slot_release: frees the slot when nobody needs it any more. */
void node_slot_release(struct node_table *t, uint32_t slot);

/* node_slot_hold: a duplicate of @fd pins the inode, here and at the keeper. 0 or -errno. */
int node_slot_hold(struct node_table *t, uint32_t slot, int fd);
int node_slot_pin(struct node_table *t, uint32_t slot, int fd);
void node_slot_unpin(struct node_table *t, uint32_t slot);

/*
 * node_change_begin, node_change_end: around a change of counts in a slot and in the calling thread's
 * ledger record: both happen, or after the server's death neither.
 */
void node_change_begin(struct node_table *t, uint32_t slot);
void node_change_end(struct node_table *t);

/* node_ino_count: the slots in use whose inode numbers hash like @ino: for node_may_have(). */
_Atomic uint32_t *node_ino_count(struct node_table *t, uint64_t ino);

/* The index. Seeded: whoever chooses inode numbers must not choose the collisions too. */
int node_index_resize(struct node_table *t, size_t size); /* 0 or -ENOMEM */
void node_index_put(struct node_table *t, uint32_t slot);
void node_index_remove(struct node_table *t, uint32_t slot);
uint32_t node_index_find(const struct node_table *t, const struct tree_key *key); /* 0: none */
uint64_t node_mix(uint64_t h);

/* node_attach: brings the index, the free list and the sums in step with the slots. 0, -EPROTO, or -errno. */
int node_attach(struct node_table *t, uint64_t root_exclude);

#endif
