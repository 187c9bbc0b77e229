// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

static const char *const not_numbers[] = { "",	 " ",  "-1",  "+1",  " 1",  "1 ",      "0x10",
					   "1a", "1.", "1e3", "\t1", "1\n", "\xd9\xa1" };

static void parse_u64_numbers_are_read(void **state)
{
	uint64_t value = 7;

	(void)state;
	assert_int_equal(parse_u64("0", &value), 0);
	assert_true(value == 0);
	assert_int_equal(parse_u64("007", &value), 0);
	assert_true(value == 7);
	assert_int_equal(parse_u64("18446744073709551615", &value), 0);
	assert_true(value == UINT64_MAX);
}

static void parse_u64_failure_writes_nothing(void **state)
{
	uint64_t value = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(not_numbers); i++)
		assert_int_equal(parse_u64(not_numbers[i], &value), -EINVAL);
	assert_int_equal(parse_u64("18446744073709551616", &value), -ERANGE);
	assert_int_equal(parse_u64("99999999999999999999999", &value), -ERANGE);
	assert_true(value == 7);
}

static void parse_u32_bounds(void **state)
{
	uint32_t value = 7;

	(void)state;
	assert_int_equal(parse_u32("4294967296", &value), -ERANGE);
	assert_int_equal(parse_u32("-1", &value), -EINVAL);
	assert_true(value == 7);
	assert_int_equal(parse_u32("4294967295", &value), 0);
	assert_true(value == UINT32_MAX);
}

static void parse_gid_unset_is_refused(void **state)
{
	gid_t gid = 7;

	(void)state;
	assert_int_equal(parse_gid("4294967295", &gid), -ERANGE);
	assert_int_equal(parse_gid("-1", &gid), -EINVAL);
	assert_int_equal(parse_gid("users", &gid), -EINVAL);
	assert_true(gid == 7);
	assert_int_equal(parse_gid("4294967294", &gid), 0);
	assert_true(gid == 4294967294U);
	assert_int_equal(parse_gid("0", &gid), 0);
	assert_true(gid == 0);
}

static void parse_size_every_unit_is_known(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },
		{ "12", 12 },
		{ "1k", 1000 },
		{ "1M", 1000000 },
		{ "1G", 1000000000 },
		{ "1T", 1000000000000 },
		{ "1P", 1000000000000000 },
		{ "18E", 18000000000000000000ULL },
		{ "1Ki", 1024 },
		{ "64Mi", 64ULL << 20 },
		{ "3Gi", 3ULL << 30 },
		{ "1Ti", 1ULL << 40 },
		{ "1Pi", 1ULL << 50 },
		{ "15Ei", 15ULL << 60 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 7;

		assert_int_equal(parse_size(cases[i].text, &bytes), 0);
		assert_true(bytes == cases[i].bytes);
	}
}

static void parse_size_failure_writes_nothing(void **state)
{
	static const char *const wrong[] = { "",    "Ki",  "1K",  "1ki", "1KiB", "1 Ki",
					     "1.5", "-1k", "1kk", "1m",	 "0x1k" };
	uint64_t bytes = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(parse_size(wrong[i], &bytes), -EINVAL);
	assert_int_equal(parse_size("16Ei", &bytes), -ERANGE);
	assert_int_equal(parse_size("19E", &bytes), -ERANGE);
	assert_int_equal(parse_size("18014398509481984Ki", &bytes), -ERANGE);
	assert_true(bytes == 7);
}

static void parse_duration_units(void **state)
{
	uint64_t ms = 7;

	(void)state;
	assert_int_equal(parse_duration("50", 1, &ms), 0);
	assert_true(ms == 50);
	assert_int_equal(parse_duration("2", 1000, &ms), 0);
	assert_true(ms == 2000);
	assert_int_equal(parse_duration("50ms", 1000, &ms), 0);
	assert_true(ms == 50);
	assert_int_equal(parse_duration("2s", 1, &ms), 0);
	assert_true(ms == 2000);
	assert_int_equal(parse_duration("3m", 1, &ms), 0);
	assert_true(ms == 180000);
	assert_int_equal(parse_duration("1h", 1, &ms), 0);
	assert_true(ms == 3600000);
	assert_int_equal(parse_duration("1d", 1, &ms), -EINVAL);
	assert_int_equal(parse_duration("", 1, &ms), -EINVAL);
	assert_int_equal(parse_duration("s", 1, &ms), -EINVAL);
	assert_int_equal(parse_duration("18446744073709551615h", 1, &ms), -ERANGE);
	assert_int_equal(parse_duration("18446744073709551615", 2, &ms), -ERANGE);
	assert_true(ms == 3600000);
}

