// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/frame.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* One frame with descriptors, received. */
static void receive(struct frame *frame, bool takes_fds)
{
	json_t *object = json_pack("{s:s}", "command", "mount");
	AUTO_FD int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int fds[PROTO_FDS] = { null_fd, null_fd };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(proto_send_with(pair[0], object, fds), 0);
	json_decref(object);
	*frame = (struct frame){ .takes_fds = takes_fds };
	assert_int_equal(frame_receive_header(frame, pair[1]), 1);
	assert_int_equal(frame_receive_body(frame, pair[1], SIZE_MAX), 1);
	assert_memory_equal(frame->text, "{\"command\":\"mount\"}", frame->have);
	close(pair[0]);
	close(pair[1]);
}

static void frame_has_what_was_sent_with_it(void **state)
{
	struct frame frame;
	int fds[PROTO_FDS];

	(void)state;
	receive(&frame, true);
	assert_true(frame.has_fds);
	memcpy(fds, frame.fds, sizeof(fds));
	for (size_t i = 0; i < PROTO_FDS; i++) {
		assert_true(is_open(fds[i]));
		assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	}
	frame_reset(&frame);
	assert_false(frame.has_fds);
	assert_true(frame.takes_fds);
	for (size_t i = 0; i < PROTO_FDS; i++)
		assert_false(is_open(fds[i]));
}

static void frame_of_others_has_none(void **state)
{
	struct frame frame;
	int next = dup(0), after;

	(void)state;
	close(next);
	receive(&frame, false);
	assert_false(frame.has_fds);
	frame_reset(&frame);
	after = dup(0);
	assert_int_equal(after, next);
	close(after);
}

/* A set is two: less is closed at once, and so is a second one. */
static void odd_numbers_are_closed(void **state)
{
	struct frame frame = { .takes_fds = true };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec part = { .iov_base = (char[]){ 2, 0, 0, 0 }, .iov_len = 4 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int pair[2], next, after;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &pair[0], sizeof(int));
	next = dup(0);
	close(next);
	assert_int_equal(sendmsg(pair[0], &message, 0), 4);
	assert_int_equal(frame_receive_header(&frame, pair[1]), 1);
	assert_false(frame.has_fds);
	after = dup(0);
	assert_int_equal(after, next);
	close(after);
	frame_reset(&frame);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_has_what_was_sent_with_it),
		cmocka_unit_test(frame_of_others_has_none),
		cmocka_unit_test(odd_numbers_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
