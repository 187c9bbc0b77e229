/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BRAKE_H
#define FS_BRAKE_H

/*
 * brake: how much the walk may do while users wait for answers, judged by how long they wait.
 *
 * Requests are of three kinds that take very different times: looking, changing names and attributes,
 * data. Of each there are two histograms: of requests during which the walk rested, and of those
 * during which it worked. What the first calls slow (its 99th percentile and a quarter) the second may
 * not have more often than three times in a thousand requests of that kind; the worst kind decides.
 * While there are requests a single thread walks, in slots of two milliseconds with rests between, begins
 * nothing while a request is being served, and rests longer the slower the answers. Requests hold up the
 * walk for as long after the last as they came before, a tenth of a second at most; then there is no brake
 * at all. However slow the answers, the walk goes on at a small part of its speed.
 *
 * Pure: no clock, no sleeping, no lock: times are the callers', in nanoseconds of one monotonic clock.
 * Any thread; the judgement is made in whichever walking thread asks.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum brake_kind { BRAKE_LOOK, BRAKE_NAME, BRAKE_DATA, BRAKE_KINDS, BRAKE_NONE = BRAKE_KINDS };

enum {
	BRAKE_BUCKETS = 96, /* four to an octave, from a microsecond on: up to 16 seconds */
};

/* Written by request threads, halved by the judge: what is lost between the two does not matter. */
struct brake_histogram {
	_Atomic uint32_t buckets[BRAKE_BUCKETS];
};

struct brake {
	atomic_bool is_on; /* something walks; else requests are not looked at */
	atomic_uint in_flight;
	_Atomic uint64_t first_request_ns, last_request_ns; /* of the foreground; 0: none yet */
	_Atomic uint64_t last_work_ns;
	struct brake_histogram resting[BRAKE_KINDS], working[BRAKE_KINDS];

	/* Of the thread that walks while there are requests: until another takes over, it alone sets these. */
	_Atomic uint64_t walker;	  /* 0: none */
	_Atomic uint64_t walker_since_ns; /* its last question */
	_Atomic uint64_t slot_ends_ns, yielded_ns, judged_ns;
	_Atomic uint64_t yield_began_ns, yield_ns; /* what it was last told to wait; 0: nothing */
	_Atomic uint64_t rest_ns;		   /* between two slots */
};

/* brake_set: whether anything walks. Off, all that was learnt but the resting histograms is forgotten. */
void brake_set(struct brake *b, bool is_on);

/* brake_begin, brake_end: around serving a request. brake_end: @began as it was given to brake_begin. */
void brake_begin(struct brake *b, uint64_t now_ns);
void brake_end(struct brake *b, enum brake_kind kind, uint64_t began_ns, uint64_t now_ns);

/*
 * brake_rest: how long the thread @walker (any number but 0, its own) has to rest before it visits the
 * next entry; 0: it may go on.
 */
uint64_t brake_rest(struct brake *b, uint64_t walker, uint64_t now_ns);

#endif
