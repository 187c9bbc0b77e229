// SPDX-License-Identifier: Apache-2.0
#include "fs/brake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define US 1000ULL
#define MS (1000 * US)

enum { WALKER = 1, OTHER = 2 };

/* A day of the machine: requests that take turns with the walk, on a clock of the test's own. */
struct world {
	struct brake brake;
	uint64_t now;
	uint64_t worked, rested; /* of the walker */
};

static void set_up(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->now = 1000 * MS;
	brake_set(&w->brake, true);
}

/* The walker until @until: an entry takes it 10 us. */
static void walk(struct world *w, uint64_t until)
{
	while (w->now < until) {
		uint64_t rest = brake_rest(&w->brake, WALKER, w->now);

		if (rest == 0) {
			w->now += 10 * US;
			w->worked += 10 * US;
		} else {
			if (rest > until - w->now)
				rest = until - w->now;
			w->now += rest;
			w->rested += rest;
		}
	}
}

/* A request that takes @length when the walk rests, and @slow while it is at work. */
static void request(struct world *w, enum brake_kind kind, uint64_t length, uint64_t slow)
{
	uint64_t began = w->now, last = w->brake.last_work_ns;

	brake_begin(&w->brake, began);
	w->now += last + 50 * US >= began ? slow : length;
	brake_end(&w->brake, kind, began, w->now);
}

/* @count requests, one a millisecond, met anywhere by the walk. Returns its share of the time, per mille. */
static uint64_t live(struct world *w, enum brake_kind kind, int count, uint64_t length,
		     uint64_t slow)
{
	w->worked = w->rested = 0;
	for (int i = 0; i < count; i++) {
		walk(w, w->now + MS + (uint64_t)(i * 37 % 100) * US);
		request(w, kind, length, slow);
	}
	return 1000 * w->worked / (w->worked + w->rested);
}

static void brake_rest_without_requests_is_nothing(void **state)
{
	struct world w;

	(void)state;
	set_up(&w);
	assert_int_equal(brake_rest(&w.brake, WALKER, w.now), 0);
	assert_int_equal(brake_rest(&w.brake, OTHER, w.now), 0);
	request(&w, BRAKE_LOOK, 100 * US, 100 * US);
	assert_true(brake_rest(&w.brake, OTHER, w.now) > 0);
	w.now += 200 * MS;
	assert_int_equal(brake_rest(&w.brake, WALKER, w.now), 0);
	assert_int_equal(brake_rest(&w.brake, OTHER, w.now), 0);
}

/* Whether a thread beside the one that walks has to rest, that long after the latest request. */
static bool is_held_up(struct world *w, uint64_t after)
{
	brake_rest(&w->brake, WALKER, w->now + after);
	return brake_rest(&w->brake, OTHER, w->now + after) > 0;
}

static void brake_rest_is_for_as_long_as_there_were_requests(void **state)
{
	struct world w;

	(void)state;
	set_up(&w);
	/* Four at once, as a mount makes them. */
	for (int i = 0; i < 4; i++)
		request(&w, BRAKE_LOOK, 50 * US, 50 * US);
	assert_true(is_held_up(&w, MS));
	assert_false(is_held_up(&w, 3 * MS));
	/* And again, after so long that it has nothing to do with the first. */
	w.now += 150 * MS;
	request(&w, BRAKE_LOOK, 50 * US, 50 * US);
	assert_true(is_held_up(&w, MS));
	assert_false(is_held_up(&w, 3 * MS));
	/* Who goes on asking is waited for longer, to a bound; how far apart his requests are does not matter. */
	w.now += 40 * MS;
	request(&w, BRAKE_LOOK, 50 * US, 50 * US);
	assert_true(is_held_up(&w, 39 * MS));
	assert_false(is_held_up(&w, 42 * MS));
	for (int i = 0; i < 20; i++) {
		w.now += 90 * MS;
		request(&w, BRAKE_LOOK, 50 * US, 50 * US);
	}
	assert_true(is_held_up(&w, 99 * MS));
	assert_false(is_held_up(&w, 101 * MS));
}

static void brake_rest_one_walks_while_there_are_requests(void **state)
{
	int other_worked = 0;
	struct world w;

	(void)state;
	set_up(&w);
	request(&w, BRAKE_LOOK, 100 * US, 100 * US);
	for (int i = 0; i < 100; i++) {
		walk(&w, w.now + MS);
		other_worked += brake_rest(&w.brake, OTHER, w.now) == 0;
		request(&w, BRAKE_LOOK, 100 * US, 100 * US);
	}
	assert_true(w.worked > 0);
	assert_int_equal(other_worked, 0);
	/* The one that walked has ended: another takes over. */
	for (int i = 0; i < 2000 && other_worked == 0; i++) {
		w.now += MS;
		other_worked += brake_rest(&w.brake, OTHER, w.now) == 0;
		if (i % 50 == 0)
			request(&w, BRAKE_LOOK, 100 * US, 100 * US);
	}
	assert_true(other_worked > 0);
}

static void brake_rest_nothing_begins_in_a_request(void **state)
{
	struct world w;

	(void)state;
	set_up(&w);
	live(&w, BRAKE_LOOK, 100, 100 * US, 100 * US);
	w.now += 90 * MS;
	brake_begin(&w.brake, w.now);
	for (uint64_t end = w.now + 4 * MS; w.now < end;) {
		uint64_t rest = brake_rest(&w.brake, WALKER, w.now);

		assert_true(rest > 0);
		w.now += rest;
	}
	/* But it does not stand still because one takes for ever. */
	w.worked = 0;
	walk(&w, w.now + 1000 * MS);
	assert_true(w.worked > 20 * MS);
}

