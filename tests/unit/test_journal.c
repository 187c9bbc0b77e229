// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/journal.h"

enum { READ_MAX = 32 };

struct seen {
	struct tree_key keys[READ_MAX];
	uint64_t inos[READ_MAX];
	size_t count;
	int refuse_with; /* what add() answers to the second record; 0: takes it */
};

static int add(void *context, const struct tree_key *key, uint64_t ino)
{
	struct seen *seen = context;

	if (seen->refuse_with && seen->count == 1)
		return seen->refuse_with;
	assert_true(seen->count < READ_MAX);
	seen->keys[seen->count] = *key;
	seen->inos[seen->count++] = ino;
	return 0;
}

static struct tree_key key_of(unsigned number)
{
	struct tree_key key = { .is_handle = number % 2 == 0,
				.type = (int)number,
				.len = 8 + number };

	memset(key.bytes, (int)number + 1, key.len);
	return key;
}

static int open_journal(void)
{
	int fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	return fd;
}

/* A journal with @count records; returns the length of one. */
static int write_journal(unsigned count, off_t *ret_record)
{
	int fd = open_journal();

	for (unsigned i = 0; i < count; i++) {
		struct tree_key key = key_of(i);

		assert_int_equal(journal_append(fd, &key, 100 + i), 0);
	}
	*ret_record = lseek(fd, 0, SEEK_END) / count;
	return fd;
}

static void damage(int fd, off_t at)
{
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x40;
	/* pwrite() appends to an O_APPEND file, whatever its offset. */
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
}

static void assert_records(const struct seen *seen, unsigned count)
{
	assert_int_equal(seen->count, count);
	for (unsigned i = 0; i < count; i++) {
		struct tree_key key = key_of(i);

		assert_int_equal(seen->inos[i], 100 + i);
		assert_int_equal(seen->keys[i].is_handle, key.is_handle);
		assert_int_equal(seen->keys[i].type, key.type);
		assert_int_equal(seen->keys[i].len, key.len);
		assert_memory_equal(seen->keys[i].bytes, key.bytes, NODE_HANDLE_MAX);
	}
}

static void journal_read_empty_gives_nothing(void **state)
{
	AUTO_FD int fd = open_journal();
	struct seen seen = { .count = 0 };

	(void)state;
	assert_int_equal(journal_read(fd, add, &seen), 0);
	assert_int_equal(seen.count, 0);
}

static void journal_read_gives_what_was_appended(void **state)
{
	off_t record;
	AUTO_FD int fd = write_journal(20, &record);
	struct seen seen = { .count = 0 };

	(void)state;
	assert_int_equal(journal_read(fd, add, &seen), 0);
	assert_records(&seen, 20);
}

