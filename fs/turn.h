/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_TURN_H
#define FS_TURN_H

/*
 * turn: whose turn it is to look for the next request, while requests come close one after the other.
 *
 * To wake a thread that sleeps in read(2) takes longer than to serve most requests. So while somebody asks for one thing
 * after the other one thread, whose turn it is, looks for the next request for a moment before it sleeps. The others wait here
 * meanwhile: each request would wake one that slept in read(2), for nothing. Such times are called quick.
 *
 * Where one caller can be served on his own processor (affine.h) nobody looks: the thread that does so keeps its turn, also
 * while it serves, and may have to wait behind whom it has answered.
 *
 * Where requests overlap, looking takes the processor from those who ask; where they come far apart it finds nothing. Then
 * times are slow: all threads sleep in read(2), and this costs a look at the clock.
 *
 * A request may take long, and may have to wait for what another one does. So one of those that wait here looks every
 * TURN_TICK_MS: if the turn is free, because its thread serves what it has found, it takes it; if no request came since,
 * times are slow at once. Who kept the turn meanwhile may have to be raised (affine.h): he who looked is told.
 *
 * Where a thread that serves on its caller's processor cannot come back from that (affine.h) it does nothing else: it is the
 * follower, who sleeps until whose turn it is hands that to it, to keep.
 *
 * Whoever keeps the turn may call for help with what nobody waits for. It comes with the next tick: to wake somebody would
 * take as long as to do it, and would wake a processor.
 *
 * For the threads that read from the device. Times are of CLOCK_MONOTONIC, in nanoseconds. Thread-safe.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* As long a thread looks. */
	TURN_LOOK_NS = 100000,
	/*
	 * Requests that are no farther apart come close, while all sleep: then the server and the caller have been woken between
	 * the two, which takes 5 us, or 100 and more on a virtual machine whose idle processors the host takes away.
	 */
	TURN_CLOSE_NS = 300000,
	TURN_TICK_MS = 1,
	/* While a turn is kept: who wakes then may draw the two apart that share a processor, every ms 12 % of their speed. */
	TURN_KEPT_TICK_MS = 4,
};

/*
 * No numbers of a turn; the caller comes back. TURN_CALLED: he is called to help. TURN_LATE: who kept the turn has not found a
 * request for a tick; he waits for one, or serves one for long.
 */
#define TURN_CALLED UINT32_MAX
#define TURN_LATE (UINT32_MAX - 1)

/* How a request was read. */
enum turn_how {
	TURN_SLEPT,	/* who read it did not look for it */
	TURN_LOOKED,	/* or did */
	TURN_WAS_THERE, /* and it had come before */
};

struct turn {
	bool is_of_use;
	pthread_mutex_t lock;
	pthread_cond_t slowed; /* with lock, on the monotonic clock: times are slow again */
	atomic_uint quick;   /* number of these quick times; 0: they are slow. Written under lock */
	atomic_int score;    /* of how requests came lately */
	atomic_uint readers; /* in read(2), or about to be, without the turn */
	atomic_uint serving; /* requests that somebody waits for */
	atomic_bool was_left; /* for the last one that came nobody waits */
	atomic_bool calls;    /* for help */
	_Atomic uint64_t served_ns;
	_Atomic uint64_t found;
	unsigned last_quick; /* guarded by lock, like those below */
	bool is_taken;
	bool is_kept;
	bool is_watched;
	pthread_cond_t handed; /* with lock: to the follower, or turn_end() was called */
	bool is_followed;      /* it waits */
	pid_t caller;	       /* for whom it is handed over; 0: it is not */
	bool has_ended;	       /* turn_end() was called, of which the follower does not know */
};

/* turn_init: @is_of_use: there are several threads, and more processors than one; else times are slow for ever. */
void turn_init(struct turn *t, bool is_of_use);

/*
 * turn_take: before a thread reads. Blocks while it is another's turn. Returns the number of the caller's turn, who is to
 * look for a request until TURN_LOOK_NS have passed, or 0: he has none, and is to read; or TURN_CALLED or TURN_LATE.
 *
 * turn_give: gives it back, when a request was read or none came.
 * turn_keep: or keeps it for the next request. turn_is_kept: whether it is the caller's still; if not, there is nothing to be
 * given back.
 *
 * turn_found: a request was read. @is_awaited: somebody waits for its end. turn_served() follows, with the same @is_awaited.
 */
unsigned turn_take(struct turn *t);
void turn_give(struct turn *t, unsigned number);
void turn_keep(struct turn *t, unsigned number);
bool turn_is_kept(const struct turn *t, unsigned number);
void turn_found(struct turn *t, bool is_awaited, enum turn_how how, uint64_t now_ns);
void turn_served(struct turn *t, bool is_awaited, uint64_t now_ns);

/*
 * turn_hand: whose turn it is hands it to the follower, for the requests of @caller, not 0. Returns false, and it is the caller's
 * still, when there is no follower, or it does not wait, or times are slow (@number is 0, or past).
 *
 * turn_wait_handed: the follower's turn_take(). Blocks until it is handed one, which it keeps; returns its number, and for whom.
 * Or 0, once for all calls of turn_end() that it has not seen yet.
 */
bool turn_hand(struct turn *t, unsigned number, pid_t caller);
unsigned turn_wait_handed(struct turn *t, pid_t *ret_caller);

/* turn_call: for one of those who wait, or of the next that do. */
void turn_call(struct turn *t);

/* turn_end: times are slow; all who wait go on, the follower too. */
void turn_end(struct turn *t);

#endif
