// SPDX-License-Identifier: Apache-2.0
/*
 * selinux_label_of() on files that have a label on disk. Needs root, who may write one where SELinux is off; exit 77
 * without, and where it is on: there labels are its policy's.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/selinux.h"

static char dir[] = "/var/tmp/test_label.XXXXXX";

static int label_of(const char *value, size_t len, char *ret_label)
{
	AUTO_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(setxattr(dir, "security.selinux", value, len, 0), 0);
	return selinux_label_of(fd, ret_label);
}

static void label_with_and_without_its_nul_is_read(void **state)
{
	static const char label[] = "system_u:object_r:container_file_t:s0:c1,c2";
	char got[SELINUX_LABEL_MAX + 1];

	(void)state;
	assert_int_equal(label_of(label, sizeof(label), got), 0);
	assert_string_equal(got, label);
	memset(got, 0, sizeof(got));
	assert_int_equal(label_of(label, strlen(label), got), 0);
	assert_string_equal(got, label);
}

static void longest_label_is_read_and_a_longer_one_is_erange(void **state)
{
	char text[SELINUX_LABEL_MAX + 2], got[SELINUX_LABEL_MAX + 1] = "as before";

	(void)state;
	memset(text, 'c', sizeof(text));
	memcpy(text, "a:b:", 4);
	assert_int_equal(label_of(text, SELINUX_LABEL_MAX + 1, got), -ERANGE);
	assert_int_equal(label_of(text, SELINUX_LABEL_MAX + 2, got), -ERANGE);
	assert_string_equal(got, "as before");
	text[SELINUX_LABEL_MAX] = '\0';
	assert_int_equal(label_of(text, SELINUX_LABEL_MAX + 1, got), 0);
	assert_string_equal(got, text);
}

/* Whoever writes the disk chooses what stands there. */
static void what_is_no_label_is_einval(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} rows[] = {
		{ "none", 4 },	  { "", 1 },	    { "a:b:c\0d", 7 },
		{ "a:b:\"c", 6 }, { "a:b:c\n", 6 }, { "\0\0", 2 },
	};
	char got[SELINUX_LABEL_MAX + 1] = "as before";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(label_of(rows[i].text, rows[i].len, got), -EINVAL);
	assert_string_equal(got, "as before");
}

static void no_label_is_enodata(void **state)
{
	AUTO_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char got[SELINUX_LABEL_MAX + 1];

	(void)state;
	removexattr(dir, "security.selinux");
	assert_int_equal(selinux_label_of(fd, got), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(label_with_and_without_its_nul_is_read),
		cmocka_unit_test(longest_label_is_read_and_a_longer_one_is_erange),
		cmocka_unit_test(what_is_no_label_is_einval),
		cmocka_unit_test(no_label_is_enodata),
	};
	int failed;

	if (geteuid() != 0 || access("/sys/fs/selinux/enforce", F_OK) == 0) {
		printf("skipped: needs root, and SELinux off\n");
		return 77;
	}
	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
