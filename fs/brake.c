// SPDX-License-Identifier: Apache-2.0
#include "fs/brake.h"

#include <string.h>

#define US 1000ULL
#define MS (1000 * US)

/*
 * Requests no further apart than this are one foreground, which lasts after the latest for as long as it did before,
 * within these bounds: who asks for a moment and no more, as those do who mount, does not hold up the walk for longer.
 */
static const uint64_t ACTIVE_NS = 100 * MS, ACTIVE_MIN_NS = 2 * MS;

static const uint64_t SLOT_NS = 2 * MS, REST_FIRST_NS = 2 * MS, REST_MIN_NS = MS,
		      REST_MAX_NS = 64 * MS;

/*
 * While a request is served, and a little after it, when the next one is likely, nothing is begun; for so
 * long at most between two slots: users who ask without pause must not stop the walk. To look whether it
 * still is takes the processor from somebody for some microseconds, as long as a write of a page: it is
 * done once, when the time is over, and rarely while requests are served, of which no end is known.
 */
static const uint64_t HOLD_NS = 150 * US, SERVED_NS = 400 * US, YIELD_MAX_NS = 8 * MS;

/* An entry takes the walker at most about this long: a request that began then was met by it. */
static const uint64_t ENTRY_NS = 50 * US;

/* How long the others rest while one walks, before they ask again. */
static const uint64_t FOLLOWER_NS = 5 * MS;

static const uint64_t JUDGE_NS = 100 * MS;

enum {
	RESTING_MIN = 100, /* fewer answers are no baseline */
	TOTAL_MAX = 4096,  /* then both histograms are halved: the past fades */
	SLOW_PER_MILLE = 3,
	SLOW_MIN = 2, /* one slow answer is chance */
};

/* ---- histograms ---- */

static unsigned bucket_of(uint64_t ns)
{
	uint64_t us = ns / US;
	unsigned octave, bucket;

	if (us < 4)
		return (unsigned)us;
	octave = 63 - (unsigned)__builtin_clzll(us);
	bucket = octave * 4 - 4 + (unsigned)(us >> (octave - 2) & 3);
	return bucket < BRAKE_BUCKETS ? bucket : BRAKE_BUCKETS - 1;
}

static uint32_t total(const struct brake_histogram *h)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < BRAKE_BUCKETS; i++)
		sum += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
	return sum;
}

static uint32_t total_above(const struct brake_histogram *h, unsigned bucket)
{
	uint32_t sum = 0;

	for (unsigned i = bucket + 1; i < BRAKE_BUCKETS; i++)
		sum += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
	return sum;
}

static void halve(struct brake_histogram *h)
{
	for (unsigned i = 0; i < BRAKE_BUCKETS; i++) {
		uint32_t value = atomic_load_explicit(&h->buckets[i], memory_order_relaxed);

		atomic_store_explicit(&h->buckets[i], value / 2, memory_order_relaxed);
	}
}

static void clear(struct brake_histogram *h)
{
	for (unsigned i = 0; i < BRAKE_BUCKETS; i++)
		atomic_store_explicit(&h->buckets[i], 0, memory_order_relaxed);
}

/* The bucket in which the 99th percentile lies; one more is at least a fifth longer. */
static unsigned percentile_99(const struct brake_histogram *h, uint32_t count)
{
	uint32_t above = 0;
	unsigned i = BRAKE_BUCKETS;

	while (i > 0 && above * 100 <= count)
		above += atomic_load_explicit(&h->buckets[--i], memory_order_relaxed);
	return i;
}

/* ---- requests ---- */

void brake_set(struct brake *b, bool is_on)
{
	if (is_on) {
		for (int kind = 0; kind < BRAKE_KINDS; kind++)
			clear(&b->working[kind]);
		atomic_store(&b->walker, 0);
		b->slot_ends_ns = 0;
		b->yielded_ns = 0;
		b->yield_ns = 0;
		b->judged_ns = 0;
		b->rest_ns = REST_FIRST_NS;
	}
	atomic_store(&b->is_on, is_on);
}

void brake_begin(struct brake *b, uint64_t now_ns)
{
	uint64_t last = atomic_load_explicit(&b->last_request_ns, memory_order_relaxed);

	if (last == 0 || now_ns > last + ACTIVE_NS)
		atomic_store_explicit(&b->first_request_ns, now_ns, memory_order_relaxed);
	atomic_fetch_add(&b->in_flight, 1);
	atomic_store_explicit(&b->last_request_ns, now_ns, memory_order_relaxed);
}

void brake_end(struct brake *b, enum brake_kind kind, uint64_t began_ns, uint64_t now_ns)
{
	atomic_fetch_sub(&b->in_flight, 1);
	atomic_store_explicit(&b->last_request_ns, now_ns, memory_order_relaxed);
	if (kind < BRAKE_KINDS && atomic_load_explicit(&b->is_on, memory_order_relaxed)) {
		uint64_t worked = atomic_load_explicit(&b->last_work_ns, memory_order_relaxed);
		struct brake_histogram *h =
			worked + ENTRY_NS >= began_ns ? &b->working[kind] : &b->resting[kind];

		atomic_fetch_add_explicit(&h->buckets[bucket_of(now_ns - began_ns)], 1,
					  memory_order_relaxed);
	}
}

