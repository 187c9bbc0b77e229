// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/shared.h"

static int set_up(void **state)
{
	struct shared *s = calloc(1, sizeof(*s));

	*state = s;
	return s ? shared_create(s) : -1;
}

static int tear_down(void **state)
{
	shared_fini(*state);
	free(*state);
	return 0;
}

/* What another process would see of the same memory. */
static struct shared attach(const struct shared *s)
{
	struct shared other = { .fd = -1 };
	int fd = dup(s->fd);

	assert_true(fd >= 0);
	assert_int_equal(shared_attach(fd, &other), 0);
	return other;
}

static size_t get(const struct shared *s, char reason[256], struct shared_failure *failures)
{
	memset(reason, 'x', 256);
	return shared_get_texts(s, reason, failures);
}

static void shared_create_is_empty(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256];

	assert_int_equal(s->header->slot_count, 0);
	assert_int_equal(s->header->init_request_len, 0);
	assert_int_equal(atomic_load(&s->header->state), OVERLAY_STARTING);
	assert_int_equal(get(s, reason, failures), 0);
	assert_string_equal(reason, "");
}

static void shared_attach_sees_what_the_other_wrote(void **state)
{
	struct shared *s = *state;
	struct shared other = attach(s);

	atomic_store(&other.header->seen, 42);
	assert_int_equal(atomic_load(&s->header->seen), 42);
	shared_fini(&other);
	assert_int_equal(other.fd, -1);
	shared_fini(&other);
}

static void shared_attach_another_layout_is_refused(void **state)
{
	struct shared *s = *state;
	struct shared other;

	s->header->layout++;
	assert_int_equal(shared_attach(s->fd, &other), -EPROTO);
	s->header->layout--;
	s->header->magic ^= 1;
	assert_int_equal(shared_attach(s->fd, &other), -EPROTO);
	s->header->magic ^= 1;
}

static void shared_attach_short_memory_is_refused(void **state)
{
	AUTO_FD int fd = memfd_create("short", MFD_CLOEXEC);
	struct shared other;

	(void)state;
	assert_int_equal(shared_attach(fd, &other), -EPROTO);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(shared_attach(fd, &other), -EPROTO);
	assert_int_equal(shared_attach(-1, &other), -EBADF);
}

static void shared_grow_keeps_slots_and_is_seen_by_others(void **state)
{
	struct shared *s = *state;
	struct shared other;

	assert_int_equal(shared_grow(s, 1), 0);
	s->slots[0].ino = 7;
	assert_int_equal(shared_grow(s, 100000), 0);
	assert_true(s->slot_capacity >= 100000);
	assert_int_equal(s->slots[0].ino, 7);
	s->slots[99999].ino = 8;
	other = attach(s);
	assert_true(other.slot_capacity >= 100000);
	assert_int_equal(other.slots[99999].ino, 8);
	shared_fini(&other);
}

static void shared_grow_smaller_is_nothing(void **state)
{
	struct shared *s = *state;
	uint32_t capacity;

	assert_int_equal(shared_grow(s, 100), 0);
	capacity = s->slot_capacity;
	assert_int_equal(shared_grow(s, 1), 0);
	assert_int_equal(s->slot_capacity, capacity);
}

static void shared_grow_beyond_the_table_is_refused(void **state)
{
	struct shared *s = *state;
	uint32_t capacity = s->slot_capacity;

	assert_int_equal(shared_grow(s, NODE_SLOTS_MAX + 1), -ENOSPC);
	assert_int_equal(shared_grow(s, UINT32_MAX), -ENOSPC);
	assert_int_equal(s->slot_capacity, capacity);
}

static void shared_set_reason_long_is_cut(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256], text[1000];

	memset(text, 'r', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	shared_set_reason(s, text);
	get(s, reason, failures);
	assert_int_equal(strlen(reason), 255);
	shared_set_reason(s, "short");
	get(s, reason, failures);
	assert_string_equal(reason, "short");
}

