// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/exclude.h"

static struct exclude *make(const char *pattern)
{
	struct exclude *ex = exclude_new();

	assert_non_null(ex);
	assert_int_equal(exclude_add(ex, pattern), 0);
	return ex;
}

/* Walks @path from the root as the server does; a "/" at its end: it is a directory. */
static bool is_excluded(const struct exclude *ex, const char *path)
{
	char copy[512], *rest = copy, *name;
	uint64_t set = exclude_root(ex);

	snprintf(copy, sizeof(copy), "%s", path);
	while ((name = strsep(&rest, "/")) && *name)
		set = exclude_child(ex, set, name, rest != NULL);
	return set & EXCLUDE_MATCHED;
}

static void exclude_add_bad_patterns_are_refused(void **state)
{
	static const char *const bad[] = { "",	   "/",	     "//",   "!a",  "!",
					   ".",	   "..",     "a//b", "./a", "a/.",
					   "../a", "a/../b", "a/..", "a//", "//a" };
	struct exclude *ex = exclude_new();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (exclude_add(ex, bad[i]) != -EINVAL)
			fail_msg("accepted \"%s\"", bad[i]);
	}
	assert_true(exclude_is_empty(ex));
	assert_int_equal(exclude_root(ex), 0);
	exclude_free(ex);
}

static void exclude_add_after_a_bad_pattern_works(void **state)
{
	struct exclude *ex = exclude_new();

	(void)state;
	assert_int_equal(exclude_add(ex, "a/b//c"), -EINVAL);
	assert_int_equal(exclude_add(ex, "x/y"), 0);
	assert_true(is_excluded(ex, "x/y"));
	assert_false(is_excluded(ex, "a/b"));
	assert_false(is_excluded(ex, "a/y"));
	exclude_free(ex);
}

static void exclude_add_too_many_positions_is_refused(void **state)
{
	struct exclude *ex = exclude_new();
	char name[16];

	(void)state;
	/* A name without a slash takes two positions: "**" and itself. */
	for (int i = 0; i < EXCLUDE_POSITIONS / 2; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		assert_int_equal(exclude_add(ex, name), 0);
	}
	assert_int_equal(exclude_add(ex, "/one"), -E2BIG);
	for (int i = 0; i < EXCLUDE_POSITIONS / 2; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		assert_true(is_excluded(ex, name));
	}
	assert_false(is_excluded(ex, "one"));
	exclude_free(ex);
}

static void exclude_add_one_too_long_takes_nothing(void **state)
{
	struct exclude *ex = exclude_new();
	char pattern[2 * (EXCLUDE_POSITIONS + 1) + 1] = "";

	(void)state;
	for (int i = 0; i <= EXCLUDE_POSITIONS; i++)
		strcat(pattern, i ? "/x" : "x");
	assert_int_equal(exclude_add(ex, pattern), -E2BIG);
	assert_true(exclude_is_empty(ex));
	pattern[strlen(pattern) - 2] = '\0';
	assert_int_equal(exclude_add(ex, pattern), 0);
	assert_true(is_excluded(ex, pattern));
	exclude_free(ex);
}