static void journal_read_longest_handle_is_kept(void **state)
{
	AUTO_FD int fd = open_journal();
	struct tree_key key = { .is_handle = true, .type = 7, .len = NODE_HANDLE_MAX };
	struct seen seen = { .count = 0 };

	(void)state;
	memset(key.bytes, 0xff, sizeof(key.bytes));
	assert_int_equal(journal_append(fd, &key, UINT64_MAX), 0);
	assert_int_equal(journal_read(fd, add, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_memory_equal(seen.keys[0].bytes, key.bytes, NODE_HANDLE_MAX);
	assert_true(seen.inos[0] == UINT64_MAX);
}

/* A crash while the last record was written, at every byte: what was whole stays, appending goes on. */
static void journal_read_torn_at_every_byte_is_cut_off(void **state)
{
	off_t record;

	(void)state;
	cleanup_fd(&(int){ write_journal(1, &record) });
	for (off_t torn = 1; torn < record; torn++) {
		AUTO_FD int fd = write_journal(3, &record);
		struct seen seen = { .count = 0 }, again = { .count = 0 };
		struct tree_key key = key_of(2);

		assert_int_equal(ftruncate(fd, 2 * record + torn), 0);
		assert_int_equal(journal_read(fd, add, &seen), 0);
		assert_records(&seen, 2);
		assert_int_equal(lseek(fd, 0, SEEK_END), 2 * record);
		assert_int_equal(journal_append(fd, &key, 102), 0);
		assert_int_equal(journal_read(fd, add, &again), 0);
		assert_records(&again, 3);
	}
}

/* The length was there and the bytes were not. */
static void journal_read_last_record_with_holes_is_cut_off(void **state)
{
	off_t record;
	AUTO_FD int fd = write_journal(2, &record);
	struct seen seen = { .count = 0 };

	(void)state;
	assert_int_equal(ftruncate(fd, 3 * record), 0);
	assert_int_equal(journal_read(fd, add, &seen), 0);
	assert_records(&seen, 2);
	assert_int_equal(lseek(fd, 0, SEEK_END), 2 * record);
}

/* A flipped bit anywhere but in the last record is damage; nothing is cut off then. */
static void journal_read_damage_at_every_byte_is_reported(void **state)
{
	off_t record;

	(void)state;
	cleanup_fd(&(int){ write_journal(1, &record) });
	for (off_t at = 0; at < record; at++) {
		AUTO_FD int fd = write_journal(3, &record);
		struct seen seen = { .count = 0 };

		damage(fd, record + at);
		assert_int_equal(journal_read(fd, add, &seen), -EUCLEAN);
		assert_records(&seen, 1);
		assert_int_equal(lseek(fd, 0, SEEK_END), 3 * record);
	}
}

static void journal_read_a_length_that_is_too_long_is_damage(void **state)
{
	AUTO_FD int fd = open_journal();
	struct tree_key key = key_of(1);
	struct seen seen = { .count = 0 };

	(void)state;
	key.len = NODE_HANDLE_MAX + 1;
	assert_int_equal(journal_append(fd, &key, 1), 0);
	key.len = 8;
	assert_int_equal(journal_append(fd, &key, 2), 0);
	assert_int_equal(journal_read(fd, add, &seen), -EUCLEAN);
	assert_int_equal(seen.count, 0);
}

static void journal_read_what_add_says_is_returned(void **state)
{
	off_t record;
	AUTO_FD int fd = write_journal(3, &record);
	struct seen seen = { .refuse_with = -ENOMEM };

	(void)state;
	assert_int_equal(journal_read(fd, add, &seen), -ENOMEM);
	assert_int_equal(seen.count, 1);
}

static void journal_append_refused_leaves_the_file(void **state)
{
	off_t record;
	AUTO_FD int fd = write_journal(2, &record);
	struct seen seen = { .count = 0 };
	struct tree_key key = key_of(2);

	(void)state;
	/* No room for a further record: the sealed memfd stands for a full disk. */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_true(journal_append(fd, &key, 102) < 0);
	assert_int_equal(journal_read(fd, add, &seen), 0);
	assert_records(&seen, 2);
}

static void journal_append_bad_descriptor_is_an_error(void **state)
{
	struct tree_key key = key_of(1);

	(void)state;
	assert_int_equal(journal_append(-1, &key, 1), -EBADF);
	assert_int_equal(journal_read(-1, add, NULL), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(journal_read_empty_gives_nothing),
		cmocka_unit_test(journal_read_gives_what_was_appended),
		cmocka_unit_test(journal_read_longest_handle_is_kept),
		cmocka_unit_test(journal_read_torn_at_every_byte_is_cut_off),
		cmocka_unit_test(journal_read_last_record_with_holes_is_cut_off),
		cmocka_unit_test(journal_read_damage_at_every_byte_is_reported),
		cmocka_unit_test(journal_read_a_length_that_is_too_long_is_damage),
		cmocka_unit_test(journal_read_what_add_says_is_returned),
		cmocka_unit_test(journal_append_refused_leaves_the_file),
		cmocka_unit_test(journal_append_bad_descriptor_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
