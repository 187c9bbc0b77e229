// SPDX-License-Identifier: Apache-2.0
#include "fs/turn.h"

#include "fs/base/clock.h"

/*
 * What a request adds to the score. Quick times begin at SCORE_QUICK and end at 0: two who ask at once end them within a few
 * requests, and one of ten that comes late does not. Four threads that ask on two processors are as fast as without all
 * this if overlaps count so much; with -4 they went to and fro between the two, a fifth slower. If they end because it was
 * looked in vain more often than not they do not begin again soon.
 */
enum {
	SCORE_CLOSE = 1,
	SCORE_MISSED = -1,
	SCORE_FAR = -8,
	SCORE_OVERLAP = -16,
	SCORE_QUICK = 32,
	SCORE_MAX = 64,
	SCORE_TIRED = -256,
};

void turn_init(struct turn *t, bool is_of_use)
{
	*t = (struct turn){ .is_of_use = is_of_use };
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->handed, NULL);
	clock_cond_init(&t->slowed);
}

/* Lock held. */
static void slow_down(struct turn *t, int score)
{
	atomic_store(&t->quick, 0);
	atomic_store(&t->score, score);
	t->is_taken = t->is_kept = false;
	t->caller = 0;
	pthread_cond_broadcast(&t->slowed);
}

static void end_quick_times(struct turn *t, int score)
{
	pthread_mutex_lock(&t->lock);
	slow_down(t, score);
	pthread_mutex_unlock(&t->lock);
}

void turn_end(struct turn *t)
{
	pthread_mutex_lock(&t->lock);
	slow_down(t, 0);
	t->has_ended = true;
	pthread_cond_signal(&t->handed);
	pthread_mutex_unlock(&t->lock);
}

static void speed_up(struct turn *t)
{
	pthread_mutex_lock(&t->lock);
	if (atomic_load(&t->quick) == 0) {
		t->last_quick = t->last_quick + 1 == TURN_LATE ? 1 : t->last_quick + 1;
		atomic_store(&t->quick, t->last_quick);
	}
	pthread_mutex_unlock(&t->lock);
}

/*
 * Lock held. Until times are slow, or for a tick; if no request has come by then, they are slow. Returns TURN_LATE, or TURN_CALLED
 * when somebody called for help, for then another one watches, or 0.
 */
static unsigned wait_and_watch(struct turn *t)
{
	uint64_t found = atomic_load(&t->found);
	struct timespec until = clock_until(t->is_kept ? TURN_KEPT_TICK_MS : TURN_TICK_MS);
	bool was_kept;

	t->is_watched = true;
	pthread_cond_timedwait(&t->slowed, &t->lock, &until);
	t->is_watched = false;
	was_kept = t->is_kept;
	if (atomic_load(&t->found) == found) {
		slow_down(t, 0);
		if (was_kept)
			return TURN_LATE;
	}
	if (!atomic_exchange(&t->calls, false))
		return 0;
	pthread_cond_signal(&t->slowed);
	return TURN_CALLED;
}

void turn_call(struct turn *t)
{
	atomic_store(&t->calls, true);
}

/*
 * Those that read when times became quick come out with one of the next requests each. Until the last of them has, nobody
 * looks: he would take their requests, and they would be woken by each.
 */
static bool is_anothers(const struct turn *t)
{
	return t->is_taken || atomic_load(&t->readers) > 0;
}

/* Lock held. Returns TURN_CALLED or TURN_LATE where there is that to do before it can be the caller's turn. */
static unsigned wait_for_turn(struct turn *t)
{
	unsigned what = 0;

	while (what == 0 && atomic_load(&t->quick) != 0 && is_anothers(t)) {
		if (t->is_watched)
			pthread_cond_wait(&t->slowed, &t->lock);
		else
			what = wait_and_watch(t);
	}
	return what;
}

unsigned turn_take(struct turn *t)
{
	unsigned number;

	/* First, against is_anothers(). */
	atomic_fetch_add(&t->readers, 1);
	if (atomic_load(&t->quick) == 0)
		return 0;
	atomic_fetch_sub(&t->readers, 1);
	pthread_mutex_lock(&t->lock);
	number = wait_for_turn(t);
	if (number == 0) {
		number = atomic_load(&t->quick);
		if (number == 0)
			atomic_fetch_add(&t->readers, 1);
		else
			t->is_taken = true;
	}
	pthread_mutex_unlock(&t->lock);
	return number;
}

