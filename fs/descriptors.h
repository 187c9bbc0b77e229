/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_DESCRIPTORS_H
#define FS_DESCRIPTORS_H

/*
 * descriptors: how a server gets by with those that it may have, where each inode that the kernel knows costs one.
 *
 * That is so where handles cannot be opened (node.h). The kernel forgets an inode only when it wants its memory, which may be
 * never: who lists a tree with more files than the server may have descriptors would get EMFILE. So before that the kernel is asked
 * to forget some that nobody uses (FUSE_NOTIFY_PRUNE): in the order of their slots, round and round, an eighth of what may be had
 * at a time. What is wanted of them later is looked up again. A thread of its own asks, for that may take as long as other requests.
 *
 * What is left is for what users have open, for the walk, and for requests that are being served. A request that finds none all the
 * same is laid aside, as bytes, the kernel is asked at once, and when something was let go of it is begun again: threads that
 * waited for that would not read what the kernel says it has forgotten. If nothing is for some time, it is answered EMFILE.
 * Inodes that are new never take the last ones: else nothing could be done with those that are known.
 *
 * Before Linux 6.18 the kernel cannot be asked. Thread-safe.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct overlay;

struct descriptors_request {
	struct descriptors_request *next;
	uint64_t began_ms; /* clock_now_ms(): when it found none for the first time */
	size_t len;
	unsigned char bytes[];
};

struct descriptors {
	_Atomic uint32_t mark; /* of node_pinned(): then it asks; 0: it never does */
	_Atomic uint32_t most; /* the mark, unless users look up faster than the kernel forgets */
	_Atomic uint32_t step; /* half of what is asked for at a time */
	uint32_t slot;	       /* where it goes on; the thread's */
	atomic_bool is_freed;  /* something was let go of since requests were begun again */
	_Atomic uint64_t freed_ms; /* when something was, the last time */
	atomic_uint aside;	   /* requests; changed under lock, as the next */
	atomic_uint waiting;	   /* threads in descriptors_wait() */
	pthread_mutex_t lock;
	pthread_cond_t wanted; /* with lock, on the monotonic clock, as the next */
	pthread_cond_t freed;
	pthread_t thread;
	bool is_running; /* guarded by lock, like those below */
	bool is_stopping, is_wanted;
	unsigned freed_count;			  /* while threads wait */
	struct descriptors_request *first, **end; /* oldest first */
};

void descriptors_init(struct descriptors *d);

/* descriptors_start: begins the thread, if there is use for it; INIT is answered. 0 or -errno. */
int descriptors_start(struct overlay *ov);

/* descriptors_note: a request of that kind was served: inodes may be known, or forgotten. Does not block. */
void descriptors_note(struct overlay *ov, uint32_t opcode);

/* descriptors_note_freed: what the kernel had forgotten was seen to. Costs nothing where they are not kept. */
void descriptors_note_freed(struct descriptors *d);

/*
 * descriptors_lay_aside: a request that found none, for the first time at @began_ms (0: now), and has no answer. A copy is kept until
 * descriptors_take(), or it is answered. Where it cannot be kept it is answered here.
 */
void descriptors_lay_aside(struct overlay *ov, const void *bytes, size_t len, uint64_t began_ms);

/*
 * descriptors_take: what was laid aside, when it is worth to begin it again: the caller serves and frees each. NULL: nothing.
 * descriptors_are_awaited: something is.
 */
struct descriptors_request *descriptors_take(struct descriptors *d);
static inline bool descriptors_are_awaited(const struct descriptors *d)
{
	return atomic_load_explicit(&d->aside, memory_order_relaxed) > 0;
}

/* descriptors_are_kept: whether the kernel is asked: else there are as many as there are. */
static inline bool descriptors_are_kept(const struct descriptors *d)
{
	return atomic_load_explicit(&d->mark, memory_order_relaxed) > 0;
}

/*
 * descriptors_are_short: whether the kernel is being asked: then it is told of no inode that nobody has asked for by name.
 */
bool descriptors_are_short(const struct overlay *ov);

/*
 * descriptors_wait: for a request that cannot be laid aside, and found none for the first time at *io_began_ms; 0: now, which it
 * becomes. Asks, and waits until something was let go of. Returns whether something was; else it has waited long enough.
 */
bool descriptors_wait(struct descriptors *d, uint64_t *io_began_ms);

/* descriptors_stop: ends the thread, if there is one; it may be started again. What is laid aside then is answered EMFILE. */
void descriptors_stop(struct descriptors *d);

#endif
