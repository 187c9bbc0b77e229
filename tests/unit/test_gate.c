// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/gate.h"

enum { THREADS = 4, ROUNDS = 2000 };

static int set_up(void **state)
{
	/* One piece of memory: the gate is what the tests know. */
	struct {
		struct gate gate;
		struct gate_retries retries;
	} *both = calloc(1, sizeof(*both));

	*state = both;
	if (!both)
		return -1;
	gate_init(&both->gate, &both->retries);
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static enum gate_verdict enter(struct gate *g, uint64_t node, uint32_t pid, const char *text)
{
	return gate_enter(g, node, pid, text, strlen(text) + 1);
}

/* Frees the list; returns its texts one after the other in a static buffer. */
static const char *take(struct gate_request *parked)
{
	static char texts[256];

	texts[0] = '\0';
	while (parked) {
		struct gate_request *next = parked->next;

		assert_int_equal(parked->len, strlen((const char *)parked->bytes) + 1);
		strcat(texts, (const char *)parked->bytes);
		free(parked);
		parked = next;
	}
	return texts;
}

static void gate_enter_open_serves(void **state)
{
	struct gate *g = *state;

	for (int i = 0; i < 10; i++) {
		assert_int_equal(enter(g, 1, 1, "a"), GATE_SERVE);
		gate_leave(g);
	}
	assert_int_equal(g->in_flight, 0);
}

static void gate_enter_held_parks_a_copy_in_order(void **state)
{
	struct gate *g = *state;
	char text[] = "a";

	gate_hold(g);
	assert_int_equal(enter(g, 1, 1, text), GATE_PARKED);
	text[0] = 'b';
	assert_int_equal(enter(g, 1, 1, text), GATE_PARKED);
	assert_int_equal(enter(g, 2, 2, "c"), GATE_PARKED);
	assert_string_equal(take(gate_finish(g, false)), "abc");
}

static void gate_finish_refused_opens_again(void **state)
{
	struct gate *g = *state;

	gate_hold(g);
	assert_null(gate_finish(g, false));
	assert_int_equal(enter(g, 1, 1, "a"), GATE_SERVE);
	gate_leave(g);
	gate_hold(g);
	assert_int_equal(enter(g, 1, 1, "x"), GATE_PARKED);
	assert_string_equal(take(gate_finish(g, false)), "x");
	assert_null(gate_finish(g, false));
}

static void gate_finish_swapped_answers_estale_once(void **state)
{
	struct gate *g = *state;

	gate_hold(g);
	assert_null(gate_finish(g, true));
	assert_int_equal(enter(g, 7, 1, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_SERVE);
	gate_leave(g);
	/* That answer is used up: the next open of the thread begins anew. */
	assert_int_equal(enter(g, 7, 1, "a"), GATE_ANSWER_ESTALE);
}

/* The held request was answered ESTALE: the same open comes again where it began below the old overlay. */
static void gate_finish_swapped_serves_the_retry_of_a_parked_open(void **state)
{
	struct gate *g = *state;
	struct gate_request *parked;

	gate_hold(g);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_PARKED);
	parked = gate_finish(g, true);
	assert_non_null(parked);
	free(parked);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_SERVE);
	gate_leave(g);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_ANSWER_ESTALE);
}

/* Whoever compares before and after sees an open that was under way at either time. */
static void gate_steps_grow_with_begin_and_end(void **state)
{
	struct gate *g = *state;
	uint64_t before = gate_steps(g), between;

	assert_int_equal(enter(g, 7, 1, "a"), GATE_SERVE);
	between = gate_steps(g);
	assert_true(between > before);
	gate_leave(g);
	assert_true(gate_steps(g) > between);
}

static void gate_finish_swapped_tells_threads_and_nodes_apart(void **state)
{
	struct gate *g = *state;

	gate_hold(g);
	gate_finish(g, true);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 8, 1, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 7, 2, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 7, 2, "a"), GATE_SERVE);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_SERVE);
	assert_int_equal(enter(g, 8, 1, "a"), GATE_SERVE);
	assert_int_equal(g->in_flight, 3);
}

/* More threads at once than the ring remembers: the oldest is told once more, nobody is served wrongly. */
static void gate_finish_swapped_ring_overflow_forgets_the_oldest(void **state)
{
	struct gate *g = *state;

	gate_hold(g);
	gate_finish(g, true);
	for (uint32_t pid = 1; pid <= GATE_RETRIES + 1; pid++)
		assert_int_equal(enter(g, 7, pid, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_ANSWER_ESTALE);
	assert_int_equal(enter(g, 7, 1, "a"), GATE_SERVE);
	assert_int_equal(enter(g, 7, GATE_RETRIES + 1, "a"), GATE_SERVE);
}

struct race {
	struct gate *gate;
	atomic_int inside;   /* opens being served */
	atomic_bool holding; /* between gate_hold() and gate_finish() */
	atomic_bool failed;
	atomic_ulong served, parked;
	atomic_bool stop;
};

static void *open_and_close(void *argument)
{
	struct race *race = argument;

	while (!atomic_load(&race->stop)) {
		enum gate_verdict verdict = enter(race->gate, 1, 1, "a");

		if (verdict == GATE_PARKED) {
			atomic_fetch_add(&race->parked, 1);
			continue;
		}
		atomic_fetch_add(&race->inside, 1);
		if (verdict != GATE_SERVE || atomic_load(&race->holding))
			atomic_store(&race->failed, true);
		atomic_fetch_add(&race->served, 1);
		atomic_fetch_sub(&race->inside, 1);
		gate_leave(race->gate);
	}
	return NULL;
}

static size_t free_all(struct gate_request *parked)
{
	size_t count = 0;

	while (parked) {
		struct gate_request *next = parked->next;

		free(parked);
		parked = next;
		count++;
	}
	return count;
}

static void gate_hold_with_threads_nothing_is_in_flight(void **state)
{
	struct race race = { .gate = *state };
	pthread_t threads[THREADS];
	size_t given_back = 0;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &race), 0);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned long before = atomic_load(&race.served);

		gate_hold(race.gate);
		atomic_store(&race.holding, true);
		if (atomic_load(&race.inside) != 0)
			atomic_store(&race.failed, true);
		atomic_store(&race.holding, false);
		given_back += free_all(gate_finish(race.gate, false));
		/* Every so often until somebody was served, so that both sides are exercised. */
		while (round % 100 == 0 && atomic_load(&race.served) == before)
			sched_yield();
	}
	atomic_store(&race.stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_false(atomic_load(&race.failed));
	assert_int_equal(given_back, atomic_load(&race.parked));
	assert_true(atomic_load(&race.served) > 0);
}

