// SPDX-License-Identifier: Apache-2.0
#include "mountd/proto.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"

int proto_header_decode(const unsigned char header[PROTO_HEADER_BYTES], uint32_t *ret_len)
{
	uint32_t len = (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16 |
		       (uint32_t)header[3] << 24;

	if (len == 0 || len > PROTO_FRAME_MAX)
		return -EMSGSIZE;
	*ret_len = len;
	return 0;
}

void proto_header_encode(uint32_t len, unsigned char ret_header[PROTO_HEADER_BYTES])
{
	for (int i = 0; i < PROTO_HEADER_BYTES; i++)
		ret_header[i] = (unsigned char)(len >> (8 * i));
}

int proto_parse(const char *text, size_t len, json_t **ret_object)
{
	json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(object)) {
		json_decref(object);
		return -EBADMSG;
	}
	*ret_object = object;
	return 0;
}

/* Reads exactly @len bytes. Returns how many there were: less than @len means that the peer closed. */
static ssize_t receive_all(int fd, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(fd, (char *)buf + got, len - got, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int proto_receive(int fd, json_t **ret_object)
{
	unsigned char header[PROTO_HEADER_BYTES];
	AUTO_FREE char *text = NULL;
	uint32_t len = 0;
	ssize_t n;
	int r;

	n = receive_all(fd, header, sizeof(header));
	if (n <= 0)
		return (int)n;
	if ((size_t)n < sizeof(header))
		return -ECONNRESET;
	r = proto_header_decode(header, &len);
	if (r < 0)
		return r;
	text = malloc(len);
	if (!text)
		return -ENOMEM;
	n = receive_all(fd, text, len);
	if (n < 0)
		return (int)n;
	if ((size_t)n < len)
		return -ECONNRESET;
	r = proto_parse(text, len, ret_object);
	/* The text may hold a payload: it must not linger on the heap. */
	explicit_bzero(text, len);
	return r < 0 ? r : 1;
}

/* Waits until more can be sent. 0, -ETIMEDOUT, or poll()'s error. */
static int await_room(int fd, uint64_t deadline_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
	uint64_t now = clock_now_ms();
	int r = now >= deadline_ms	    ? 0 :
		deadline_ms - now > INT_MAX ? poll(&poll_fd, 1, INT_MAX) :
					      poll(&poll_fd, 1, (int)(deadline_ms - now));

	if (r < 0 && errno != EINTR)
		return -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

static int send_all(int fd, const void *buf, size_t len, int flags, uint64_t deadline_ms)
{
	size_t sent = 0;

	while (sent < len) {
		ssize_t n = send(fd, (const char *)buf + sent, len - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT | flags);
		int r = n < 0 ? -errno : 0;

		if (r == -EAGAIN)
			r = await_room(fd, deadline_ms);
		if (r < 0 && r != -EINTR)
			return r;
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* What can be sent in one message with descriptors. Blocks. */
static ssize_t send_with(int fd, const void *buf, size_t len, const int fds[PROTO_FDS])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PROTO_FDS * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec part = { .iov_base = (void *)buf, .iov_len = len };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	ssize_t n;

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(PROTO_FDS * sizeof(int));
	memcpy(CMSG_DATA(head), fds, PROTO_FDS * sizeof(int));
	do {
		n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_MORE);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int send_until(int fd, const json_t *object, const int *fds, uint64_t deadline_ms)
{
	unsigned char header[PROTO_HEADER_BYTES];
	AUTO_FREE char *text = json_dumps(object, JSON_COMPACT);
	ssize_t begun = 0;
	size_t len;
	int r;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	if (len > PROTO_FRAME_MAX) {
		r = -EMSGSIZE;
	} else {
		proto_header_encode((uint32_t)len, header);
		if (fds)
			begun = send_with(fd, header, sizeof(header), fds);
		r = begun < 0 ? (int)begun :
				send_all(fd, header + begun, sizeof(header) - (size_t)begun,
					 MSG_MORE, deadline_ms);
		if (r == 0)
			r = send_all(fd, text, len, 0, deadline_ms);
	}
	explicit_bzero(text, len);
	return r;
}

int proto_send(int fd, const json_t *object)
{
	return send_until(fd, object, NULL, UINT64_MAX);
}

int proto_send_within(int fd, const json_t *object, uint64_t timeout_ms)
{
	return send_until(fd, object, NULL, clock_now_ms() + timeout_ms);
}

int proto_send_with(int fd, const json_t *object, const int fds[PROTO_FDS])
{
	return send_until(fd, object, fds, UINT64_MAX);
}

int proto_keep_secret(void)
{
	const struct rlimit none = { 0, 0 };

	return prctl(PR_SET_DUMPABLE, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ? -errno : 0;
}

static void wipe_and_free(void *memory)
{
	if (memory)
		explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

void proto_wipe_json(void)
{
	json_set_alloc_funcs(malloc, wipe_and_free);
}
