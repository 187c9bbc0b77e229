// SPDX-License-Identifier: Apache-2.0
#include <linux/fuse.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/stats.h"

static int make_stats(void **state)
{
	*state = calloc(1, sizeof(struct stats));
	return *state ? 0 : -1;
}

static int free_stats(void **state)
{
	free(*state);
	return 0;
}

static void *note_without_joining(void *argument)
{
	(void)argument;
	stats_note(FUSE_LOOKUP);
	return NULL;
}

static void *note_in_another_row(void *argument)
{
	stats_join(argument, STATS_ROWS - 1);
	stats_note(FUSE_LOOKUP);
	stats_note(FUSE_OPEN);
	return NULL;
}

static void in_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
	pthread_join(thread, NULL);
}

static void stats_note_threads_are_summed(void **state)
{
	struct stats *stats = *state;

	in_thread(note_without_joining, NULL);
	stats_join(stats, 0);
	stats_note(FUSE_LOOKUP);
	in_thread(note_in_another_row, stats);
	assert_true(stats_count(stats, FUSE_LOOKUP) == 2);
	assert_true(stats_count(stats, FUSE_OPEN) == 1);
	assert_true(stats_count(stats, FUSE_CREATE) == 0);
}

static void stats_note_unknown_opcodes_count_as_the_last(void **state)
{
	struct stats *stats = *state;

	stats_join(stats, 1);
	stats_note(STATS_OPCODES);
	stats_note(4096);
	assert_true(stats_count(stats, STATS_OPCODES - 1) == 2);
}

static void stats_format_shows_what_came(void **state)
{
	struct stats *stats = *state;
	char text[STATS_TEXT_MAX];

	assert_string_equal(stats_format(stats, text), "");
	stats_join(stats, 0);
	stats_note(FUSE_GETATTR);
	stats_note(FUSE_GETATTR);
	stats_note(FUSE_LOOKUP);
	stats_note(60);
	assert_string_equal(stats_format(stats, text), "LOOKUP:1 GETATTR:2 OP60:1");
}

static void stats_format_has_room_for_all(void **state)
{
	struct stats *stats = *state;
	char text[STATS_TEXT_MAX];

	for (unsigned i = 0; i < STATS_OPCODES; i++)
		atomic_store(&stats->rows[0][i], UINT64_MAX);
	stats_format(stats, text);
	assert_true(strlen(text) < STATS_TEXT_MAX - 1);
	assert_non_null(strstr(text, " OP63:18446744073709551615"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stats_note_threads_are_summed, make_stats,
						free_stats),
		cmocka_unit_test_setup_teardown(stats_note_unknown_opcodes_count_as_the_last,
						make_stats, free_stats),
		cmocka_unit_test_setup_teardown(stats_format_shows_what_came, make_stats,
						free_stats),
		cmocka_unit_test_setup_teardown(stats_format_has_room_for_all, make_stats,
						free_stats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
