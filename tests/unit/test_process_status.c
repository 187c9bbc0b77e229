// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/process_status.h"

static const char status[] =
	"Name:\tUid:\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t4294967295\n"
	"Groups:\t10 20 300 \nNgid:\t0\nCapEff:\t000001ffffffffff";

static void process_status_find_lines_begin_with_their_key(void **state)
{
	(void)state;
	assert_int_equal(process_status_number(process_status_find(status, "Uid"), 0), 1);
	assert_int_equal(process_status_number(process_status_find(status, "Uid"), 3), 4);
	assert_null(process_status_find(status, "id"));
	assert_null(process_status_find(status, "CapE"));
	assert_non_null(process_status_find(status, "CapEff"));
	assert_null(process_status_find("", "Uid"));
}

static void process_status_number_what_is_not_there_is_none(void **state)
{
	(void)state;
	assert_int_equal(process_status_number(process_status_find(status, "Uid"), 4), UINT32_MAX);
	assert_int_equal(process_status_number(process_status_find(status, "Gid"), 3), UINT32_MAX);
	assert_int_equal(process_status_number(" 99999999999999999999 1", 0), UINT32_MAX);
	assert_int_equal(process_status_number(" 99999999999999999999 1", 1), 1);
	assert_int_equal(process_status_number("", 0), UINT32_MAX);
}

static void process_status_has_numbers_of_this_line_alone(void **state)
{
	const char *groups = process_status_find(status, "Groups");

	(void)state;
	assert_true(process_status_has(groups, 10));
	assert_true(process_status_has(groups, 300));
	assert_false(process_status_has(groups, 30));
	assert_false(process_status_has(groups, 0)); /* of the next line */
	assert_false(process_status_has("\n", 0));
}

static void process_status_read_own_and_nobodys(void **state)
{
	AUTO_FD int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE char *own = process_status_read(proc_fd, getpid());

	(void)state;
	assert_non_null(own);
	assert_int_equal(process_status_number(process_status_find(own, "Pid"), 0), getpid());
	assert_int_equal(process_status_number(process_status_find(own, "Uid"), 1), geteuid());
	assert_null(process_status_read(proc_fd, 0));
	assert_null(process_status_read(proc_fd, -1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_status_find_lines_begin_with_their_key),
		cmocka_unit_test(process_status_number_what_is_not_there_is_none),
		cmocka_unit_test(process_status_has_numbers_of_this_line_alone),
		cmocka_unit_test(process_status_read_own_and_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
