// SPDX-License-Identifier: Apache-2.0
#include "fs/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void sleep_often(int times)
{
	const struct timespec moment = { .tv_nsec = 20000 };

	for (int i = 0; i < times; i++)
		nanosleep(&moment, NULL);
}

static void visits_end_sleeping_with_every_entry_is_waiting(void **state)
{
	struct visits v;

	(void)state;
	visits_begin(&v);
	v.entries = 10;
	sleep_often(12);
	assert_true(visits_end(&v));
	assert_false(visits_end(&v));
}

static void visits_end_sleeping_now_and_then_is_not(void **state)
{
	struct visits v;

	(void)state;
	visits_begin(&v);
	v.entries = 100;
	sleep_often(12);
	assert_false(visits_end(&v));
}

static void visits_end_told_to_rest_is_not(void **state)
{
	struct visits v;

	(void)state;
	visits_begin(&v);
	sleep_often(12);
	assert_true(visits_end(&v));
	sleep_often(12);
	v.has_rested = true;
	assert_false(visits_end(&v));
}

static void visits_end_reading_from_the_disk_is_waiting(void **state)
{
	char path[] = "/tmp/test_waits.XXXXXX", block[4096] = "x";
	int fd = mkstemp(path);
	struct statfs fs;
	struct visits v;

	(void)state;
	assert_return_code(fd, errno);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_return_code(fsync(fd), errno);
	visits_begin(&v);
	v.entries = 1000;
	assert_int_equal(pread(fd, block, sizeof(block), 0), sizeof(block));
	assert_false(visits_end(&v));
	if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC) {
		close(fd);
		skip(); /* it has no disk */
	}
	assert_return_code(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), errno);
	visits_begin(&v);
	v.entries = 1000;
	assert_int_equal(pread(fd, block, sizeof(block), 0), sizeof(block));
	assert_true(visits_end(&v));
	close(fd);
}

static void waits_note_begins_once_and_ends(void **state)
{
	struct waits w = { 0 };
	int off = 0;

	(void)state;
	assert_false(waits_are_on(&w));
	assert_false(waits_note(&w, true));
	assert_false(waits_are_on(&w));
	assert_true(waits_note(&w, true));
	for (int i = 0; i < 1000; i++) {
		assert_true(waits_are_on(&w));
		assert_false(waits_note(&w, true));
	}
	/* However long they did, it ends soon. */
	while (waits_are_on(&w) && off < 1000) {
		assert_false(waits_note(&w, false));
		off++;
	}
	assert_in_range(off, 2, 20);
	for (int i = 0; i < 20; i++)
		assert_false(waits_note(&w, false));
	assert_false(waits_note(&w, true));
	assert_true(waits_note(&w, true));
}

static void waits_note_one_in_ten_is_none(void **state)
{
	struct waits w = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		waits_note(&w, i % 10 == 0);
		assert_false(waits_are_on(&w));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(visits_end_sleeping_with_every_entry_is_waiting),
		cmocka_unit_test(visits_end_sleeping_now_and_then_is_not),
		cmocka_unit_test(visits_end_told_to_rest_is_not),
		cmocka_unit_test(visits_end_reading_from_the_disk_is_waiting),
		cmocka_unit_test(waits_note_begins_once_and_ends),
		cmocka_unit_test(waits_note_one_in_ten_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
