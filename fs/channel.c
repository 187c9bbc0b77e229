// SPDX-License-Identifier: Apache-2.0
#include "fs/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/base/cleanup.h"

static int send_message(int fd, struct channel_message *message, int pin)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { message, sizeof(*message) };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

	if (pin >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &pin, sizeof(pin));
	}
	for (;;) {
		if (sendmsg(fd, &packet, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

int channel_send(int fd, enum channel_kind kind, int error, const char *text)
{
	struct channel_message message;

	memset(&message, 0, sizeof(message));
	message.kind = kind;
	message.error = error;
	if (text)
		snprintf(message.text, sizeof(message.text), "%s", text);
	return send_message(fd, &message, -1);
}

int channel_send_pin(int fd, uint32_t slot, int pin)
{
	struct channel_message message;

	memset(&message, 0, sizeof(message));
	message.kind = CHANNEL_PIN;
	message.slot = slot;
	return send_message(fd, &message, pin);
}

int channel_send_fd(int fd, enum channel_kind kind, int descriptor)
{
	struct channel_message message;

	memset(&message, 0, sizeof(message));
	message.kind = kind;
	return send_message(fd, &message, descriptor);
}

int channel_receive_pin(int fd, struct channel_message *ret_message, int *ret_pin)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct channel_message message;
	struct iovec part = { &message, sizeof(message) };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	const struct cmsghdr *head;
	AUTO_FD int pin = -1;
	ssize_t n;

	do
		n = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	head = CMSG_FIRSTHDR(&packet);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&pin, CMSG_DATA(head), sizeof(pin));
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(message))
		return -EPROTO;
	message.text[sizeof(message.text) - 1] = '\0';
	*ret_message = message;
	*ret_pin = take_fd(&pin);
	return 1;
}

int channel_receive(int fd, struct channel_message *ret_message)
{
	AUTO_FD int pin = -1;

	return channel_receive_pin(fd, ret_message, &pin);
}
