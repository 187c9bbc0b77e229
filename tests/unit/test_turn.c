// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/turn.h"

enum {
	MANY = 200,
	CLOSE_NS = 1000,
	MISSED_NS = TURN_LOOK_NS + 1,
	FAR_NS = TURN_CLOSE_NS + 1,
	THREADS = 4,
	CALLS = 20,
	ROUNDS = 20000
};

struct fixture {
	struct turn turn;
	uint64_t now_ns;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	if (!f)
		return -1;
	f->now_ns = 1000000000;
	turn_init(&f->turn, true);
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static enum turn_how how_read(unsigned number, bool was_there)
{
	return number == 0 ? TURN_SLEPT : was_there ? TURN_WAS_THERE : TURN_LOOKED;
}

/* One request, @after_ns after the last was served. Returns the number of the turn that it was read in. */
static unsigned serve_one(struct fixture *f, uint64_t after_ns, bool is_awaited, bool was_there)
{
	unsigned number = turn_take(&f->turn);

	f->now_ns += after_ns;
	turn_give(&f->turn, number);
	turn_found(&f->turn, is_awaited, how_read(number, was_there), f->now_ns);
	turn_served(&f->turn, is_awaited, f->now_ns);
	return number;
}

static unsigned serve(struct fixture *f, unsigned count, uint64_t after_ns)
{
	unsigned number = 0;

	for (unsigned i = 0; i < count; i++)
		number = serve_one(f, after_ns, true, false);
	return number;
}

/* Returns whether times are quick; whose turn it is not any more. */
static bool is_quick(struct fixture *f)
{
	unsigned number = turn_take(&f->turn);

	turn_give(&f->turn, number);
	return number != 0;
}

static void take_slow_times_reads(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(serve(f, MANY, FAR_NS), 0);
	assert_false(is_quick(f));
}

static void found_close_requests_begins_quick_times(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(serve(f, 10, CLOSE_NS), 0);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
}

static void found_close_but_for_being_woken_begins_quick_times(void **state)
{
	struct fixture *f = *state;

	/* Not for long, if they come as late then. */
	assert_int_not_equal(serve(f, 40, TURN_CLOSE_NS), 0);
}

static void found_half_of_them_in_vain_stays_quick(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_not_equal(serve_one(f, i % 2 == 0 ? MISSED_NS : CLOSE_NS, true, false),
				     0);
}

static void found_mostly_in_vain_is_slow_for_a_while(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	serve(f, 10, MISSED_NS);
	assert_true(is_quick(f));
	for (unsigned i = 0; i < MANY && is_quick(f); i++)
		serve_one(f, MISSED_NS, true, false);
	assert_false(is_quick(f));
	assert_int_equal(serve(f, MANY, CLOSE_NS), 0);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
}

static void found_of_no_use_stays_slow(void **state)
{
	struct fixture *f = *state;

	turn_init(&f->turn, false);
	assert_int_equal(serve(f, MANY, CLOSE_NS), 0);
}

static void found_far_requests_end_quick_times(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	serve_one(f, FAR_NS, true, false);
	assert_true(is_quick(f));
	serve(f, 10, FAR_NS);
	assert_false(is_quick(f));
}

static void found_one_of_ten_far_stays_quick(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_not_equal(serve_one(f, i % 10 == 0 ? FAR_NS : CLOSE_NS, true, false), 0);
}

static void found_while_another_is_served_stays_slow(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(turn_take(&f->turn), 0);
	turn_give(&f->turn, 0);
	turn_found(&f->turn, true, TURN_SLEPT, f->now_ns);
	assert_int_equal(serve(f, MANY, CLOSE_NS), 0);
	turn_served(&f->turn, true, f->now_ns);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
}

static void found_that_was_there_ends_quick_times(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	for (unsigned i = 0; i < MANY / 10; i++)
		serve_one(f, CLOSE_NS, true, true);
	assert_false(is_quick(f));
}

static void found_behind_one_that_nobody_waits_for_stays_quick(void **state)
{
	struct fixture *f = *state;

	serve(f, MANY, CLOSE_NS);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_not_equal(serve_one(f, CLOSE_NS, false, true), 0);
		assert_int_not_equal(serve_one(f, CLOSE_NS, true, true), 0);
	}
}

static void found_late_by_who_did_not_look_stays_quick(void **state)
{
	struct fixture *f = *state;
	unsigned number;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	turn_keep(&f->turn, number);
	for (unsigned i = 0; i < MANY; i++) {
		f->now_ns += MISSED_NS;
		turn_found(&f->turn, true, TURN_SLEPT, f->now_ns);
		turn_served(&f->turn, true, f->now_ns);
		assert_true(turn_is_kept(&f->turn, number));
	}
}