void turn_give(struct turn *t, unsigned number)
{
	if (number == 0) {
		atomic_fetch_sub(&t->readers, 1);
		return;
	}
	pthread_mutex_lock(&t->lock);
	/* Else times have been slow since, and the turn is another's. */
	if (atomic_load(&t->quick) == number)
		t->is_taken = t->is_kept = false;
	pthread_mutex_unlock(&t->lock);
}

void turn_keep(struct turn *t, unsigned number)
{
	pthread_mutex_lock(&t->lock);
	t->is_kept = atomic_load(&t->quick) == number;
	pthread_mutex_unlock(&t->lock);
}

bool turn_is_kept(const struct turn *t, unsigned number)
{
	return number != 0 && atomic_load(&t->quick) == number;
}

bool turn_hand(struct turn *t, unsigned number, pid_t caller)
{
	bool is_handed;

	pthread_mutex_lock(&t->lock);
	is_handed = t->is_followed && turn_is_kept(t, number);
	if (is_handed) {
		t->is_kept = true;
		t->caller = caller;
		t->is_followed = false;
		pthread_cond_signal(&t->handed);
	}
	pthread_mutex_unlock(&t->lock);
	return is_handed;
}

unsigned turn_wait_handed(struct turn *t, pid_t *ret_caller)
{
	unsigned number = 0;

	pthread_mutex_lock(&t->lock);
	/* What was handed over may be past when the follower comes to it: slow_down(). */
	while (t->caller == 0 && !t->has_ended) {
		t->is_followed = true;
		pthread_cond_wait(&t->handed, &t->lock);
	}
	t->is_followed = false;
	if (t->caller != 0)
		number = atomic_load(&t->quick); /* these times have not ended since */
	else
		t->has_ended = false;
	*ret_caller = t->caller;
	t->caller = 0;
	pthread_mutex_unlock(&t->lock);
	return number;
}

static int score_of(const struct turn *t, bool overlaps, bool looked, uint64_t now_ns)
{
	uint64_t served_ns = atomic_load(&t->served_ns);
	uint64_t apart_ns = now_ns > served_ns ? now_ns - served_ns : 0;

	if (overlaps)
		return SCORE_OVERLAP;
	if (apart_ns > TURN_CLOSE_NS)
		return SCORE_FAR;
	return looked && apart_ns > TURN_LOOK_NS ? SCORE_MISSED : SCORE_CLOSE;
}

/* Nobody gets tired by this, or more so. */
static int changed_score(int score, int added)
{
	int lowest = score < 0 ? score : 0;

	score += added;
	return score < lowest ? lowest : score > SCORE_MAX ? SCORE_MAX : score;
}

void turn_found(struct turn *t, bool is_awaited, enum turn_how how, uint64_t now_ns)
{
	bool overlaps, was_left;
	int score, added;

	if (!t->is_of_use)
		return;
	atomic_fetch_add(&t->found, 1);
	/* Who sent one that nobody waits for may have sent the next one meanwhile. */
	was_left = atomic_exchange(&t->was_left, !is_awaited);
	if (!is_awaited)
		return;
	overlaps = atomic_fetch_add(&t->serving, 1) > 0 || (how == TURN_WAS_THERE && !was_left);
	added = score_of(t, overlaps, how != TURN_SLEPT, now_ns);
	score = changed_score(atomic_load(&t->score), added);
	/* What two threads write at once is about the same. */
	atomic_store(&t->score, score);
	if (score >= SCORE_QUICK && atomic_load(&t->quick) == 0)
		speed_up(t);
	else if (score <= 0 && atomic_load(&t->quick) != 0)
		end_quick_times(t, added == SCORE_MISSED ? SCORE_TIRED : 0);
}

void turn_served(struct turn *t, bool is_awaited, uint64_t now_ns)
{
	if (!t->is_of_use)
		return;
	atomic_store(&t->served_ns, now_ns);
	if (is_awaited)
		atomic_fetch_sub(&t->serving, 1);
}
