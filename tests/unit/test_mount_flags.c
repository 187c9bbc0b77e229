// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/mount_flags.h"

static void lists_become_one_text(void **state)
{
	static const struct {
		const char *list, *text;
	} rows[] = {
		{ NULL, NULL },
		{ "", NULL },
		{ ",,", NULL },
		{ "nosuid", "nosuid" },
		{ "noatime,noexec,nodev,nosuid", "nosuid,nodev,noexec,noatime" },
		{ "nosuid,suid", "suid" },
		{ "suid,nosuid,suid,nosuid", "nosuid" },
		{ "ro,rw", "rw" },
		{ "rw,ro", "ro" },
		{ "noatime,relatime", "relatime" },
		{ "noatime,atime", "relatime" },
		{ "relatime,noatime,strictatime", "strictatime" },
		{ "norelatime", "strictatime" },
		{ "nodiratime,noatime", "nodiratime,noatime" },
		{ "nodiratime,diratime", "diratime" },
		{ "context=u:r:t", "context=\"u:r:t\"" },
		{ "context=\"u:r:t:s0:c1,c2\",ro", "ro,context=\"u:r:t:s0:c1,c2\"" },
		{ "context=u:r:t,nosuid,context=none", "nosuid,context=\"none\"" },
		{ "\"nosuid\"", "nosuid" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mount_flags flags = { 0 }, again = { 0 };
		AUTO_FREE char *text = NULL;
		char why[128];

		assert_int_equal(mount_flags_parse(rows[i].list, &flags, why, sizeof(why)), 0);
		assert_int_equal(mount_flags_text(&flags, &text), 0);
		if (!rows[i].text) {
			assert_null(text);
			continue;
		}
		assert_string_equal(text, rows[i].text);
		assert_int_equal(mount_flags_parse(text, &again, why, sizeof(why)), 0);
		assert_memory_equal(&again, &flags, sizeof(flags));
	}
}

static void other_options_are_einval_by_name(void **state)
{
	static const char *const lists[] = { "nosuid,gid=4", "gid=4", "nosuid,,gid=4,dev",
					     "context=gid=4" };
	struct mount_flags flags = { 0 };
	char why[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		assert_int_equal(mount_flags_parse(lists[i], &flags, why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "gid=4"));
		assert_true(flags.set == 0 && flags.clear == 0);
	}
	assert_int_equal(mount_flags_parse("defaults", &flags, why, sizeof(why)), -EINVAL);
	assert_int_equal(mount_flags_parse("user,no\nline", &flags, why, sizeof(why)), -EINVAL);
	assert_null(strchr(why, '\n'));
}

static void a_context_is_kept_where_no_later_one_is(void **state)
{
	struct mount_flags old = { 0 }, later = { 0 }, both;
	char longest[SELINUX_LABEL_MAX + 16], why[128];
	AUTO_FREE char *text = NULL;

	(void)state;
	assert_int_equal(mount_flags_parse("context=u:r:t", &old, why, sizeof(why)), 0);
	assert_int_equal(mount_flags_parse("ro", &later, why, sizeof(why)), 0);
	both = mount_flags_over(&old, &later);
	assert_string_equal(both.context, "u:r:t");
	both = mount_flags_over(&later, &old);
	assert_string_equal(both.context, "u:r:t");
	assert_true(mount_flags_set_context(&later, "u:r:other"));
	both = mount_flags_over(&old, &later);
	assert_string_equal(both.context, "u:r:other");
	assert_true(mount_flags_add(&both, "nodev"));
	assert_string_equal(both.context, "u:r:other");
	assert_false(mount_flags_set_context(&both, "other"));
	assert_string_equal(both.context, "u:r:other");

	/* The longest there is, with all the rest. */
	memset(longest, 'c', sizeof(longest));
	memcpy(longest, "context=u:r:", strlen("context=u:r:"));
	longest[strlen("context=") + SELINUX_LABEL_MAX] = '\0';
	assert_int_equal(mount_flags_parse(longest, &old, why, sizeof(why)), 0);
	assert_int_equal(mount_flags_parse("ro,nosuid,nodev,noexec,nodiratime,strictatime", &later,
					   why, sizeof(why)),
			 0);
	both = mount_flags_over(&old, &later);
	assert_int_equal(mount_flags_text(&both, &text), 0);
	assert_string_equal(strchr(text, '"') + SELINUX_LABEL_MAX + 1, "\"");
}

static void a_context_is_found_as_the_kernel_shows_it(void **state)
{
	char list[] = "rw,context=\"u:r:t:s0:c1,c2\",user_id=0,group_id=0,default_permissions";
	char plain[] = "rw,fscontext=u:r:t,context=u:r:other,xcontext=u:r:t", none[] = "";

	(void)state;
	assert_true(mount_flags_has_context(strdupa(list), "u:r:t:s0:c1,c2"));
	assert_false(mount_flags_has_context(strdupa(list), "u:r:t:s0:c1"));
	assert_false(mount_flags_has_context(plain, "u:r:t"));
	assert_false(mount_flags_has_context(none, "none"));
}

static void later_ones_win(void **state)
{
	struct mount_flags old = { 0 }, later = { 0 }, both;
	AUTO_FREE char *text = NULL;
	char why[128];

	(void)state;
	assert_int_equal(mount_flags_parse("nosuid,nodev,noatime", &old, why, sizeof(why)), 0);
	assert_int_equal(mount_flags_parse("ro,suid,strictatime", &later, why, sizeof(why)), 0);
	both = mount_flags_over(&old, &later);
	assert_int_equal(mount_flags_text(&both, &text), 0);
	assert_string_equal(text, "ro,suid,nodev,strictatime");
	/* mount_setattr(2) takes an atime mode only in place of all of them. */
	assert_true((both.clear & MOUNT_ATTR__ATIME) == MOUNT_ATTR__ATIME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_become_one_text),
		cmocka_unit_test(other_options_are_einval_by_name),
		cmocka_unit_test(a_context_is_kept_where_no_later_one_is),
		cmocka_unit_test(a_context_is_found_as_the_kernel_shows_it),
		cmocka_unit_test(later_ones_win),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
