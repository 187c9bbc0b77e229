// SPDX-License-Identifier: Apache-2.0

/* Directories kept open between two requests of a listing. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/cursors.h"

static struct cursors cursors;

static int set_up(void **state)
{
	(void)state;
	cursors = (struct cursors){ 0 };
	cursors_init(&cursors);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cursors_fini(&cursors);
	return 0;
}

static int open_one(void)
{
	int fd = open("/", O_PATH | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void take_is_of_what_was_put_once(void **state)
{
	int fd = open_one();

	(void)state;
	assert_int_equal(cursors_take(&cursors, 7, 100, 0), -1);
	cursors_put(&cursors, 7, 100, O_NOATIME, fd);
	assert_int_equal(cursors_take(&cursors, 8, 100, O_NOATIME), -1);
	assert_int_equal(cursors_take(&cursors, 7, 101, O_NOATIME), -1);
	assert_int_equal(cursors_take(&cursors, 7, 100, 0), -1);
	assert_int_equal(cursors_take(&cursors, 7, 100, O_NOATIME), fd);
	assert_true(is_open(fd));
	assert_int_equal(cursors_take(&cursors, 7, 100, O_NOATIME), -1);
	close(fd);
}

static void take_of_several_is_the_first(void **state)
{
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		cursors_put(&cursors, 7, 100, 0, fds[i] = open_one());
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cursors_take(&cursors, 7, 100, 0), fds[i]);
		close(fds[i]);
	}
}

static void put_beyond_the_room_closes_the_first(void **state)
{
	enum { MORE = 3 };
	int fds[CURSORS_MAX + MORE];

	(void)state;
	for (int i = 0; i < CURSORS_MAX + MORE; i++)
		fds[i] = open_one();
	for (int i = 0; i < CURSORS_MAX + MORE; i++)
		cursors_put(&cursors, 7, i, 0, fds[i]);
	for (int i = 0; i < CURSORS_MAX + MORE; i++) {
		assert_int_equal(is_open(fds[i]), i >= MORE);
		assert_int_equal(cursors_take(&cursors, 7, i, 0), i < MORE ? -1 : fds[i]);
		if (i >= MORE)
			close(fds[i]);
	}
}

static void drop_is_of_one_directory_or_all(void **state)
{
	int fds[4];

	(void)state;
	assert_int_equal(cursors_drop(&cursors, 0), 0);
	for (int i = 0; i < 4; i++)
		cursors_put(&cursors, 7 + (uint64_t)i % 2, i, 0, fds[i] = open_one());
	assert_int_equal(cursors_drop(&cursors, 9), 0);
	assert_int_equal(cursors_drop(&cursors, 7), 2);
	for (int i = 0; i < 4; i++)
		assert_int_equal(is_open(fds[i]), i % 2 == 1);
	assert_int_equal(cursors_drop(&cursors, 0), 2);
	for (int i = 0; i < 4; i++)
		assert_false(is_open(fds[i]));
	assert_int_equal(cursors_take(&cursors, 8, 1, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(take_is_of_what_was_put_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(take_of_several_is_the_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(put_beyond_the_room_closes_the_first, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(drop_is_of_one_directory_or_all, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("cursors", tests, NULL, NULL);
}
