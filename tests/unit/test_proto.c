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

#include <sys/socket.h>

#include "fs/base/cleanup.h"
#include "mountd/proto.h"

struct pair {
	int here, there;
};

static struct pair pair_open(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	return (struct pair){ fds[0], fds[1] };
}

static void pair_close(struct pair *pair)
{
	cleanup_fd(&pair->here);
	cleanup_fd(&pair->there);
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, 0), len);
}

static void proto_header_round_trip(void **state)
{
	static const uint32_t lengths[] = { 1, 255, 256, 65536, PROTO_FRAME_MAX };
	unsigned char header[PROTO_HEADER_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint32_t len = 0;

		proto_header_encode(lengths[i], header);
		assert_int_equal(proto_header_decode(header, &len), 0);
		assert_int_equal(len, lengths[i]);
	}
	proto_header_encode(0x01020304, header);
	assert_memory_equal(header, "\x04\x03\x02\x01", 4);
}

static void proto_header_decode_bounds_are_kept(void **state)
{
	unsigned char header[PROTO_HEADER_BYTES];
	uint32_t len = 7;

	(void)state;
	proto_header_encode(0, header);
	assert_int_equal(proto_header_decode(header, &len), -EMSGSIZE);
	proto_header_encode(PROTO_FRAME_MAX + 1, header);
	assert_int_equal(proto_header_decode(header, &len), -EMSGSIZE);
	assert_int_equal(len, 7);
}

static void proto_send_frame_is_received(void **state)
{
	struct pair pair = pair_open();
	json_t *sent = json_pack("{s:s, s:i}", "command", "ping", "n", 3), *got = NULL;

	(void)state;
	assert_int_equal(proto_send(pair.here, sent), 0);
	assert_int_equal(proto_send(pair.here, sent), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(proto_receive(pair.there, &got), 1);
		assert_true(json_equal(sent, got));
		json_decref(got);
	}
	cleanup_fd(&pair.here);
	assert_int_equal(proto_receive(pair.there, &got), 0);
	json_decref(sent);
	pair_close(&pair);
}

static void assert_received(const void *bytes, size_t len, int expected)
{
	struct pair pair = pair_open();
	json_t *got = NULL;

	send_bytes(pair.here, bytes, len);
	cleanup_fd(&pair.here);
	assert_int_equal(proto_receive(pair.there, &got), expected);
	assert_null(got);
	pair_close(&pair);
}

static void proto_receive_bad_frames_are_refused(void **state)
{
	(void)state;
	assert_received("\x01\x00", 2, -ECONNRESET);
	assert_received("\x05\x00\x00\x00{}", 6, -ECONNRESET);
	assert_received("\x00\x00\x00\x00", 4, -EMSGSIZE);
	assert_received("\xff\xff\xff\xff", 4, -EMSGSIZE);
	assert_received("\x02\x00\x00\x00[]", 6, -EBADMSG);
	assert_received("\x02\x00\x00\x00{x", 6, -EBADMSG);
	assert_received("\x03\x00\x00\x00{}x", 7, -EBADMSG);
	assert_received("\x0d\x00\x00\x00{\"a\":1,\"a\":2}", 17, -EBADMSG);
}

static void proto_send_within_nobody_reads_times_out(void **state)
{
	struct pair pair = pair_open();
	AUTO_FREE char *text = calloc(1, 1 << 20);
	json_t *large;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', (1 << 20) - 1);
	large = json_pack("{s:s}", "text", text);
	assert_int_equal(proto_send_within(pair.here, large, 0), -ETIMEDOUT);
	assert_int_equal(proto_send_within(pair.here, large, 20), -ETIMEDOUT);
	json_decref(large);
	pair_close(&pair);
}

static void proto_send_nobody_there_is_told(void **state)
{
	struct pair pair = pair_open();
	json_t *object = json_pack("{s:i}", "n", 1);

	(void)state;
	cleanup_fd(&pair.there);
	assert_int_equal(proto_send(pair.here, object), -EPIPE);
	json_decref(object);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proto_header_round_trip),
		cmocka_unit_test(proto_header_decode_bounds_are_kept),
		cmocka_unit_test(proto_send_frame_is_received),
		cmocka_unit_test(proto_receive_bad_frames_are_refused),
		cmocka_unit_test(proto_send_within_nobody_reads_times_out),
		cmocka_unit_test(proto_send_nobody_there_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