static void *leave_later(void *argument)
{
	struct race *race = argument;

	atomic_store(&race->inside, 0);
	gate_leave(race->gate);
	return NULL;
}

static void gate_hold_waits_for_the_last_open(void **state)
{
	struct race race = { .gate = *state, .inside = 1 };
	pthread_t thread;

	assert_int_equal(enter(race.gate, 1, 1, "a"), GATE_SERVE);
	assert_int_equal(pthread_create(&thread, NULL, leave_later, &race), 0);
	gate_hold(race.gate);
	assert_int_equal(atomic_load(&race.inside), 0);
	pthread_join(thread, NULL);
	assert_null(gate_finish(race.gate, false));
}

struct waiting {
	struct gate *gate;
	atomic_bool has_passed;
	enum gate_verdict verdict;
};

static void *wait_at_gate(void *argument)
{
	struct waiting *w = argument;

	w->verdict = gate_wait(w->gate, 7, 1);
	atomic_store(&w->has_passed, true);
	return NULL;
}

static void gate_wait_open_serves_and_is_in_flight(void **state)
{
	struct gate *g = *state;
	uint64_t steps = gate_steps(g);

	assert_int_equal(gate_wait(g, 7, 1), GATE_SERVE);
	assert_int_equal(g->in_flight, 1);
	assert_true(gate_steps(g) > steps);
	gate_leave(g);
	assert_int_equal(g->in_flight, 0);
}

static void wait_through_a_hold(struct gate *g, bool swapped, enum gate_verdict wanted)
{
	struct waiting w = { .gate = g };
	uint64_t steps;
	pthread_t thread;

	gate_hold(g);
	steps = gate_steps(g);
	assert_int_equal(pthread_create(&thread, NULL, wait_at_gate, &w), 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_false(atomic_load(&w.has_passed));
	assert_int_equal(gate_steps(g), steps);
	assert_null(gate_finish(g, swapped));
	pthread_join(thread, NULL);
	assert_int_equal(w.verdict, wanted);
}

static void gate_wait_held_waits_and_is_served(void **state)
{
	struct gate *g = *state;

	wait_through_a_hold(g, false, GATE_SERVE);
	gate_leave(g);
	assert_int_equal(g->in_flight, 0);
}

/* As of a parked one: the same open that comes again is served. */
static void gate_wait_held_is_told_estale_once_after_the_swap(void **state)
{
	struct gate *g = *state;

	wait_through_a_hold(g, true, GATE_ANSWER_ESTALE);
	assert_int_equal(g->in_flight, 0);
	assert_int_equal(gate_wait(g, 7, 1), GATE_SERVE);
	gate_leave(g);
	assert_int_equal(gate_wait(g, 7, 1), GATE_ANSWER_ESTALE);
}

static void gate_init_goes_on_with_what_another_gate_has_told(void **state)
{
	struct gate *before = *state, after;

	gate_hold(before);
	gate_finish(before, true);
	assert_int_equal(enter(before, 7, 1, "a"), GATE_ANSWER_ESTALE);
	gate_init(&after, before->retries);
	after.state = GATE_SWAPPED;
	assert_int_equal(enter(&after, 7, 1, "a"), GATE_SERVE);
	gate_leave(&after);
	assert_int_equal(enter(&after, 7, 2, "a"), GATE_ANSWER_ESTALE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gate_enter_open_serves),
		TEST(gate_enter_held_parks_a_copy_in_order),
		TEST(gate_finish_refused_opens_again),
		TEST(gate_finish_swapped_answers_estale_once),
		TEST(gate_finish_swapped_serves_the_retry_of_a_parked_open),
		TEST(gate_steps_grow_with_begin_and_end),
		TEST(gate_finish_swapped_tells_threads_and_nodes_apart),
		TEST(gate_finish_swapped_ring_overflow_forgets_the_oldest),
		TEST(gate_init_goes_on_with_what_another_gate_has_told),
		TEST(gate_hold_with_threads_nothing_is_in_flight),
		TEST(gate_hold_waits_for_the_last_open),
		TEST(gate_wait_open_serves_and_is_in_flight),
		TEST(gate_wait_held_waits_and_is_served),
		TEST(gate_wait_held_is_told_estale_once_after_the_swap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
