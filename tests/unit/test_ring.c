// SPDX-License-Identifier: Apache-2.0
#include "fs/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 63, QUEUES_MAX = 300 };

static void ring_threads_two_a_queue_as_long_as_there_can_be(void **state)
{
	(void)state;
	assert_int_equal(ring_threads(1, MOST), 2);
	assert_int_equal(ring_threads(2, MOST), 4);
	assert_int_equal(ring_threads(31, MOST), 62);
	assert_int_equal(ring_threads(32, MOST), 32);
	assert_int_equal(ring_threads(63, MOST), 63);
	assert_int_equal(ring_threads(64, MOST), 63);
	assert_int_equal(ring_threads(4096, MOST), 63);
}

/* A queue that nobody serves would make its callers wait for ever. */
static void ring_serves_every_queue_has_its_threads(void **state)
{
	(void)state;
	for (unsigned queues = 1; queues <= QUEUES_MAX; queues++) {
		unsigned threads = ring_threads(queues, MOST);
		unsigned wanted = 2 * queues <= MOST ? 2 : 1;

		for (unsigned queue = 0; queue < queues; queue++) {
			unsigned serving = 0;

			for (unsigned thread = 0; thread < threads; thread++)
				serving += ring_serves(thread, threads, queue, queues);
			assert_int_equal(serving, wanted);
		}
	}
}

/* So one that waits for the disk keeps nobody on another processor. */
static void ring_serves_one_queue_where_there_are_threads_enough(void **state)
{
	(void)state;
	for (unsigned queues = 1; queues <= MOST; queues++) {
		unsigned threads = ring_threads(queues, MOST);

		for (unsigned thread = 0; thread < threads; thread++) {
			unsigned served = 0;

			for (unsigned queue = 0; queue < queues; queue++)
				served += ring_serves(thread, threads, queue, queues);
			assert_int_equal(served, 1);
		}
	}
}

static void ring_queues_is_the_number_of_processors(void **state)
{
	unsigned queues = 0;

	(void)state;
	assert_int_equal(ring_queues(&queues), 0);
	assert_true(queues >= (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
}

static void ring_close_nothing_is_fine(void **state)
{
	(void)state;
	ring_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_threads_two_a_queue_as_long_as_there_can_be),
		cmocka_unit_test(ring_serves_every_queue_has_its_threads),
		cmocka_unit_test(ring_serves_one_queue_where_there_are_threads_enough),
		cmocka_unit_test(ring_queues_is_the_number_of_processors),
		cmocka_unit_test(ring_close_nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
