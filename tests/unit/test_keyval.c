// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/keyval.h"

static int set_up(void **state)
{
	*state = malloc(KEYVAL_MAX);
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void keyval_add_is_read_back(void **state)
{
	struct keyval_writer w;
	char value[64];

	keyval_begin(&w, *state, "status");
	keyval_add(&w, "pid", "%d", 42);
	keyval_add(&w, "reason", "%s", "a=b c");
	keyval_add(&w, "empty", "%s", "");
	assert_false(w.overflow);
	assert_string_equal(*state, "status\npid=42\nreason=a=b c\nempty=\n");
	assert_int_equal(w.len, strlen(*state));
	assert_int_equal(keyval_get(*state, "pid", value, sizeof(value)), 2);
	assert_string_equal(value, "42");
	assert_int_equal(keyval_get(*state, "reason", value, sizeof(value)), 5);
	assert_string_equal(value, "a=b c");
	assert_int_equal(keyval_get(*state, "empty", value, sizeof(value)), 0);
	assert_string_equal(value, "");
}

static void keyval_get_absent_is_enoent(void **state)
{
	char value[8] = "same";

	(void)state;
	assert_int_equal(keyval_get("status\npid=1\n", "pi", value, sizeof(value)), -ENOENT);
	assert_int_equal(keyval_get("status\npid=1\n", "pidd", value, sizeof(value)), -ENOENT);
	assert_int_equal(keyval_get("status\npid=1\n", "status", value, sizeof(value)), -ENOENT);
	assert_int_equal(keyval_get("status", "pid", value, sizeof(value)), -ENOENT);
	assert_int_equal(keyval_get("", "pid", value, sizeof(value)), -ENOENT);
	assert_int_equal(keyval_get("pid=1\n", "pid", value, sizeof(value)),
			 -ENOENT); /* the verb */
	assert_string_equal(value, "same");
}

static void keyval_get_too_long_is_enobufs(void **state)
{
	char value[4] = "abc";

	(void)state;
	assert_int_equal(keyval_get("v\nk=1234\n", "k", value, sizeof(value)), -ENOBUFS);
	assert_string_equal(value, "abc");
	assert_int_equal(keyval_get("v\nk=123\n", "k", value, sizeof(value)), 3);
}

static void keyval_get_first_and_unended_lines(void **state)
{
	char value[8];

	(void)state;
	assert_int_equal(keyval_get("v\nk=1\nk=2\n", "k", value, sizeof(value)), 1);
	assert_string_equal(value, "1");
	assert_int_equal(keyval_get("v\na=1\nk=9", "k", value, sizeof(value)), 1);
	assert_string_equal(value, "9");
	assert_int_equal(keyval_get("v\n\n\nk=3\n", "k", value, sizeof(value)), 1);
}

static void keyval_add_overflow_keeps_whole_lines(void **state)
{
	struct keyval_writer w;
	char *text = *state;
	size_t lines = 0;

	keyval_begin(&w, text, "v");
	while (!w.overflow && lines < 100000) {
		keyval_add(&w, "key", "%s", "0123456789");
		lines++;
	}
	assert_true(w.overflow);
	assert_true(strlen(text) < KEYVAL_MAX);
	assert_int_equal(text[strlen(text) - 1], '\n');
	keyval_add(&w, "k", "%s", "1");
	assert_true(w.overflow);
	assert_int_equal(strlen(text), w.len);
}

static void keyval_add_every_remaining_room_is_safe(void **state)
{
	for (int room = 1; room < 40; room++) {
		struct keyval_writer w;
		char *text = *state;

		keyval_begin(&w, text, "v");
		keyval_add(&w, "fill", "%*s", KEYVAL_MAX - 8 - room, "");
		assert_false(w.overflow);
		keyval_add(&w, "key", "%s", "0123456789");
		assert_true(strlen(text) < KEYVAL_MAX);
		assert_int_equal(text[strlen(text) - 1], '\n');
	}
}

static void keyval_verb_is_whole_first_line(void **state)
{
	(void)state;
	assert_true(keyval_verb_is("status\nk=v\n", "status"));
	assert_true(keyval_verb_is("status", "status"));
	assert_false(keyval_verb_is("status2\n", "status"));
	assert_false(keyval_verb_is("stat\n", "status"));
	assert_false(keyval_verb_is("", "status"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keyval_add_is_read_back),
		TEST(keyval_get_absent_is_enoent),
		TEST(keyval_get_too_long_is_enobufs),
		TEST(keyval_get_first_and_unended_lines),
		TEST(keyval_add_overflow_keeps_whole_lines),
		TEST(keyval_add_every_remaining_room_is_safe),
		TEST(keyval_verb_is_whole_first_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