/* As gitignore(5) writes patterns. */
static void exclude_child_patterns_match_as_gitignore(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool excluded;
	} cases[] = {
		{ "name", "name", true },
		{ "name", "a/b/name", true },
		{ "name", "a/name/", true },
		{ "name", "a/name/below/it", true },
		{ "name", "names", false },
		{ "name", "a/myname", false },
		{ "*.key", "server.key", true },
		{ "*.key", "a/b/.key", true },
		{ "*.key", "a/server.key.pub", false },
		{ "*", "anything", true },
		{ "?", "a", true },
		{ "?", "ab", false },
		{ "[a-c]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "\\*", "*", true },
		{ "\\*", "x", false },
		{ ".ssh/", ".ssh/", true },
		{ ".ssh/", "home/me/.ssh/id", true },
		{ ".ssh/", "home/me/.ssh", false },
		{ "/top", "top", true },
		{ "/top", "a/top", false },
		{ "/top/", "top/", true },
		{ "/top/", "top", false },
		{ "a/b", "a/b", true },
		{ "a/b", "a/b/c", true },
		{ "a/b", "x/a/b", false },
		{ "a/*/c", "a/x/c", true },
		{ "a/*/c", "a/c", false },
		{ "a/*/c", "a/x/y/c", false },
		{ "pgdata/**", "pgdata/base", true },
		{ "pgdata/**", "pgdata/base/1/2", true },
		{ "pgdata/**", "pgdata/", false },
		{ "pgdata/**", "x/pgdata/base", false },
		{ "**/cache", "cache", true },
		{ "**/cache", "a/b/cache", true },
		{ "**/cache", "a/b/caches", false },
		{ "a/**/z", "a/z", true },
		{ "a/**/z", "a/b/z", true },
		{ "a/**/z", "a/b/c/d/z", true },
		{ "a/**/z", "b/z", false },
		{ "a/**/m/**/z", "a/m/z", true },
		{ "a/**/m/**/z", "a/1/m/2/3/z", true },
		{ "a/**/m/**/z", "a/1/2/3/z", false },
		{ "**", "any/thing", true },
		{ "**/x/", "a/x", false },
		{ "**/x/", "a/x/", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct exclude *ex = make(cases[i].pattern);

		if (is_excluded(ex, cases[i].path) != cases[i].excluded)
			fail_msg("%s against %s", cases[i].pattern, cases[i].path);
		exclude_free(ex);
	}
}

static void exclude_child_bytes_of_a_name_do_not_confuse(void **state)
{
	struct exclude *ex = make("*.key");

	(void)state;
	assert_true(is_excluded(ex, "\xff\xfe\x01.key"));
	assert_true(is_excluded(ex, "new\nline.key"));
	assert_true(is_excluded(ex, "[.key"));
	assert_false(is_excluded(ex, "\xff.keyy"));
	exclude_free(ex);
}

static void exclude_child_below_matched_stays_matched(void **state)
{
	struct exclude *ex = make("/a");
	uint64_t set = exclude_child(ex, exclude_root(ex), "a", true);

	(void)state;
	for (int depth = 0; depth < 1000; depth++) {
		assert_true(set & EXCLUDE_MATCHED);
		set = exclude_child(ex, set, "deeper", true);
	}
	exclude_free(ex);
}

static void exclude_child_patterns_do_not_mix(void **state)
{
	struct exclude *ex = make("a/b");

	(void)state;
	assert_int_equal(exclude_add(ex, "c/d"), 0);
	assert_int_equal(exclude_add(ex, "e"), 0);
	assert_true(is_excluded(ex, "a/b"));
	assert_true(is_excluded(ex, "c/d"));
	assert_true(is_excluded(ex, "a/x/e"));
	assert_false(is_excluded(ex, "a/d"));
	assert_false(is_excluded(ex, "c/b"));
	assert_false(is_excluded(ex, "b"));
	exclude_free(ex);
}

static void exclude_child_no_patterns_matches_nothing(void **state)
{
	struct exclude *ex = exclude_new();

	(void)state;
	assert_int_equal(exclude_child(ex, exclude_root(ex), "any", true), 0);
	exclude_free(ex);
	exclude_free(NULL);
}

static void exclude_pattern_is_the_one_that_matches(void **state)
{
	struct exclude *ex = exclude_new();
	uint64_t root, data;

	(void)state;
	assert_non_null(ex);
	assert_int_equal(exclude_add(ex, "*.key"), 0);
	assert_int_equal(exclude_add(ex, "data/private/"), 0);
	assert_int_equal(exclude_add(ex, "data/**"), 0);
	root = exclude_root(ex);
	assert_string_equal(exclude_pattern(ex, root, "a.key", false), "*.key");
	assert_null(exclude_pattern(ex, root, "data", true));
	data = exclude_child(ex, root, "data", true);
	assert_string_equal(exclude_pattern(ex, data, "private", true), "data/private/");
	assert_string_equal(exclude_pattern(ex, data, "private", false), "data/**");
	assert_string_equal(exclude_pattern(ex, data, "b.key", false), "*.key");
	/* What lies below is excluded already. */
	assert_null(exclude_pattern(ex, exclude_child(ex, data, "private", true), "b.key", false));
	exclude_free(ex);
}

/* It names a pattern exactly where exclude_child() comes to exclude. */
static void exclude_pattern_agrees_with_child(void **state)
{
	static const char *const names[] = { "a", "b.key", "data", "private", "x" };
	struct exclude *ex = exclude_new();
	uint64_t sets[3];

	(void)state;
	assert_non_null(ex);
	assert_int_equal(exclude_add(ex, "**/private/x"), 0);
	assert_int_equal(exclude_add(ex, "data/*"), 0);
	assert_int_equal(exclude_add(ex, "*.key"), 0);
	assert_int_equal(exclude_add(ex, "a/"), 0);
	sets[0] = exclude_root(ex);
	for (size_t i = 0; i < ARRAY_SIZE(names) * ARRAY_SIZE(names) * ARRAY_SIZE(names); i++) {
		size_t at = i;

		for (int depth = 0; depth < 3; depth++, at /= ARRAY_SIZE(names)) {
			const char *name = names[at % ARRAY_SIZE(names)];

			for (int is_dir = 0; is_dir < 2; is_dir++) {
				uint64_t child = exclude_child(ex, sets[depth], name, is_dir);
				bool comes =
					child & EXCLUDE_MATCHED && !(sets[depth] & EXCLUDE_MATCHED);

				assert_int_equal(comes, exclude_pattern(ex, sets[depth], name,
									is_dir) != NULL);
			}
			if (depth < 2)
				sets[depth + 1] = exclude_child(ex, sets[depth], name, true);
		}
	}
	exclude_free(ex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exclude_add_bad_patterns_are_refused),
		cmocka_unit_test(exclude_add_after_a_bad_pattern_works),
		cmocka_unit_test(exclude_add_too_many_positions_is_refused),
		cmocka_unit_test(exclude_add_one_too_long_takes_nothing),
		cmocka_unit_test(exclude_child_patterns_match_as_gitignore),
		cmocka_unit_test(exclude_child_bytes_of_a_name_do_not_confuse),
		cmocka_unit_test(exclude_child_below_matched_stays_matched),
		cmocka_unit_test(exclude_child_patterns_do_not_mix),
		cmocka_unit_test(exclude_child_no_patterns_matches_nothing),
		cmocka_unit_test(exclude_pattern_is_the_one_that_matches),
		cmocka_unit_test(exclude_pattern_agrees_with_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
