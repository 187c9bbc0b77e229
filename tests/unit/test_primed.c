// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fs/primed.h"

enum { DIR = 7, OTHER = 8, OFFSET = 4096, NOW_MS = 1000000 };

static int set_up(void **state)
{
	struct primed *p = calloc(1, sizeof(*p));

	*state = p;
	if (!p)
		return -1;
	primed_init(p, 1.0);
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void test_nothing_was_told(void **state)
{
	assert_false(primed_is_told(*state, DIR, 0, NOW_MS));
	/* As soon after the start of the machine as there are no half seconds. */
	assert_false(primed_is_told(*state, DIR, 0, 10));
}

static void test_a_part_is_told(void **state)
{
	primed_note(*state, DIR, OFFSET, NOW_MS);
	assert_true(primed_is_told(*state, DIR, OFFSET, NOW_MS));
	assert_true(primed_is_told(*state, DIR, OFFSET, NOW_MS + 499));
	assert_false(primed_is_told(*state, DIR, 0, NOW_MS));
	assert_false(primed_is_told(*state, OTHER, OFFSET, NOW_MS));
}

static void test_half_the_time_is_left(void **state)
{
	primed_note(*state, DIR, OFFSET, NOW_MS);
	assert_false(primed_is_told(*state, DIR, OFFSET, NOW_MS + 500));
	/* By who began to ask before it was told. */
	assert_false(primed_is_told(*state, DIR, OFFSET, NOW_MS - 1));
}

static void test_a_listing_is_as_old_as_its_first_part(void **state)
{
	assert_true(primed_age_ms(*state, DIR, NOW_MS) == UINT64_MAX);
	primed_note(*state, DIR, 0, NOW_MS);
	primed_note(*state, DIR, OFFSET, NOW_MS + 100);
	primed_note(*state, OTHER, 0, NOW_MS + 200);
	assert_int_equal(primed_age_ms(*state, DIR, NOW_MS + 1500), 1500);
	primed_note(*state, DIR, 0, NOW_MS + 1600);
	assert_int_equal(primed_age_ms(*state, DIR, NOW_MS + 1601), 1);
}

static void test_no_time_is_no_time(void **state)
{
	primed_init(*state, 0);
	primed_note(*state, DIR, OFFSET, NOW_MS);
	assert_false(primed_is_told(*state, DIR, OFFSET, NOW_MS));
}

static void test_what_is_forgotten_is_told_again(void **state)
{
	struct primed *p = *state;

	primed_note_forgets(p, 1000);
	primed_note(p, DIR, OFFSET, NOW_MS);
	primed_note_forgets(p, PRIMED_FORGETS_MAX - 1);
	assert_true(primed_is_told(p, DIR, OFFSET, NOW_MS));
	primed_note_forgets(p, 1);
	assert_false(primed_is_told(p, DIR, OFFSET, NOW_MS));
}

static void test_many_parts_never_mix(void **state)
{
	unsigned told = 0;

	for (unsigned i = 1; i <= 2 * PRIMED_MAX; i++)
		primed_note(*state, i, 0, NOW_MS);
	for (unsigned i = 1; i <= 4 * PRIMED_MAX; i++) {
		bool is_told = primed_is_told(*state, i, 0, NOW_MS);

		assert_true(!is_told || i <= 2 * PRIMED_MAX);
		told += is_told;
	}
	assert_in_range(told, PRIMED_MAX / 2, PRIMED_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_was_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_part_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_half_the_time_is_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_listing_is_as_old_as_its_first_part, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_no_time_is_no_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_forgotten_is_told_again, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_many_parts_never_mix, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
