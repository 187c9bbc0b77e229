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

#include <fcntl.h>
#include <sys/stat.h>

#include "mountd/target.h"

static void target_id_is_sha256_of_the_target(void **state)
{
	char id[TARGET_ID_SIZE];

	(void)state;
	/* printf %s /mnt/data | sha256sum */
	target_id("/mnt/data", id);
	assert_string_equal(id, "6faba07f33e642da4244a1876dd1f25c");
}

static void assert_refused(const char *path, int error)
{
	struct target *target = NULL;
	char why[TARGET_ERROR_MAX];

	assert_int_equal(target_open(path, &target, why), error);
	assert_null(target);
	assert_true(why[0] != '\0');
}

static void target_open_bad_paths_are_refused(void **state)
{
	(void)state;
	assert_refused("relative", -EINVAL);
	assert_refused("/", -EINVAL);
	assert_refused("///", -EINVAL);
	assert_refused("/tmp/.", -EINVAL);
	assert_refused("/tmp/..", -EINVAL);
	assert_refused("/nonexistent-parent/x", -ENOENT);
	assert_refused("/dev/null/x", -ENOTDIR);
}

static void target_open_parent_is_resolved_and_the_last_name_is_not(void **state)
{
	char dir[] = "/tmp/test_target.XXXXXX", path[64], expected[64], why[TARGET_ERROR_MAX];
	AUTO(target) *target = NULL;
	enum target_kind kind = TARGET_OTHER;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/real", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink("real", path), 0);
	snprintf(path, sizeof(path), "%s/real/last", dir);
	assert_int_equal(symlink("/nowhere", path), 0);

	snprintf(path, sizeof(path), "%s/link/last//", dir);
	snprintf(expected, sizeof(expected), "%s/real/last", dir);
	assert_int_equal(target_open(path, &target, why), 0);
	path[strlen(path) - 2] = '\0';
	assert_string_equal(target->given, path);
	assert_string_equal(target->resolved, expected);
	assert_string_equal(target->name, "last");
	assert_int_equal(target_look(target, &kind), 0);
	assert_int_equal(kind, TARGET_OTHER);

	assert_int_equal(unlinkat(target->parent_fd, "last", 0), 0);
	assert_int_equal(target_look(target, &kind), 0);
	assert_int_equal(kind, TARGET_ABSENT);
	assert_int_equal(mkdirat(target->parent_fd, "last", 0700), 0);
	assert_int_equal(target_look(target, &kind), 0);
	assert_int_equal(kind, TARGET_DIRECTORY);
	assert_int_equal(unlinkat(target->parent_fd, "last", AT_REMOVEDIR), 0);

	snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/real", dir);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void target_look_mount_point_is_seen(void **state)
{
	AUTO(target) *target = NULL;
	enum target_kind kind = TARGET_OTHER;
	char why[TARGET_ERROR_MAX];

	(void)state;
	assert_int_equal(target_open("/proc", &target, why), 0);
	assert_int_equal(target_look(target, &kind), 0);
	assert_int_equal(kind, TARGET_MOUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(target_id_is_sha256_of_the_target),
		cmocka_unit_test(target_open_bad_paths_are_refused),
		cmocka_unit_test(target_open_parent_is_resolved_and_the_last_name_is_not),
		cmocka_unit_test(target_look_mount_point_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
