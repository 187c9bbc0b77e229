// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fs/forgets.h"

enum { NOW_NS = 1000000000, ROUNDS = 100000 };

static int set_up(void **state)
{
	struct forgets *f = malloc(sizeof(*f));

	*state = f;
	if (!f)
		return -1;
	forgets_init(f);
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static bool put_one(struct forgets *f, uint64_t node)
{
	return forgets_put(f, &(struct request_forget){ node, node + 1 }, 1, NOW_NS);
}

static void forgets_take_of_nothing_is_nothing(void **state)
{
	struct request_forget list[FORGETS_BATCH];

	assert_true(forgets_are_none(*state));
	assert_int_equal(forgets_take(*state, list), 0);
	assert_false(forgets_are_due(*state, UINT64_MAX));
	assert_true(put_one(*state, 1));
	assert_false(forgets_are_none(*state));
}

/* More than once around the ring, which is never empty. */
static void forgets_take_gives_each_once_in_order(void **state)
{
	struct request_forget list[FORGETS_BATCH];
	uint64_t put = 0, taken = 0;

	while (taken < 3 * FORGETS_MAX) {
		while (put < taken + 2 * FORGETS_BATCH)
			assert_true(put_one(*state, put++));
		assert_int_equal(forgets_take(*state, list), FORGETS_BATCH);
		for (size_t i = 0; i < FORGETS_BATCH; i++, taken++) {
			assert_int_equal(list[i].node, taken);
			assert_int_equal(list[i].lookups, taken + 1);
		}
	}
}

static void forgets_put_without_room_is_all_the_callers(void **state)
{
	struct request_forget some[FORGETS_BATCH] = { { 0 } }, list[FORGETS_BATCH];
	uint64_t count = 0;

	while (put_one(*state, count))
		count++;
	assert_int_equal(count, FORGETS_MAX);
	assert_int_equal(forgets_take(*state, list), FORGETS_BATCH);
	assert_true(put_one(*state, count));
	assert_false(forgets_put(*state, some, FORGETS_BATCH, NOW_NS));
	assert_true(forgets_put(*state, some, FORGETS_BATCH - 1, NOW_NS));
	assert_false(put_one(*state, 0));
	for (count = 0; forgets_take(*state, list) > 0; count++)
		assert_true(count < FORGETS_MAX / FORGETS_BATCH);
	assert_int_equal(count, FORGETS_MAX / FORGETS_BATCH);
}

static void forgets_are_due_when_there_is_hardly_room(void **state)
{
	for (uint64_t i = 0; i < FORGETS_MAX - FORGETS_BATCH; i++)
		assert_true(put_one(*state, i));
	assert_false(forgets_are_due(*state, NOW_NS));
	assert_true(put_one(*state, 0));
	assert_true(forgets_are_due(*state, NOW_NS));
}

/* By the first, as long as there is something. */
static void forgets_are_due_after_a_while(void **state)
{
	struct request_forget one = { 1, 1 }, list[FORGETS_BATCH];

	assert_true(forgets_put(*state, &one, 1, NOW_NS));
	assert_true(forgets_put(*state, &one, 1, NOW_NS + FORGETS_DUE_NS));
	assert_false(forgets_are_due(*state, NOW_NS + FORGETS_DUE_NS));
	assert_true(forgets_are_due(*state, NOW_NS + FORGETS_DUE_NS + 1));
	/* The clock of another thread may have been read before. */
	assert_false(forgets_are_due(*state, NOW_NS - 1));
	assert_int_equal(forgets_take(*state, list), 2);
	assert_false(forgets_are_due(*state, NOW_NS + FORGETS_DUE_NS + 1));
	assert_true(forgets_put(*state, &one, 1, NOW_NS + FORGETS_DUE_NS));
	assert_false(forgets_are_due(*state, NOW_NS + FORGETS_DUE_NS + 1));
}

static void *put_many(void *f)
{
	for (uint64_t i = 1; i <= ROUNDS;)
		i += put_one(f, i);
	return NULL;
}

static void forgets_put_beside_take_loses_none(void **state)
{
	struct request_forget list[FORGETS_BATCH];
	uint64_t count = 0, sum = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, put_many, *state), 0);
	while (count < ROUNDS) {
		size_t n = forgets_take(*state, list);

		for (size_t i = 0; i < n; i++)
			sum += list[i].node;
		count += n;
	}
	pthread_join(thread, NULL);
	assert_int_equal(sum, (uint64_t)ROUNDS * (ROUNDS + 1) / 2);
	assert_int_equal(forgets_take(*state, list), 0);
}

static bool leaves_room(uint64_t blocks, uint64_t block_size, uint64_t files, uint64_t free_files)
{
	struct statvfs st = {
		.f_bavail = blocks, .f_frsize = block_size, .f_files = files, .f_favail = free_files
	};

	return forgets_leave_room(&st);
}

static void forgets_leave_room_for_all_that_may_lie_there(void **state)
{
	(void)state;
	assert_true(leaves_room(1 << 20, 4096, 1000000, 100000));
	assert_false(leaves_room(1 << 10, 4096, 1000000, 100000));
	assert_true(leaves_room(1 << 10, 1 << 20, 1000000, 100000));
	assert_false(leaves_room(1 << 20, 4096, 1000000, 2 * FORGETS_MAX));
	/* No inodes are counted there. */
	assert_true(leaves_room(1 << 20, 4096, 0, 0));
	assert_true(leaves_room(UINT64_MAX / 4096, 4096, 0, 0));
}

static void forgets_have_room_where_nothing_is_known_is_false(void **state)
{
	assert_false(forgets_have_room(*state, -1, NOW_NS));
	assert_false(forgets_have_room(*state, -1, NOW_NS + FORGETS_ROOM_NS + 1));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(forgets_take_of_nothing_is_nothing),
		TEST(forgets_take_gives_each_once_in_order),
		TEST(forgets_put_without_room_is_all_the_callers),
		TEST(forgets_are_due_when_there_is_hardly_room),
		TEST(forgets_are_due_after_a_while),
		TEST(forgets_put_beside_take_loses_none),
		TEST(forgets_leave_room_for_all_that_may_lie_there),
		TEST(forgets_have_room_where_nothing_is_known_is_false),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
