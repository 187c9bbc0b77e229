// SPDX-License-Identifier: Apache-2.0
#include "mountd/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM_FIRST 4096

/* One recv() that does not block: bytes, 0 (closed), -EAGAIN, or another error. */
static ssize_t receive(int fd, void *buf, size_t len)
{
	ssize_t n;

	do {
		n = recv(fd, buf, len, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Descriptors that were received: ours as one set, or closed. */
static void keep_fds(struct frame *frame, const int *fds, size_t count)
{
	if (count == PROTO_FDS && !frame->has_fds) {
		memcpy(frame->fds, fds, sizeof(frame->fds));
		frame->has_fds = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

/* As receive(), and takes the descriptors that come with it. */
static ssize_t receive_with(struct frame *frame, int fd, void *buf, size_t len)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PROTO_FDS * sizeof(int))];
	} control;
	struct iovec part = { .iov_base = buf, .iov_len = len };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	do {
		n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head;
	     head = CMSG_NXTHDR(&message, head)) {
		int fds[PROTO_FDS];
		size_t bytes = head->cmsg_len - CMSG_LEN(0);

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
		    bytes > sizeof(fds))
			continue;
		memcpy(fds, CMSG_DATA(head), bytes);
		keep_fds(frame, fds, bytes / sizeof(int));
	}
	return n;
}

int frame_receive_header(struct frame *frame, int fd)
{
	while (frame->header_have < sizeof(frame->header)) {
		void *at = frame->header + frame->header_have;
		size_t len = sizeof(frame->header) - frame->header_have;
		ssize_t n =
			frame->takes_fds ? receive_with(frame, fd, at, len) : receive(fd, at, len);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return frame->header_have == 0 ? 0 : -ECONNRESET;
		frame->header_have += (size_t)n;
	}
	if (frame->len > 0)
		return 1;
	if (proto_header_decode(frame->header, &frame->len) < 0)
		return -EMSGSIZE;
	return 1;
}

/* Not realloc(): it would leave a copy behind. */
static int grow(struct frame *frame)
{
	size_t room = frame->room ? 2 * frame->room : ROOM_FIRST;
	char *text;

	if (room > frame->len)
		room = frame->len;
	text = malloc(room);
	if (!text)
		return -ENOMEM;
	if (frame->text) {
		memcpy(text, frame->text, frame->have);
		explicit_bzero(frame->text, frame->have);
		free(frame->text);
	}
	frame->text = text;
	frame->room = room;
	return 0;
}

int frame_receive_body(struct frame *frame, int fd, size_t most)
{
	size_t taken = 0;

	while (frame->have < frame->len) {
		size_t want;
		ssize_t n;

		if (taken >= most)
			return -EAGAIN;
		if (frame->have == frame->room && grow(frame) < 0)
			return -ENOMEM;
		want = frame->room - frame->have;
		n = receive(fd, frame->text + frame->have, want < most ? want : most);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return -ECONNRESET;
		frame->have += (size_t)n;
		taken += (size_t)n;
	}
	return 1;
}

void frame_reset(struct frame *frame)
{
	if (frame->text)
		explicit_bzero(frame->text, frame->have);
	free(frame->text);
	for (size_t i = 0; frame->has_fds && i < PROTO_FDS; i++)
		close(frame->fds[i]);
	*frame = (struct frame){ .takes_fds = frame->takes_fds };
}
