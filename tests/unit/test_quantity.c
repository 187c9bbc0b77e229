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

#include "fs/base/cleanup.h"
#include "plugins/quantity.h"

static uint64_t value_of(const char *text, unsigned per_unit)
{
	uint64_t value = 0;

	assert_int_equal(quantity_parse(text, per_unit, &value), 0);
	return value;
}

/* Forms and values of Kubernetes' documentation, Resource units. */
static void quantity_parse_documented_forms(void **state)
{
	(void)state;
	assert_int_equal(value_of("0.1", 1000), 100);
	assert_int_equal(value_of("100m", 1000), 100);
	assert_int_equal(value_of("128974848", 1), 128974848);
	assert_int_equal(value_of("129e6", 1), 129000000);
	assert_int_equal(value_of("129M", 1), 129000000);
	assert_int_equal(value_of("128974848000m", 1), 128974848);
	assert_int_equal(value_of("123Mi", 1), 128974848);
	assert_int_equal(value_of("400m", 1), 1);
	assert_int_equal(value_of("64Mi", 1), 67108864);
	assert_int_equal(value_of("250m", 1000), 250);
}

static void quantity_parse_rounds_up(void **state)
{
	(void)state;
	assert_int_equal(value_of("1n", 1), 1);
	assert_int_equal(value_of("1u", 1000), 1);
	assert_int_equal(value_of("0.0000000001", 1), 1);
	assert_int_equal(value_of("1.5", 1), 2);
	assert_int_equal(value_of("1.5Gi", 1), 1610612736);
	assert_int_equal(value_of("0.5Ki", 1), 512);
	assert_int_equal(value_of(".5", 1000), 500);
	assert_int_equal(value_of("5.", 1), 5);
	assert_int_equal(value_of("0", 1000), 0);
	assert_int_equal(value_of("1e-3", 1000), 1);
	assert_int_equal(value_of("1E3", 1), 1000);
	assert_int_equal(value_of("0e99999", 1), 0);
	assert_int_equal(value_of("1e-99999", 1), 1);
}

static void quantity_parse_limits(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(value_of("1E", 1), 1000000000000000000);
	assert_int_equal(value_of("7Ei", 1), 8070450532247928832);
	assert_int_equal(value_of("9223372036854775807", 1), INT64_MAX);
	assert_int_equal(quantity_parse("9223372036854775808", 1, &value), -ERANGE);
	assert_int_equal(quantity_parse("9223372036854775807", 1000, &value), -ERANGE);
	assert_int_equal(quantity_parse("8Ei", 1, &value), -ERANGE);
	assert_int_equal(quantity_parse("1e19", 1, &value), -ERANGE);
	assert_int_equal(quantity_parse("99999999999999999999999999999999999999999", 1, &value),
			 -ERANGE);
}

static void quantity_parse_bad_is_refused(void **state)
{
	static const char *const bad[] = {
		"",   ".",   "m",  "-1",  "+1",	   "1 ",  " 1",	   "1mi",
		"1K", "1ki", "1e", "1e-", "1.2.3", "0x1", "1e1.5", "1Mi1"
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(quantity_parse(bad[i], 1, &value), -EINVAL);
}

static void quantity_of_json_takes_numbers(void **state)
{
	json_t *value = json_integer(2), *real = json_real(0.5), *negative = json_integer(-2);
	uint64_t out = 0;

	(void)state;
	assert_int_equal(quantity_of_json(value, 1000, &out), 0);
	assert_int_equal(out, 2000);
	assert_int_equal(quantity_of_json(real, 1000, &out), 0);
	assert_int_equal(out, 500);
	assert_int_equal(quantity_of_json(negative, 1, &out), -EINVAL);
	assert_int_equal(quantity_of_json(json_true(), 1, &out), -EINVAL);
	json_decref(value);
	json_decref(real);
	json_decref(negative);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantity_parse_documented_forms),
		cmocka_unit_test(quantity_parse_rounds_up),
		cmocka_unit_test(quantity_parse_limits),
		cmocka_unit_test(quantity_parse_bad_is_refused),
		cmocka_unit_test(quantity_of_json_takes_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
