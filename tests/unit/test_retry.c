// SPDX-License-Identifier: Apache-2.0
#include "fs/retry.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"

static const uint64_t MS = 1000 * 1000, NOW = 77 * 1000 * 1000;

static void retry_schedule_refused_for_good_is_not_made(void **state)
{
	const struct shared_failure failures[] = { { .error = EPERM },
						   { .error = EROFS },
						   { .error = EINVAL } };
	struct retry r = { 0 };

	(void)state;
	assert_false(retry_schedule(&r, failures, ARRAY_SIZE(failures), 0, NOW));
	assert_false(retry_schedule(&r, NULL, 0, 0, NOW));
	assert_int_equal(retry_timeout_ms(&r, NOW), -1);
	assert_false(retry_take(&r, UINT64_MAX));
}

static void retry_schedule_one_that_can_pass_is_enough(void **state)
{
	const struct shared_failure failures[] = { { .error = EPERM }, { .error = EDQUOT } };
	struct retry r = { 0 };

	(void)state;
	assert_true(retry_schedule(&r, failures, ARRAY_SIZE(failures), 0, NOW));
	assert_int_equal(retry_timeout_ms(&r, NOW), 5000);
	assert_false(retry_take(&r, NOW + 5000 * MS - 1));
	assert_int_equal(retry_timeout_ms(&r, NOW + 5000 * MS - 1), 1);
	assert_int_equal(retry_timeout_ms(&r, NOW + 6000 * MS), 0);
	assert_true(retry_take(&r, NOW + 5000 * MS));
	assert_false(retry_take(&r, NOW + 5000 * MS));
}

static void retry_schedule_delays_double_up_to_an_hour(void **state)
{
	const struct shared_failure failure = { .error = ENOSPC };
	struct retry r = { 0 };
	int last = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		int timeout;

		assert_true(retry_schedule(&r, &failure, 1, 0, NOW));
		timeout = retry_timeout_ms(&r, NOW);
		assert_int_equal(timeout, i == 0 ? 5000 : 2 * last < 3600000 ? 2 * last : 3600000);
		last = timeout;
	}
	assert_int_equal(last, 3600000);
	retry_forget(&r);
	assert_int_equal(retry_timeout_ms(&r, NOW), -1);
	assert_true(retry_schedule(&r, &failure, 1, 0, NOW));
	assert_int_equal(retry_timeout_ms(&r, NOW), 5000);
}

static void retry_schedule_long_walks_are_rare(void **state)
{
	const struct shared_failure failure = { .error = EIO };
	struct retry r = { 0 };

	(void)state;
	assert_true(retry_schedule(&r, &failure, 1, 1000, NOW));
	assert_int_equal(retry_timeout_ms(&r, NOW), 20000);
	/* Eight weeks: as long as poll(2) can wait at once. */
	assert_true(retry_schedule(&r, &failure, 1, 7ULL * 24 * 3600 * 1000, NOW));
	assert_int_equal(retry_timeout_ms(&r, NOW), INT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry_schedule_refused_for_good_is_not_made),
		cmocka_unit_test(retry_schedule_one_that_can_pass_is_enough),
		cmocka_unit_test(retry_schedule_delays_double_up_to_an_hour),
		cmocka_unit_test(retry_schedule_long_walks_are_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