static void shared_add_failure_only_the_first_hundred_are_kept(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256], path[32];

	for (int i = 0; i < 2 * SHARED_FAILURES_MAX; i++) {
		snprintf(path, sizeof(path), "dir/%d", i);
		shared_add_failure(s, path, i + 1, i % 2);
	}
	assert_int_equal(get(s, reason, failures), SHARED_FAILURES_MAX);
	assert_string_equal(failures[0].path, "dir/0");
	assert_int_equal(failures[0].error, 1);
	assert_false(failures[0].is_immutable);
	assert_true(failures[1].is_immutable);
	assert_string_equal(failures[SHARED_FAILURES_MAX - 1].path, "dir/99");
	shared_clear_failures(s);
	assert_int_equal(get(s, reason, failures), 0);
}

static void shared_add_failure_long_path_keeps_its_end(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256], path[SHARED_PATH_MAX + 100];

	for (size_t len = SHARED_PATH_MAX - 3; len < SHARED_PATH_MAX + 3; len++) {
		memset(path, 'p', len);
		memcpy(path + len - 4, "/end", 5);
		shared_clear_failures(s);
		shared_add_failure(s, path, EPERM, false);
		get(s, reason, failures);
		assert_string_equal(failures[0].path + strlen(failures[0].path) - 4, "/end");
		if (len < SHARED_PATH_MAX) {
			assert_string_equal(failures[0].path, path);
		} else {
			assert_memory_equal(failures[0].path, "...", 3);
			assert_int_equal(strlen(failures[0].path), SHARED_PATH_MAX - 1);
		}
	}
}

/* The server's memory is not trusted: no NUL anywhere, counts out of range. */
static void shared_get_texts_hostile_memory_is_bounded(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256];

	memset(s->header->reason, 'r', sizeof(s->header->reason));
	memset(s->header->failures, 'f', sizeof(s->header->failures));
	s->header->failure_count = UINT32_MAX;
	assert_int_equal(get(s, reason, failures), SHARED_FAILURES_MAX);
	assert_int_equal(strlen(reason), 255);
	for (int i = 0; i < SHARED_FAILURES_MAX; i++)
		assert_int_equal(strlen(failures[i].path), SHARED_PATH_MAX - 1);
}

static void shared_get_texts_writer_that_died_inside_does_not_hang(void **state)
{
	struct shared *s = *state;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char reason[256];

	shared_set_reason(s, "before");
	atomic_fetch_add(&s->header->text_seq, 1);
	get(s, reason, failures);
	assert_string_equal(reason, "before");
	/* The next server writes as if nothing had been. */
	shared_set_reason(s, "after");
	assert_int_equal(atomic_load(&s->header->text_seq) % 2, 0);
	get(s, reason, failures);
	assert_string_equal(reason, "after");
}

static void *write_reasons(void *argument)
{
	struct shared *s = argument;
	char text[200];

	for (int i = 0; i < 20000; i++) {
		memset(text, 'a' + i % 26, sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		shared_set_reason(s, text);
	}
	return NULL;
}

static void shared_get_texts_while_written_is_consistent(void **state)
{
	struct shared *s = *state;
	struct shared_failure *failures = calloc(SHARED_FAILURES_MAX, sizeof(*failures));
	char reason[256];
	pthread_t thread;

	assert_non_null(failures);
	shared_set_reason(s, "");
	assert_int_equal(pthread_create(&thread, NULL, write_reasons, s), 0);
	for (int i = 0; i < 20000; i++) {
		size_t len;

		get(s, reason, failures);
		len = strlen(reason);
		assert_true(len == 0 || len == 199);
		for (size_t k = 1; k < len; k++)
			assert_int_equal(reason[k], reason[0]);
	}
	pthread_join(thread, NULL);
	free(failures);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(shared_create_is_empty),
		TEST(shared_attach_sees_what_the_other_wrote),
		TEST(shared_attach_another_layout_is_refused),
		TEST(shared_attach_short_memory_is_refused),
		TEST(shared_grow_keeps_slots_and_is_seen_by_others),
		TEST(shared_grow_smaller_is_nothing),
		TEST(shared_grow_beyond_the_table_is_refused),
		TEST(shared_set_reason_long_is_cut),
		TEST(shared_add_failure_only_the_first_hundred_are_kept),
		TEST(shared_add_failure_long_path_keeps_its_end),
		TEST(shared_get_texts_hostile_memory_is_bounded),
		TEST(shared_get_texts_writer_that_died_inside_does_not_hang),
		TEST(shared_get_texts_while_written_is_consistent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
