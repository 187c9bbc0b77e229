// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "fs/base/gid_map.h"

static void gid_map_has_ranges_are_honoured(void **state)
{
	const char *map = "         0       1000          1\n         5     100000         10\n";

	(void)state;
	assert_true(gid_map_has(map, 0));
	assert_false(gid_map_has(map, 1));
	assert_false(gid_map_has(map, 4));
	assert_true(gid_map_has(map, 5));
	assert_true(gid_map_has(map, 14));
	assert_false(gid_map_has(map, 15));
}

static void gid_map_has_whole_range_of_the_first_namespace(void **state)
{
	(void)state;
	assert_true(gid_map_has("0 0 4294967295\n", 4294967294U));
	assert_false(gid_map_has("", 0));
	assert_false(gid_map_has("garbage\n", 0));
}

static void gid_is_mapped_own_gid(void **state)
{
	(void)state;
	assert_true(gid_is_mapped(getgid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gid_map_has_ranges_are_honoured),
		cmocka_unit_test(gid_map_has_whole_range_of_the_first_namespace),
		cmocka_unit_test(gid_is_mapped_own_gid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