/* Whoever steers the walk wakes it: it asks again, and has not waited for as long as it was told to. */
static void brake_rest_woken_early_works_no_longer(void **state)
{
	uint64_t began, end;
	struct world w;

	(void)state;
	set_up(&w);
	live(&w, BRAKE_LOOK, 100, 100 * US, 100 * US);
	while (brake_rest(&w.brake, WALKER, w.now) > 0)
		w.now += 10 * US;
	brake_begin(&w.brake, w.now);
	for (end = w.now + MS; w.now < end; w.now += 10 * US)
		assert_true(brake_rest(&w.brake, WALKER, w.now) > 0);
	brake_end(&w.brake, BRAKE_LOOK, end - MS, w.now);
	w.now += MS;
	for (began = w.now; brake_rest(&w.brake, WALKER, w.now) == 0; w.now += 10 * US)
		assert_true(w.now < began + 1000 * MS);
	assert_in_range(w.now - began, 0, 2 * MS);
}

static void brake_rest_unharmed_answers_let_it_work(void **state)
{
	struct world w;

	(void)state;
	set_up(&w);
	live(&w, BRAKE_NAME, 3000, 200 * US, 200 * US);
	assert_in_range(live(&w, BRAKE_NAME, 1000, 200 * US, 200 * US), 400, 1000);
}

static void brake_rest_slow_answers_hold_it_back(void **state)
{
	struct world w;
	uint64_t free_share, held_share;

	(void)state;
	set_up(&w);
	live(&w, BRAKE_NAME, 3000, 200 * US, 200 * US);
	free_share = live(&w, BRAKE_NAME, 1000, 200 * US, 200 * US);
	live(&w, BRAKE_NAME, 3000, 200 * US, 1000 * US);
	held_share = live(&w, BRAKE_NAME, 3000, 200 * US, 1000 * US);
	assert_true(held_share * 4 < free_share);
	/* Held back, not stopped; and free again when it does no harm. */
	assert_true(held_share >= 10);
	live(&w, BRAKE_NAME, 20000, 200 * US, 200 * US);
	assert_true(live(&w, BRAKE_NAME, 1000, 200 * US, 200 * US) * 10 > free_share * 9);
}

/* A third longer is less than what is called slow, six times is: the worst kind decides. */
static void brake_rest_kinds_are_judged_by_themselves(void **state)
{
	uint64_t mixed = 0, harmed = 0;
	struct world w;

	(void)state;
	for (int round = 0; round < 2; round++) {
		set_up(&w);
		for (int i = 0; i < 6000; i++) {
			if (i == 3000)
				w.worked = w.rested = 0;
			walk(&w, w.now + MS + (uint64_t)(i * 37 % 100) * US);
			/* As long as the others' usual time: in one histogram it would not be seen. */
			request(&w, BRAKE_LOOK, 50 * US, round == 0 ? 50 * US : 300 * US);
			walk(&w, w.now + MS);
			request(&w, BRAKE_NAME, 1000 * US, 1000 * US);
		}
		*(round == 0 ? &mixed : &harmed) = 1000 * w.worked / (w.worked + w.rested);
	}
	assert_true(harmed * 3 < mixed);
}

static void brake_end_off_learns_nothing(void **state)
{
	struct world w;

	(void)state;
	set_up(&w);
	brake_set(&w.brake, false);
	request(&w, BRAKE_LOOK, 100 * US, 100 * US);
	for (int i = 0; i < BRAKE_BUCKETS; i++)
		assert_int_equal(w.brake.resting[BRAKE_LOOK].buckets[i], 0);
	assert_int_equal(w.brake.in_flight, 0);
}

/* Times of any length, and kinds that are not judged, stay within the histograms. */
static void brake_end_takes_any_length(void **state)
{
	struct world w;
	uint32_t sum = 0;

	(void)state;
	set_up(&w);
	for (uint64_t length = 1; length < 1ULL << 62; length *= 3) {
		brake_begin(&w.brake, w.now);
		brake_end(&w.brake, BRAKE_DATA, w.now, w.now + length);
		brake_begin(&w.brake, w.now);
		brake_end(&w.brake, BRAKE_NONE, w.now, w.now + length);
		sum++;
	}
	for (int i = 0; i < BRAKE_BUCKETS; i++)
		sum -= w.brake.resting[BRAKE_DATA].buckets[i];
	assert_int_equal(sum, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(brake_rest_without_requests_is_nothing),
		cmocka_unit_test(brake_rest_is_for_as_long_as_there_were_requests),
		cmocka_unit_test(brake_rest_one_walks_while_there_are_requests),
		cmocka_unit_test(brake_rest_nothing_begins_in_a_request),
		cmocka_unit_test(brake_rest_woken_early_works_no_longer),
		cmocka_unit_test(brake_rest_unharmed_answers_let_it_work),
		cmocka_unit_test(brake_rest_slow_answers_hold_it_back),
		cmocka_unit_test(brake_rest_kinds_are_judged_by_themselves),
		cmocka_unit_test(brake_end_off_learns_nothing),
		cmocka_unit_test(brake_end_takes_any_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
