/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_PACE_H
#define FS_PACE_H

/*
 * pace: when the walk may visit its next entry: pause, rate, the foreground's brake, and its end.
 *
 * The controls stand in the shared header; whoever changes them calls pace_wake(). A rate is held by
 * the spacing of entries: in no stretch of time are there more than the rate allows for it and a
 * hundredth of a second. Also measures how fast the walk is. Any thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/brake.h"
#include "fs/shared.h"

struct pace {
	struct shared_header *header;
	struct brake *brake;
	void (*state_changed)(void *context); /* presented while it is paused, else converging */
	void *context;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	atomic_bool stop;      /* set under lock */
	uint64_t due_ns;       /* guarded by lock: when the rate allows the next entry */
	uint64_t window_ns;    /* guarded by lock: when measuring began */
	uint64_t window_count; /* guarded by lock */
};

/* pace_init: @header and @brake are borrowed. */
void pace_init(struct pace *p, struct shared_header *header, struct brake *brake,
	       void (*state_changed)(void *context), void *context);

/* pace_now_ns: the clock of pace and brake. */
uint64_t pace_now_ns(void);

/* pace_start: before threads walk. pace_stop: lets all that wait go, and tells them to end. */
void pace_start(struct pace *p);
void pace_stop(struct pace *p);

/* pace_wake: the controls have changed. */
void pace_wake(struct pace *p);

/*
 * pace_wait: before each entry, in a thread that walks; blocks while the entry's time has not come, and then sets
 * *io_rested. Returns false when the walk must end.
 */
bool pace_wait(struct pace *p, bool *io_rested);

/* pace_sleep: waits @ms or until stop. Returns false when it is stopped. */
bool pace_sleep(struct pace *p, uint64_t ms);

#endif
