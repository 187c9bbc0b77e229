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

#include "mountd/path.h"

static void path_absolute_trailing_slashes_go(void **state)
{
	AUTO_FREE char *a = NULL, *b = NULL, *c = NULL, *cwd = getcwd(NULL, 0);
	char *nothing = NULL;

	(void)state;
	assert_int_equal(path_absolute("/a//b/../c///", &a), 0);
	assert_string_equal(a, "/a//b/../c");
	assert_int_equal(path_absolute("///", &b), 0);
	assert_string_equal(b, "/");
	assert_int_equal(path_absolute(".//x", &c), 0);
	assert_true(strncmp(c, cwd, strlen(cwd)) == 0);
	assert_string_equal(c + strlen(cwd), "/x");
	assert_int_equal(path_absolute("", &nothing), -EINVAL);
}

static void path_socket_address_long_path_goes_by_descriptor(void **state)
{
	struct sockaddr_un address;
	char dir[200];

	(void)state;
	path_socket_address(7, "/run/fsgroupfs", "mountd.sock", &address);
	assert_string_equal(address.sun_path, "/run/fsgroupfs/mountd.sock");
	memset(dir, 'a', sizeof(dir));
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	path_socket_address(7, dir, "mountd.sock", &address);
	assert_string_equal(address.sun_path, "/proc/self/fd/7/mountd.sock");
}

static void layout_open_makes_private_directories(void **state)
{
	char root[] = "/tmp/test_path.XXXXXX", path[128];
	AUTO(layout) *none = NULL, *made = NULL;
	struct layout *missing = NULL;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_int_equal(layout_open(root, false, &none), 0);
	assert_int_equal(none->state_fd, -1);
	assert_int_equal(none->run_fd, -1);
	assert_int_equal(layout_open(root, true, &made), 0);
	assert_int_equal(fstat(made->state_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fstat(made->run_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(layout_open("/nonexistent-root", true, &missing), -ENOENT);
	assert_null(missing);
	for (const char *const *p = (const char *const[]){ PATH_STATE, "var/lib", "var", PATH_RUN,
							   "run", "", NULL };
	     *p; p++) {
		snprintf(path, sizeof(path), "%s/%s", root, *p);
		assert_int_equal(rmdir(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_absolute_trailing_slashes_go),
		cmocka_unit_test(path_socket_address_long_path_goes_by_descriptor),
		cmocka_unit_test(layout_open_makes_private_directories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
