/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_FORGETS_H
#define FS_FORGETS_H

/*
 * forgets: what the kernel has forgotten, laid aside by a thread that has no time for it.
 *
 * A thread that serves on its caller's processor (affine.h) holds him up with all that it does besides, and to close the last
 * descriptor of a removed file takes as long as to remove it: its blocks go. Nobody waits for that. So it lies here until
 * another thread has time: who watches the turn, at the next tick (turn.h), or one that is about to read without a turn. It is
 * some ms at the most. What is not free meanwhile must be nothing that somebody misses: who removes a file on a full disk wants
 * its place. So where there is little room nothing is laid aside.
 *
 * A queue of bounded size, oldest first. It does not outlive the server: a successor finds which nodes the kernel does not know
 * any more (node_drop_unknown()). In which order nodes are forgotten is all the same: each has a count. Thread-safe.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "fs/request.h"

enum {
	FORGETS_MAX = 256,
	FORGETS_BATCH = 32,
	/* So long it may lie here: then others have had no time either. */
	FORGETS_DUE_NS = 20000000,
	/* How much room there is, is known for so long. */
	FORGETS_ROOM_NS = 10000000,
};

struct forgets {
	pthread_mutex_t lock;
	atomic_uint count;	   /* written under lock */
	_Atomic uint64_t since_ns; /* something has been there */
	unsigned first;		   /* guarded by lock, like the ring */
	struct request_forget ring[FORGETS_MAX];
	_Atomic uint64_t looked_ns; /* how much room there is; 0: never */
	atomic_bool has_room;
};

void forgets_init(struct forgets *f);

/* forgets_are_none: most often. */
static inline bool forgets_are_none(const struct forgets *f)
{
	return atomic_load(&f->count) == 0;
}

/* forgets_put: all @count of @list, or none: there is no room. @now_ns: of CLOCK_MONOTONIC, here and below. */
bool forgets_put(struct forgets *f, const struct request_forget *list, size_t count,
		 uint64_t now_ns);

/*
 * forgets_leave_room: whether a file system has room and inodes left for more than all that may lie here and is not the
 * keeper's (STASH_LARGE_BYTES). Of a user's or a project's quota it knows nothing. forgets_have_room: as that of @fd was lately.
 */
bool forgets_leave_room(const struct statvfs *st);
bool forgets_have_room(struct forgets *f, int fd, uint64_t now_ns);

/* forgets_take: the oldest, up to FORGETS_BATCH, are the caller's to see to. Returns how many. */
size_t forgets_take(struct forgets *f, struct request_forget ret_list[FORGETS_BATCH]);

/* forgets_are_due: there are so many, or some so old, that they go before anything else. */
bool forgets_are_due(const struct forgets *f, uint64_t now_ns);

#endif