/* Who keeps it may be waiting for what another would have to do. */
static void take_of_a_kept_turn_waits_until_nothing_comes(void **state)
{
	struct fixture *f = *state;
	unsigned number;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	turn_keep(&f->turn, number);
	assert_true(turn_is_kept(&f->turn, number));
	assert_int_equal(turn_take(&f->turn), TURN_LATE);
	assert_false(turn_is_kept(&f->turn, number));
	assert_int_equal(turn_take(&f->turn), 0);
	turn_give(&f->turn, 0);
	/* To give it back later takes nothing away from the next one. */
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
	number = turn_take(&f->turn);
	turn_keep(&f->turn, number);
	turn_give(&f->turn, number - 1);
	assert_true(turn_is_kept(&f->turn, number));
}

static unsigned join(pthread_t thread)
{
	void *number;

	pthread_join(thread, &number);
	return (unsigned)(uintptr_t)number;
}

static void *help_until_slow(void *argument)
{
	struct turn *t = argument;
	uintptr_t called = 0;
	unsigned what;

	while ((what = turn_take(t)) == TURN_CALLED || what == TURN_LATE)
		called += what == TURN_CALLED;
	turn_give(t, 0);
	return (void *)called;
}

/* Calls while others wait. Returns whether all went quickly enough: else times were slow in the middle of it. */
static bool call_all(struct fixture *f, unsigned *ret_called)
{
	pthread_t threads[THREADS];
	unsigned number, calls = 0;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	turn_keep(&f->turn, number);
	atomic_store(&f->turn.calls, false);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, help_until_slow, &f->turn);
	while (calls < CALLS && turn_is_kept(&f->turn, number)) {
		turn_call(&f->turn);
		while (atomic_load(&f->turn.calls) && turn_is_kept(&f->turn, number)) {
			turn_found(&f->turn, false, TURN_SLEPT, f->now_ns);
			turn_served(&f->turn, false, f->now_ns);
			sched_yield();
		}
		calls++;
	}
	turn_end(&f->turn);
	*ret_called = 0;
	for (unsigned i = 0; i < THREADS; i++)
		*ret_called += join(threads[i]);
	assert_true(*ret_called <= calls);
	return calls == CALLS;
}

/* Who waits helps once for each call, and who has called keeps his turn. */
static void call_of_who_keeps_it_is_for_one_of_those_who_wait(void **state)
{
	unsigned called = 0, tries = 0;

	while (!call_all(*state, &called))
		assert_true(tries++ < MANY);
	/* The last may have been in vain. */
	assert_true(called >= CALLS - 1);
}

static void keep_of_no_turn_keeps_nothing(void **state)
{
	struct fixture *f = *state;

	turn_keep(&f->turn, 1);
	assert_false(turn_is_kept(&f->turn, 1));
	assert_false(turn_is_kept(&f->turn, 0));
}

/* It sleeps in read(2): who looked would take what it is woken for. */
static void take_while_one_reads_waits_until_nothing_comes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(turn_take(&f->turn), 0);
	assert_int_equal(serve(f, 32, CLOSE_NS), 0);
	assert_int_equal(turn_take(&f->turn), 0);
	turn_give(&f->turn, 0);
	turn_give(&f->turn, 0);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
}

static void *take_and_read(void *argument)
{
	struct turn *t = argument;
	unsigned number = turn_take(t);

	turn_give(t, number);
	return (void *)(uintptr_t)number;
}

/* Nothing comes: it may be that the one with the turn can serve nothing else before another request is. */
static void take_while_it_is_anothers_ends_when_nothing_comes(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;
	unsigned number;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	assert_int_not_equal(number, 0);
	pthread_create(&thread, NULL, take_and_read, &f->turn);
	assert_int_equal(join(thread), 0);
	turn_give(&f->turn, number);
	assert_false(is_quick(f));
}

/* Its turn is over, and what it gives back is not that of the next one. */
static void missed_of_earlier_quick_times_leaves_the_turn(void **state)
{
	struct fixture *f = *state;
	unsigned number, next;
	pthread_t thread;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	turn_end(&f->turn);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), number);
	next = turn_take(&f->turn);
	assert_int_not_equal(next, 0);
	turn_give(&f->turn, number);
	pthread_create(&thread, NULL, take_and_read, &f->turn);
	assert_int_equal(join(thread), 0);
	turn_give(&f->turn, next);
}

struct follower {
	struct turn *turn;
	unsigned number;
	pid_t caller;
};

static void *wait_handed(void *argument)
{
	struct follower *follower = argument;

	follower->number = turn_wait_handed(follower->turn, &follower->caller);
	return NULL;
}

/* As soon as the follower waits. */
static void hand(struct fixture *f, unsigned number, pid_t caller)
{
	while (!turn_hand(&f->turn, number, caller))
		assert_true(turn_is_kept(&f->turn, number));
}

static void hand_gives_the_follower_the_turn_and_the_caller(void **state)
{
	struct fixture *f = *state;
	struct follower follower = { .turn = &f->turn };
	pthread_t thread;
	unsigned number;

	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	assert_false(turn_hand(&f->turn, number, 7)); /* nobody waits */
	assert_int_equal(pthread_create(&thread, NULL, wait_handed, &follower), 0);
	hand(f, number, 7);
	assert_false(turn_hand(&f->turn, number, 8)); /* it has one, or does not wait any more */
	pthread_join(thread, NULL);
	assert_int_equal(follower.number, number);
	assert_int_equal(follower.caller, 7);
	assert_true(turn_is_kept(&f->turn, number));
	assert_int_equal(turn_take(&f->turn), TURN_LATE);
	assert_false(turn_is_kept(&f->turn, number));
}