/* ---- the walk ---- */

/*
 * Whether the walk makes answers of this kind slow. Where there is no baseline to tell by yet, not slow,
 * but not a reason to rest less: *io_is_known.
 */
static bool is_slowed(struct brake *b, int kind, bool *io_is_known)
{
	struct brake_histogram *resting = &b->resting[kind], *working = &b->working[kind];
	uint32_t at_rest = total(resting), at_work = total(working), slow;

	if (at_rest < RESTING_MIN) {
		*io_is_known = *io_is_known && at_work == 0;
		return false;
	}
	slow = total_above(working, percentile_99(resting, at_rest) + 1);
	if (at_rest + at_work > TOTAL_MAX) {
		halve(resting);
		halve(working);
	}
	if (slow < SLOW_MIN || slow * 1000 <= (at_rest + at_work) * SLOW_PER_MILLE)
		return false;
	/* Judged and punished: what comes is judged anew. */
	clear(working);
	return true;
}

static void judge(struct brake *b, uint64_t now_ns)
{
	bool slowed = false, is_known = true;

	if (now_ns - b->judged_ns < JUDGE_NS)
		return;
	b->judged_ns = now_ns;
	for (int kind = 0; kind < BRAKE_KINDS; kind++)
		slowed = is_slowed(b, kind, &is_known) || slowed;
	if (slowed)
		b->rest_ns = b->rest_ns * 2 < REST_MAX_NS ? b->rest_ns * 2 : REST_MAX_NS;
	else if (is_known)
		b->rest_ns =
			b->rest_ns * 15 / 16 > REST_MIN_NS ? b->rest_ns * 15 / 16 : REST_MIN_NS;
}

/* Whether @walker is the one that walks while there are requests. */
static bool is_chosen(struct brake *b, uint64_t walker, uint64_t now_ns)
{
	uint64_t chosen = atomic_load(&b->walker);

	/* One that has not asked for long is at work on something big, or gone. */
	if (chosen != walker &&
	    (chosen == 0 || now_ns - atomic_load(&b->walker_since_ns) > 2 * REST_MAX_NS) &&
	    atomic_compare_exchange_strong(&b->walker, &chosen, walker))
		chosen = walker;
	if (chosen != walker)
		return false;
	atomic_store(&b->walker_since_ns, now_ns);
	return true;
}

/* The slot is longer by what was yielded of it: by less than was meant, where somebody has woken the walker. */
static void count_yield(struct brake *b, uint64_t now_ns)
{
	uint64_t passed = now_ns - b->yield_began_ns;

	if (passed > b->yield_ns)
		passed = b->yield_ns;
	b->yielded_ns += passed;
	b->slot_ends_ns += passed;
	b->yield_ns = 0;
}

/* Until when there is a foreground whose latest request, of those that are answered, was then; 0: there was none. */
static uint64_t active_until(const struct brake *b, uint64_t last_ns)
{
	uint64_t first = atomic_load_explicit(&b->first_request_ns, memory_order_relaxed);
	uint64_t lasted = last_ns > first ? last_ns - first : 0;

	if (last_ns == 0)
		return 0;
	return last_ns + (lasted < ACTIVE_MIN_NS ? ACTIVE_MIN_NS :
			  lasted > ACTIVE_NS	 ? ACTIVE_NS :
						   lasted);
}

uint64_t brake_rest(struct brake *b, uint64_t walker, uint64_t now_ns)
{
	uint64_t last = atomic_load_explicit(&b->last_request_ns, memory_order_relaxed);
	unsigned in_flight = atomic_load(&b->in_flight);

	if (in_flight == 0 && now_ns > active_until(b, last)) {
		atomic_store_explicit(&b->last_work_ns, now_ns, memory_order_relaxed);
		return 0;
	}
	if (!is_chosen(b, walker, now_ns))
		return FOLLOWER_NS;
	judge(b, now_ns);
	count_yield(b, now_ns);
	if (now_ns >= b->slot_ends_ns) {
		/* The slot is over, and the rest follows; or the rest was, and this slot begins. */
		bool has_rested = b->slot_ends_ns != 0 && now_ns >= b->slot_ends_ns + b->rest_ns;

		if (!has_rested) {
			uint64_t until = (b->slot_ends_ns ? b->slot_ends_ns : now_ns) + b->rest_ns;

			if (b->slot_ends_ns == 0)
				b->slot_ends_ns = now_ns;
			return until - now_ns;
		}
		b->slot_ends_ns = now_ns + SLOT_NS;
		b->yielded_ns = 0;
	}
	if ((in_flight > 0 || now_ns < last + HOLD_NS) && b->yielded_ns < YIELD_MAX_NS) {
		b->yield_began_ns = now_ns;
		b->yield_ns = in_flight > 0 ? SERVED_NS : last + HOLD_NS - now_ns;
		return b->yield_ns;
	}
	atomic_store_explicit(&b->last_work_ns, now_ns, memory_order_relaxed);
	return 0;
}
