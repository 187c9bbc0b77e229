// SPDX-License-Identifier: Apache-2.0
#include "fs/pace.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "fs/base/clock.h"

static const uint64_t SECOND_NS = 1000000000;
static const uint64_t BURST_NS = 10 * 1000 * 1000; /* what was not used for longer is lost */

enum { COUNT_STEP = 64 }; /* entries that a thread counts before it tells the others */

void pace_init(struct pace *p, struct shared_header *header, struct brake *brake,
	       void (*state_changed)(void *context), void *context)
{
	memset(p, 0, sizeof(*p));
	p->header = header;
	p->brake = brake;
	p->state_changed = state_changed;
	p->context = context;
	pthread_mutex_init(&p->lock, NULL);
	clock_cond_init(&p->wake);
}

uint64_t pace_now_ns(void)
{
	return clock_now_ns();
}

static void begin_window(struct pace *p)
{
	p->window_ns = pace_now_ns();
	p->window_count = 0;
}

void pace_start(struct pace *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = false;
	p->due_ns = 0;
	begin_window(p);
	pthread_mutex_unlock(&p->lock);
	brake_set(p->brake, true);
}

void pace_stop(struct pace *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	brake_set(p->brake, false);
}

void pace_wake(struct pace *p)
{
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

/* Waits until then, or until somebody wakes. Lock held. */
static int wait_until(struct pace *p, uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = (time_t)(until_ns / SECOND_NS),
					.tv_nsec = (long)(until_ns % SECOND_NS) };

	return pthread_cond_timedwait(&p->wake, &p->lock, &until);
}

/* What an entry waits for beside its turn: nothing, or until when. Lock held. */
static void wait_for_turn(struct pace *p, bool *io_rested)
{
	for (;;) {
		uint64_t rate = atomic_load(&p->header->converge_rate);
		uint64_t now = pace_now_ns();

		if (rate == 0 || p->stop || atomic_load(&p->header->paused))
			return;
		if (p->due_ns < now - BURST_NS)
			p->due_ns = now - BURST_NS;
		if (p->due_ns <= now) {
			p->due_ns += SECOND_NS / rate;
			return;
		}
		*io_rested = true;
		wait_until(p, p->due_ns);
	}
}

static void set_state(struct pace *p, enum overlay_state state)
{
	if (atomic_exchange(&p->header->state, state) != state)
		p->state_changed(p->context);
}

/* While it is paused nothing walks, and the state says so. Lock held. */
static void wait_while_paused(struct pace *p, bool *io_rested)
{
	if (p->stop || !atomic_load(&p->header->paused))
		return;
	*io_rested = true;
	atomic_store(&p->header->rate, 0);
	set_state(p, OVERLAY_PRESENTED);
	while (!p->stop && atomic_load(&p->header->paused))
		pthread_cond_wait(&p->wake, &p->lock);
	/* Stopped, the walk has not gone on: another server is to find it paused. */
	if (!p->stop)
		set_state(p, OVERLAY_CONVERGING);
	begin_window(p);
}

/* The rate of the window that has passed. Lock held. */
static void close_window(struct pace *p)
{
	uint64_t passed = pace_now_ns() - p->window_ns;

	if (passed < SECOND_NS)
		return;
	atomic_store(&p->header->rate, (p->window_count * SECOND_NS + passed / 2) / passed);
	begin_window(p);
}

/* Rests as long as the foreground wants. */
static void give_way(struct pace *p, uint64_t walker, bool *io_rested)
{
	uint64_t now, rest;

	while (!atomic_load(&p->stop) && !atomic_load(&p->header->paused) &&
	       !atomic_load(&p->header->unbraked) &&
	       (rest = brake_rest(p->brake, walker, now = pace_now_ns())) > 0) {
		*io_rested = true;
		pthread_mutex_lock(&p->lock);
		if (!p->stop)
			wait_until(p, now + rest);
		pthread_mutex_unlock(&p->lock);
	}
}

bool pace_wait(struct pace *p, bool *io_rested)
{
	static __thread unsigned uncounted;
	bool is_free =
		!atomic_load(&p->header->paused) && atomic_load(&p->header->converge_rate) == 0;

	uncounted++;
	give_way(p, (uint64_t)(uintptr_t)&uncounted, io_rested);
	if (is_free && !atomic_load(&p->stop) && uncounted < COUNT_STEP)
		return true;
	pthread_mutex_lock(&p->lock);
	wait_for_turn(p, io_rested);
	wait_while_paused(p, io_rested);
	p->window_count += uncounted;
	uncounted = 0;
	close_window(p);
	pthread_mutex_unlock(&p->lock);
	return !atomic_load(&p->stop);
}

bool pace_sleep(struct pace *p, uint64_t ms)
{
	uint64_t until = pace_now_ns() + ms * (SECOND_NS / 1000);

	pthread_mutex_lock(&p->lock);
	while (!p->stop && wait_until(p, until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&p->lock);
	return !atomic_load(&p->stop);
}
