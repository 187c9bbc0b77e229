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

#include "plugins/payload.h"

static char error[256];

static int add(struct payload *p, const char *path)
{
	return payload_add(p, path, "CANARY", 6, 0644, "Secret a/s", error, sizeof(error));
}

static void payload_add_cleans_paths(void **state)
{
	AUTO(payload) *p = payload_new();

	(void)state;
	assert_int_equal(add(p, "./a//b/./c/"), 0);
	assert_string_equal(p->entries[0].path, "a/b/c");
	assert_int_equal(add(p, "a/..b"), 0);
	assert_int_equal(add(p, ".hidden"), 0);
	assert_int_equal(add(p, "..."), -EINVAL);
}

static void payload_add_bad_paths_are_refused(void **state)
{
	static const char *const bad[] = {
		"",	     ".",    "./",     "/",	"/etc/passwd", "..",  "../x",
		"a/../../x", "a/..", "..data", "..x/y", "./..data",    "//a", "..2026_11"
	};
	char name[300], path[5000];
	AUTO(payload) *p = payload_new();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(add(p, bad[i]), -EINVAL);
		assert_null(strstr(error, "CANARY"));
		assert_non_null(strstr(error, "Secret a/s"));
	}
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	assert_int_equal(add(p, name), -EINVAL);
	name[255] = '\0';
	assert_int_equal(add(p, name), 0);
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? '/' : 'p';
	path[4097] = '\0';
	assert_int_equal(add(p, path), -EINVAL);
	assert_int_equal(p->count, 1);
}

static void payload_seal_adds_directories_once(void **state)
{
	static const char *const wanted[] = { "a",     "a/b",	  "a/b/1", "a/b/2", "a/c",
					      "a/c/d", "a/c/d/3", "a-b",   "a.b" };
	AUTO(payload) *p = payload_new();

	(void)state;
	assert_int_equal(add(p, "a.b"), 0);
	assert_int_equal(add(p, "a/c/d/3"), 0);
	assert_int_equal(add(p, "a/b/2"), 0);
	assert_int_equal(add(p, "a-b"), 0);
	assert_int_equal(add(p, "a/b/1"), 0);
	assert_int_equal(payload_seal(p, error, sizeof(error)), 0);
	assert_int_equal(p->count, ARRAY_SIZE(wanted));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		assert_string_equal(p->entries[i].path, wanted[i]);
		assert_ptr_equal(payload_find(p, wanted[i]), &p->entries[i]);
	}
	assert_true(p->entries[0].is_dir && p->entries[1].is_dir && !p->entries[2].is_dir);
	assert_null(payload_find(p, "b"));
	assert_null(payload_find(p, "a/"));
}

static void payload_seal_conflicts_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		AUTO(payload) *p = payload_new();

		assert_int_equal(add(p, "x/y"), 0);
		assert_int_equal(payload_add(p,
					     i == 0 ? "x/y" :
					     i == 1 ? "x" :
						      "x/y/z",
					     "", 0, 0644, "ConfigMap a/c", error, sizeof(error)),
				 0);
		assert_int_equal(payload_seal(p, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, i == 2 ? "Secret a/s" : "ConfigMap a/c"));
		assert_null(strstr(error, "CANARY"));
	}
}

static void payload_key_is_valid_takes_what_kubernetes_takes(void **state)
{
	char key[300];

	(void)state;
	assert_true(payload_key_is_valid("tls.crt"));
	assert_true(payload_key_is_valid(".dockerconfigjson"));
	assert_true(payload_key_is_valid("A_b-9"));
	assert_false(payload_key_is_valid(""));
	assert_false(payload_key_is_valid("."));
	assert_false(payload_key_is_valid(".."));
	assert_false(payload_key_is_valid("..data"));
	assert_false(payload_key_is_valid("a/b"));
	assert_false(payload_key_is_valid("a b"));
	memset(key, 'k', sizeof(key));
	key[254] = '\0';
	assert_false(payload_key_is_valid(key));
	key[253] = '\0';
	assert_true(payload_key_is_valid(key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payload_add_cleans_paths),
		cmocka_unit_test(payload_add_bad_paths_are_refused),
		cmocka_unit_test(payload_seal_adds_directories_once),
		cmocka_unit_test(payload_seal_conflicts_are_refused),
		cmocka_unit_test(payload_key_is_valid_takes_what_kubernetes_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
