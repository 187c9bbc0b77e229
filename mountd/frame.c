// SPDX-License-Identifier: Apache-2.0
#include "mountd/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

int frame_receive_header(struct frame *frame, int fd)
{
	while (frame->header_have < sizeof(frame->header)) {
		ssize_t n = receive(fd, frame->header + frame->header_have,
				    sizeof(frame->header) - frame->header_have);

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
	*frame = (struct frame){ .len = 0 };
}
