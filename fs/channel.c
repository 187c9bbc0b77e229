// SPDX-License-Identifier: Apache-2.0
#include "fs/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int channel_send(int fd, enum channel_kind kind, int error, const char *text)
{
	struct channel_message message;

	memset(&message, 0, sizeof(message));
	message.kind = kind;
	message.error = error;
	if (text)
		snprintf(message.text, sizeof(message.text), "%s", text);
	for (;;) {
		if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

int channel_receive(int fd, struct channel_message *ret_message)
{
	struct channel_message message;
	ssize_t n;

	do
		n = recv(fd, &message, sizeof(message), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(message))
		return -EPROTO;
	message.text[sizeof(message.text) - 1] = '\0';
	*ret_message = message;
	return 1;
}
