// SPDX-License-Identifier: Apache-2.0
#include "fs/base/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int packet_send(int fd, const void *bytes, size_t len, int passed)
{
	union control control = { .head = { .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec part = { (void *)bytes, len };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

	if (passed >= 0) {
		memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
	}
	return sendmsg(fd, &packet, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t packet_receive(int fd, void *ret_bytes, size_t size, int flags, int *ret_passed)
{
	union control control;
	struct iovec part = { ret_bytes, size };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &packet, flags | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *head;

	*ret_passed = -1;
	if (n < 0)
		return -errno;
	head = CMSG_FIRSTHDR(&packet);
	/* Of more than one the kernel has closed the rest: there is room for one. */
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_passed, CMSG_DATA(head), sizeof(*ret_passed));
	return n;
}
