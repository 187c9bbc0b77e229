// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/id_map.h"

static void id_map_down_ranges_are_honoured(void **state)
{
	struct id_map map;

	(void)state;
	assert_int_equal(id_map_parse("         0     100000       1000\n 5000 7 2", &map), 0);
	assert_int_equal(map.count, 2);
	assert_int_equal(id_map_down(&map, 0), 100000);
	assert_int_equal(id_map_down(&map, 999), 100999);
	assert_int_equal(id_map_down(&map, 1000), ID_NONE);
	assert_int_equal(id_map_down(&map, 5001), 8);
	assert_int_equal(id_map_down(&map, 5002), ID_NONE);
	assert_int_equal(id_map_down(&map, ID_NONE), ID_NONE);
}

static void id_map_has_lower_ranges_are_honoured(void **state)
{
	struct id_map map;

	(void)state;
	assert_int_equal(id_map_parse("0 100000 1000\n5000 7 2\n", &map), 0);
	assert_true(id_map_has_lower(&map, 100000));
	assert_true(id_map_has_lower(&map, 100999));
	assert_false(id_map_has_lower(&map, 101000));
	assert_false(id_map_has_lower(&map, 99999));
	assert_true(id_map_has_lower(&map, 8));
	assert_false(id_map_has_lower(&map, 5000));
	assert_false(id_map_has_lower(&map, ID_NONE));
}

static void id_map_parse_whole_range_is_identity(void **state)
{
	struct id_map map, identity;

	(void)state;
	id_map_identity(&identity);
	assert_int_equal(id_map_parse("         0          0 4294967295\n", &map), 0);
	assert_int_equal(map.count, identity.count);
	assert_memory_equal(map.ranges, identity.ranges, sizeof(map.ranges[0]));
	assert_int_equal(id_map_down(&map, 4294967294U), 4294967294U);
	assert_int_equal(id_map_down(&map, ID_NONE), ID_NONE);
	assert_false(id_map_has_lower(&map, ID_NONE));
}

static void id_map_parse_nothing_maps_nothing(void **state)
{
	struct id_map map;

	(void)state;
	assert_int_equal(id_map_parse("", &map), 0);
	assert_int_equal(id_map_down(&map, 0), ID_NONE);
	assert_false(id_map_has_lower(&map, 0));
}

static void id_map_parse_what_is_no_map_is_refused(void **state)
{
	static const char *const texts[] = {
		"garbage",
		"0 1",
		"0 1 2 3",
		"0 1 -2",
		"\n",
		"0 1 4294967296",
		"2 0 4294967294",
		"0 2 4294967294",
		"4294967295 0 1",
		"0\n1\n2\n",
	};
	struct id_map map;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(id_map_parse(texts[i], &map), -EINVAL);
}

static void id_map_parse_too_many_ranges_is_refused(void **state)
{
	char text[(ID_RANGES_MAX + 1) * 16] = "";
	struct id_map map;
	size_t len = 0;

	(void)state;
	for (int i = 0; i < ID_RANGES_MAX; i++)
		len += (size_t)sprintf(text + len, "%d %d 1\n", i, i);
	assert_int_equal(id_map_parse(text, &map), 0);
	assert_int_equal(id_map_down(&map, ID_RANGES_MAX - 1), ID_RANGES_MAX - 1);
	strcpy(text + len, "999 999 1\n");
	assert_int_equal(id_map_parse(text, &map), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(id_map_down_ranges_are_honoured),
		cmocka_unit_test(id_map_has_lower_ranges_are_honoured),
		cmocka_unit_test(id_map_parse_whole_range_is_identity),
		cmocka_unit_test(id_map_parse_nothing_maps_nothing),
		cmocka_unit_test(id_map_parse_what_is_no_map_is_refused),
		cmocka_unit_test(id_map_parse_too_many_ranges_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
