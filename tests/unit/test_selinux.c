// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/selinux.h"

/* ---- whether it is on: a root directory of our own ---- */

static const char *const dirs[] = { "/sys",	  "/sys/fs",	     "/sys/fs/selinux", "/proc",
				    "/proc/self", "/proc/self/attr", "/proc/self/ns" };
static char root[] = "/tmp/test_selinux.XXXXXX";

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s%s", root, name);
	return path;
}

static void put(const char *name, const char *text, size_t len)
{
	AUTO_FD int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
}

static void put_namespace(const char *name)
{
	unlink(path_of("/proc/self/ns/user"));
	assert_int_equal(symlink(name, path_of("/proc/self/ns/user")), 0);
}

static int set_up(void **state)
{
	static const char label[] = "system_u:system_r:init_t:s0";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		mkdir(path_of(dirs[i]), 0700);
	put("/sys/fs/selinux/enforce", "1", 1);
	put("/proc/self/attr/current", label, sizeof(label)); /* the kernel ends it with a NUL */
	put_namespace("user:[4026531837]");
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = { "/sys/fs/selinux/enforce", "/proc/self/attr/current",
					     "/proc/self/ns/user" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(path_of(files[i]));
	for (size_t i = ARRAY_SIZE(dirs); i-- > 0;)
		rmdir(path_of(dirs[i]));
	return 0;
}

static void selinux_why_not_enforcing_and_permissive_can(void **state)
{
	(void)state;
	assert_null(selinux_why_not(root));
	put("/sys/fs/selinux/enforce", "0\n", 2);
	assert_null(selinux_why_not(root));
}

static void selinux_why_not_without_its_file_system_is_off(void **state)
{
	static const char *const others[] = { "", "enforcing", "2", "-1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		put("/sys/fs/selinux/enforce", others[i], strlen(others[i]));
		assert_string_equal(selinux_why_not(root), "SELinux is off");
	}
	unlink(path_of("/sys/fs/selinux/enforce"));
	assert_string_equal(selinux_why_not(root), "SELinux is off");
}

static void selinux_why_not_without_policy_cannot(void **state)
{
	(void)state;
	put("/proc/self/attr/current", "kernel", sizeof("kernel"));
	assert_string_equal(selinux_why_not(root), "SELinux has no policy");
	unlink(path_of("/proc/self/attr/current"));
	assert_string_equal(selinux_why_not(root), "SELinux has no policy");
}

static void selinux_why_not_in_a_user_namespace_cannot(void **state)
{
	static const char *const names[] = { "user:[4026532001]", "user:[40265318370]",
					     "user:[402653183]" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		put_namespace(names[i]);
		assert_non_null(strstr(selinux_why_not(root), "user namespace"));
	}
	unlink(path_of("/proc/self/ns/user"));
	assert_non_null(strstr(selinux_why_not(root), "user namespace"));
}

static void selinux_why_not_a_root_that_is_too_long_is_off(void **state)
{
	char longer[8192];

	(void)state;
	memset(longer, '/', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_string_equal(selinux_why_not(longer), "SELinux is off");
}

/* ---- labels ---- */

static void selinux_label_is_valid_as_the_kernel_reads_them(void **state)
{
	static const char *const good[] = {
		"none",
		"system_u:object_r:container_file_t",
		"system_u:object_r:container_file_t:s0",
		"system_u:object_r:container_file_t:s0:c1,c2",
		"system_u:object_r:container_file_t:s0-s15:c0.c1023",
		"u:r:t:s0:c1:c2",
	};
	static const char *const bad[] = {
		"",	    "t",	 "None",      "a:b",	 ":b:c",     "a::c",
		"a:b:",	    "a:b::s0",	 "a:b:c:",    "a:b:c d", "a:b:c\n",  "a:b:\"c\"",
		"a:b:c\\,", "a:b:c\xff", "a:b:c\x7f", "none:",	 "noneofus",
	};
	char text[SELINUX_LABEL_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(selinux_label_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(selinux_label_is_valid(bad[i]));
	memset(text, 'c', sizeof(text));
	memcpy(text, "a:b:", 4);
	text[SELINUX_LABEL_MAX] = '\0';
	assert_true(selinux_label_is_valid(text));
	text[SELINUX_LABEL_MAX] = 'c';
	text[SELINUX_LABEL_MAX + 1] = '\0';
	assert_false(selinux_label_is_valid(text));
}

static void selinux_label_to_mount_is_what_was_asked_for_else_the_sources(void **state)
{
	(void)state;
	assert_string_equal(selinux_label_to_mount("", "u:r:own"), "u:r:own");
	assert_string_equal(selinux_label_to_mount("u:r:t", "u:r:own"), "u:r:t");
	assert_string_equal(selinux_label_to_mount("none", "u:r:own"), "");
	assert_string_equal(selinux_label_to_mount("", ""), "");
	assert_string_equal(selinux_label_to_mount("u:r:t", ""), "u:r:t");
}

static void selinux_label_is_foreign_only_what_the_source_has_not(void **state)
{
	(void)state;
	assert_true(selinux_label_is_foreign("u:r:t", "u:r:own"));
	assert_true(selinux_label_is_foreign("u:r:t", ""));
	assert_false(selinux_label_is_foreign("u:r:own", "u:r:own"));
	assert_false(selinux_label_is_foreign("", "u:r:own"));
	assert_false(selinux_label_is_foreign("none", "u:r:own"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(selinux_why_not_enforcing_and_permissive_can),
		TEST(selinux_why_not_without_its_file_system_is_off),
		TEST(selinux_why_not_without_policy_cannot),
		TEST(selinux_why_not_in_a_user_namespace_cannot),
		TEST(selinux_why_not_a_root_that_is_too_long_is_off),
		cmocka_unit_test(selinux_label_is_valid_as_the_kernel_reads_them),
		cmocka_unit_test(selinux_label_to_mount_is_what_was_asked_for_else_the_sources),
		cmocka_unit_test(selinux_label_is_foreign_only_what_the_source_has_not),
	};
	int failed;

	if (!mkdtemp(root))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(root);
	return failed;
}
