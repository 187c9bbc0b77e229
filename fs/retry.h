/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_RETRY_H
#define FS_RETRY_H

/*
 * retry: when a walk that left failures is made again by itself: later each time.
 *
 * Only failures that can pass by themselves are worth it (no space, quota, I/O, memory); what is refused
 * for good (immutable, read-only, a gid that does not fit) waits for somebody to ask. Pure: times are the
 * caller's, of one monotonic clock. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/shared.h"

struct retry {
	uint64_t delay_ms; /* of the last one; 0: none yet */
	uint64_t due_ns;   /* 0: none is due */
};

/*
 * retry_schedule: after a walk with these failures that took @walk_ms: at most a twentieth of the time is
 * spent on walks in vain. Returns whether there will be another.
 */
bool retry_schedule(struct retry *r, const struct shared_failure *failures, size_t count,
		    uint64_t walk_ms, uint64_t now_ns);

/* retry_forget: nothing has failed, or somebody asked for a walk now: the delays begin anew. */
void retry_forget(struct retry *r);

/* retry_timeout_ms: for poll(2): until the next one is due; -1: for ever. */
int retry_timeout_ms(const struct retry *r, uint64_t now_ns);

/* retry_take: whether one is due; it is no longer then. */
bool retry_take(struct retry *r, uint64_t now_ns);

#endif
