// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/packet.h"

struct ends {
	int fds[2];
};

static int set_up(void **state)
{
	static struct ends ends;

	*state = &ends;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.fds);
}

static int tear_down(void **state)
{
	struct ends *ends = *state;

	cleanup_fd(&ends->fds[0]);
	cleanup_fd(&ends->fds[1]);
	return 0;
}

static void packet_send_without_descriptor_none_arrives(void **state)
{
	struct ends *ends = *state;
	char bytes[8];
	int passed = 7;

	assert_int_equal(packet_send(ends->fds[0], "abc", 3, -1), 0);
	assert_int_equal(packet_receive(ends->fds[1], bytes, sizeof(bytes), 0, &passed), 3);
	assert_memory_equal(bytes, "abc", 3);
	assert_int_equal(passed, -1);
}

static void packet_send_with_descriptor_another_arrives(void **state)
{
	struct ends *ends = *state;
	AUTO_FD int passed = -1;
	char bytes[8], byte;
	int pipe_fds[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(packet_send(ends->fds[0], "abc", 3, pipe_fds[1]), 0);
	close(pipe_fds[1]);
	assert_int_equal(packet_receive(ends->fds[1], bytes, sizeof(bytes), 0, &passed), 3);
	assert_true(passed >= 0);
	assert_int_equal(fcntl(passed, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(passed, "x", 1), 1);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	close(pipe_fds[0]);
}

static void packet_receive_end_and_nothing_are_told_apart(void **state)
{
	struct ends *ends = *state;
	char bytes[8];
	int passed = 7;

	assert_int_equal(packet_receive(ends->fds[1], bytes, sizeof(bytes), MSG_DONTWAIT, &passed),
			 -EAGAIN);
	assert_int_equal(passed, -1);
	cleanup_fd(&ends->fds[0]);
	assert_int_equal(packet_receive(ends->fds[1], bytes, sizeof(bytes), 0, &passed), 0);
	assert_int_equal(packet_send(ends->fds[1], "abc", 3, -1), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packet_send_without_descriptor_none_arrives),
		TEST(packet_send_with_descriptor_another_arrives),
		TEST(packet_receive_end_and_nothing_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