/* Makes times quick. Returns the number of the turn that is handed over. */
static unsigned hand_one(struct fixture *f)
{
	struct follower follower = { .turn = &f->turn };
	pthread_t thread;
	unsigned number;

	assert_int_equal(pthread_create(&thread, NULL, wait_handed, &follower), 0);
	serve(f, MANY, CLOSE_NS);
	number = turn_take(&f->turn);
	hand(f, number, 7);
	pthread_join(thread, NULL);
	assert_int_equal(follower.number, number);
	return number;
}

static void hand_of_no_turn_or_a_past_one_hands_nothing(void **state)
{
	struct fixture *f = *state;
	unsigned past;
	pid_t caller;

	serve(f, MANY, CLOSE_NS);
	past = turn_take(&f->turn);
	turn_end(&f->turn);
	assert_int_equal(turn_wait_handed(&f->turn, &caller), 0); /* of that end */
	assert_int_not_equal(hand_one(f), past);
	assert_false(turn_hand(&f->turn, past, 8));
	assert_false(turn_hand(&f->turn, 0, 8));
}

static void end_is_told_to_the_follower_once(void **state)
{
	struct fixture *f = *state;
	struct follower follower = { .turn = &f->turn, .number = 1 };
	pthread_t thread;

	turn_end(&f->turn);
	turn_end(&f->turn);
	assert_int_equal(turn_wait_handed(&f->turn, &follower.caller), 0);
	hand_one(f);
	assert_int_equal(pthread_create(&thread, NULL, wait_handed, &follower), 0);
	turn_end(&f->turn);
	pthread_join(thread, NULL);
	assert_int_equal(follower.number, 0);
	assert_int_equal(follower.caller, 0);
}

static atomic_bool follows;

static void *follow_until_told(void *argument)
{
	struct turn *t = argument;

	while (atomic_load(&follows)) {
		pid_t caller;
		unsigned number = turn_wait_handed(t, &caller);

		if (number != 0)
			turn_give(t, number);
	}
	return NULL;
}

/* What was handed over may be past before the follower comes to it: then it waits for the next one. */
static void hand_of_what_ends_at_once_is_followed_by_others(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;

	atomic_store(&follows, true);
	assert_int_equal(pthread_create(&thread, NULL, follow_until_told, &f->turn), 0);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned number = 0;

		while (number == 0)
			number = serve(f, MANY, CLOSE_NS);
		number = turn_take(&f->turn);
		hand(f, number, 7);
		if (i % 2 == 0)
			sched_yield();
		turn_end(&f->turn);
	}
	atomic_store(&follows, false);
	turn_end(&f->turn);
	pthread_join(thread, NULL);
}

static void *take_and_serve(void *argument)
{
	struct turn *t = argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned number = turn_take(t);

		turn_give(t, number);
		turn_found(t, i % 3 != 0, how_read(number, false), 0);
		turn_served(t, i % 3 != 0, 0);
		if (i % 500 == 0)
			turn_end(t);
	}
	return NULL;
}

static void take_by_many_all_go_on(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_and_serve, &f->turn);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	turn_end(&f->turn);
	assert_int_not_equal(serve(f, MANY, CLOSE_NS), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(take_slow_times_reads),
		TEST(found_close_requests_begins_quick_times),
		TEST(found_close_but_for_being_woken_begins_quick_times),
		TEST(found_half_of_them_in_vain_stays_quick),
		TEST(found_mostly_in_vain_is_slow_for_a_while),
		TEST(found_of_no_use_stays_slow),
		TEST(found_far_requests_end_quick_times),
		TEST(found_one_of_ten_far_stays_quick),
		TEST(found_while_another_is_served_stays_slow),
		TEST(found_that_was_there_ends_quick_times),
		TEST(found_behind_one_that_nobody_waits_for_stays_quick),
		TEST(found_late_by_who_did_not_look_stays_quick),
		TEST(take_of_a_kept_turn_waits_until_nothing_comes),
		TEST(call_of_who_keeps_it_is_for_one_of_those_who_wait),
		TEST(keep_of_no_turn_keeps_nothing),
		TEST(take_while_one_reads_waits_until_nothing_comes),
		TEST(take_while_it_is_anothers_ends_when_nothing_comes),
		TEST(missed_of_earlier_quick_times_leaves_the_turn),
		TEST(hand_gives_the_follower_the_turn_and_the_caller),
		TEST(hand_of_no_turn_or_a_past_one_hands_nothing),
		TEST(end_is_told_to_the_follower_once),
		TEST(hand_of_what_ends_at_once_is_followed_by_others),
		TEST(take_by_many_all_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#undef TEST
}