static void parse_bool_words(void **state)
{
	static const char *const yes[] = { "yes", "true", "1" }, *const no[] = { "no", "false",
										 "0" };
	static const char *const wrong[] = { "", "Yes", "on", "y", "2", "true " };
	bool value = false;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		assert_int_equal(parse_bool(yes[i], &value), 0);
		assert_true(value);
		assert_int_equal(parse_bool(no[i], &value), 0);
		assert_false(value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(parse_bool(wrong[i], &value), -EINVAL);
}

static void parse_next_u32_goes_through_a_list(void **state)
{
	const char *text = " 1\t4294967295 4294967296 99999999999999999999  07x";
	uint32_t value = 9;

	(void)state;
	assert_int_equal(parse_next_u32(&text, &value), 0);
	assert_int_equal(value, 1);
	assert_int_equal(parse_next_u32(&text, &value), 0);
	assert_int_equal(value, UINT32_MAX);
	assert_int_equal(parse_next_u32(&text, &value), -ERANGE);
	assert_int_equal(parse_next_u32(&text, &value), -ERANGE);
	assert_int_equal(value, UINT32_MAX);
	assert_int_equal(parse_next_u32(&text, &value), 0);
	assert_int_equal(value, 7);
	assert_string_equal(text, "x");
	assert_int_equal(parse_next_u32(&text, &value), -EINVAL);
	assert_string_equal(text, "x");
}

static void parse_hex_round_trip(void **state)
{
	static const unsigned char bytes[] = { 0x00, 0x0f, 0xf0, 0xff, 0xa5 };
	unsigned char got[sizeof(bytes)] = { 0 };
	char text[2 * sizeof(bytes) + 1];

	(void)state;
	format_hex(bytes, sizeof(bytes), text);
	assert_string_equal(text, "000ff0ffa5");
	assert_int_equal(parse_hex(text, got, sizeof(got)), 0);
	assert_memory_equal(got, bytes, sizeof(bytes));
	assert_int_equal(parse_hex("000FF0FFA5", got, sizeof(got)), -EINVAL);
	assert_int_equal(parse_hex("000ff0ffa", got, sizeof(got)), -EINVAL);
	assert_int_equal(parse_hex("000ff0ffa5a5", got, sizeof(got)), -EINVAL);
	assert_int_equal(parse_hex("000ff0ffag", got, sizeof(got)), -EINVAL);
	assert_int_equal(parse_hex("", got, 0), 0);
}

static void volume_id_is_valid_shape(void **state)
{
	static const char *const good[] = { "a", "0", "A.b_c-9", "a..", "pvc-1234" };
	static const char *const bad[] = { "",	  ".",	 "..",	"-a",	"_a",	"a/b",
					   "a b", "a\n", "a:b", "\xc3", "a\xc3" };
	char longest[VOLUME_ID_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(volume_id_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(volume_id_is_valid(bad[i]));
	memset(longest, 'a', sizeof(longest));
	longest[VOLUME_ID_MAX + 1] = '\0';
	assert_false(volume_id_is_valid(longest));
	longest[VOLUME_ID_MAX] = '\0';
	assert_true(volume_id_is_valid(longest));
}

static int evaluations;

static char **counted(char **at)
{
	evaluations++;
	return at;
}

static void take_ptr_argument_is_evaluated_once(void **state)
{
	char text[] = "x", *pointer = text;

	(void)state;
	assert_ptr_equal(take_ptr(counted(&pointer)), text);
	assert_null(pointer);
	assert_int_equal(evaluations, 1);
}

static void cleanup_fd_keeps_errno(void **state)
{
	int fd = -1;

	(void)state;
	errno = ENOTEMPTY;
	cleanup_fd(&fd);
	fd = 1 << 20;
	cleanup_fd(&fd);
	assert_int_equal(errno, ENOTEMPTY);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_u64_numbers_are_read),
		cmocka_unit_test(parse_u64_failure_writes_nothing),
		cmocka_unit_test(parse_u32_bounds),
		cmocka_unit_test(parse_gid_unset_is_refused),
		cmocka_unit_test(parse_size_every_unit_is_known),
		cmocka_unit_test(parse_size_failure_writes_nothing),
		cmocka_unit_test(parse_duration_units),
		cmocka_unit_test(parse_bool_words),
		cmocka_unit_test(parse_next_u32_goes_through_a_list),
		cmocka_unit_test(parse_hex_round_trip),
		cmocka_unit_test(volume_id_is_valid_shape),
		cmocka_unit_test(take_ptr_argument_is_evaluated_once),
		cmocka_unit_test(cleanup_fd_keeps_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
