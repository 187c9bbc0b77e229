// SPDX-License-Identifier: Apache-2.0
#include "fs/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/base/cleanup.h"
#include "fs/base/packet.h"

static int send_message(int fd, const struct channel_message *message, int pin)
{
	int r;

	do
		r = packet_send(fd, message, sizeof(*message), pin);
	while (r == -EINTR);
	return r;
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

static int send_of_slot(int fd, enum channel_kind kind, uint32_t slot, int error, int descriptor)
{
	struct channel_message message;

	memset(&message, 0, sizeof(message));
	message.kind = kind;
	message.error = error;
	message.slot = slot;
	return send_message(fd, &message, descriptor);
}

int channel_send_drain(int fd, enum channel_kind kind, uint32_t number, int error)
{
	return send_of_slot(fd, kind, number, error, -1);
}

int channel_send_pin(int fd, uint32_t slot, int pin)
{
	return send_of_slot(fd, CHANNEL_PIN, slot, 0, pin);
}

int channel_send_stash(int fd, uint32_t cell, int end)
{
	return send_of_slot(fd, CHANNEL_STASH, cell, 0, end);
}

int channel_send_stashed(int fd, uint32_t cell)
{
	return send_of_slot(fd, CHANNEL_STASHED, cell, 0, -1);
}

int channel_send_fd(int fd, enum channel_kind kind, int descriptor)
{
	return send_of_slot(fd, kind, 0, 0, descriptor);
}

int channel_receive_pin(int fd, struct channel_message *ret_message, int *ret_pin)
{
	struct channel_message message;
	AUTO_FD int pin = -1;
	ssize_t n;

	do
		n = packet_receive(fd, &message, sizeof(message), 0, &pin);
	while (n == -EINTR);
	if (n <= 0)
		return n == -ECONNRESET ? 0 : (int)n;
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
