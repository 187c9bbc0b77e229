// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "fs/base/cleanup.h"
#include "mountd/frame.h"

enum { ALL = 1 << 20 };

struct fixture {
	int here, there;
	struct frame frame;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fds[2];

	assert_non_null(f);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	f->here = fds[0];
	f->there = fds[1];
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	frame_reset(&f->frame);
	cleanup_fd(&f->here);
	cleanup_fd(&f->there);
	free(f);
	return 0;
}

static void put(struct fixture *f, const void *bytes, size_t len)
{
	assert_int_equal(send(f->there, bytes, len, 0), len);
}

static int receive(struct fixture *f, size_t most)
{
	int r = frame_receive_header(&f->frame, f->here);

	return r == 1 ? frame_receive_body(&f->frame, f->here, most) : r;
}

static void frame_receive_byte_by_byte_is_complete_at_the_last(void **state)
{
	static const char bytes[] = "\x05\0\0\0hello";
	struct fixture *f = *state;

	for (size_t i = 0; i + 1 < sizeof(bytes); i++) {
		assert_int_equal(receive(f, ALL), -EAGAIN);
		put(f, bytes + i, 1);
	}
	assert_int_equal(receive(f, ALL), 1);
	assert_int_equal(f->frame.have, 5);
	assert_memory_equal(f->frame.text, "hello", 5);
}

static void frame_receive_leaves_the_next_frame_alone(void **state)
{
	struct fixture *f = *state;

	put(f, "\x01\0\0\0a\x01\0\0\0b", 10);
	assert_int_equal(receive(f, ALL), 1);
	assert_memory_equal(f->frame.text, "a", 1);
	frame_reset(&f->frame);
	assert_int_equal(receive(f, ALL), 1);
	assert_memory_equal(f->frame.text, "b", 1);
}

static void frame_receive_bounds_are_kept(void **state)
{
	struct fixture *f = *state;

	put(f, "\0\0\0\0", 4);
	assert_int_equal(receive(f, ALL), -EMSGSIZE);
	frame_reset(&f->frame);
	put(f, "\x01\0\0\x01", 4);
	assert_int_equal(receive(f, ALL), -EMSGSIZE);
}

static void frame_receive_memory_follows_what_came(void **state)
{
	struct fixture *f = *state;
	char part[10000];

	memset(part, 'x', sizeof(part));
	put(f, "\0\0\0\x01", 4); /* 16 MiB */
	put(f, part, sizeof(part));
	assert_int_equal(receive(f, ALL), -EAGAIN);
	assert_int_equal(f->frame.len, PROTO_FRAME_MAX);
	assert_int_equal(f->frame.have, sizeof(part));
	assert_true(f->frame.room <= 2 * sizeof(part));
	assert_memory_equal(f->frame.text, part, sizeof(part));
}

static void frame_receive_a_turn_is_bounded(void **state)
{
	struct fixture *f = *state;
	char text[1000];

	memset(text, 'x', sizeof(text));
	put(f, "\xe8\x03\0\0", 4);
	put(f, text, sizeof(text));
	for (size_t have = 100; have < sizeof(text); have += 100) {
		assert_int_equal(receive(f, 100), -EAGAIN);
		assert_int_equal(f->frame.have, have);
	}
	assert_int_equal(receive(f, 100), 1);
}

static void frame_receive_end_is_told_apart(void **state)
{
	struct fixture *f = *state;

	put(f, "\x05\0", 2);
	cleanup_fd(&f->there);
	assert_int_equal(receive(f, ALL), -ECONNRESET);
	frame_reset(&f->frame);
	assert_int_equal(receive(f, ALL), 0);
}

static void frame_receive_end_within_the_text_is_an_error(void **state)
{
	struct fixture *f = *state;

	put(f, "\x05\0\0\0he", 6);
	cleanup_fd(&f->there);
	assert_int_equal(receive(f, ALL), -ECONNRESET);
}

#define with_pair(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_pair(frame_receive_byte_by_byte_is_complete_at_the_last),
		with_pair(frame_receive_leaves_the_next_frame_alone),
		with_pair(frame_receive_bounds_are_kept),
		with_pair(frame_receive_memory_follows_what_came),
		with_pair(frame_receive_a_turn_is_bounded),
		with_pair(frame_receive_end_is_told_apart),
		with_pair(frame_receive_end_within_the_text_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
