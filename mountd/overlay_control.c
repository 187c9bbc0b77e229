// SPDX-License-Identifier: Apache-2.0
#include "mountd/overlay_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "fs/base/packet.h"
#include "fs/base/parse.h"
#include "fs/base/process.h"
#include "mountd/overlays.h"
#include "mountd/path.h"

#define BACKLOG 128
#define CONNECT_MS 500 /* as long as a keeper may have too many calls to take one more */
#define LOOK_MS 200    /* between two looks at who does not answer */

static int socket_name(const char *volume_id, char *ret_name, size_t size)
{
	int n = snprintf(ret_name, size, "%s.sock", volume_id);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int control_connect(const struct control_dir *dir, const char *volume_id, int *ret_fd)
{
	struct sockaddr_un address;
	char name[VOLUME_ID_MAX + 8];
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t len;

	if (fd < 0)
		return -errno;
	if (socket_name(volume_id, name, sizeof(name)) < 0)
		return -ENAMETOOLONG;
	control_limit(fd, CONNECT_MS);
	len = path_socket_address(dir->fd, dir->path, name, &address);
	if (connect(fd, (struct sockaddr *)&address, len) < 0)
		return errno == EAGAIN ? -EHOSTDOWN : -errno;
	control_limit(fd, OVERLAY_REQUEST_MS);
	*ret_fd = take_fd(&fd);
	return 0;
}

int control_send(int fd, const char *verb, const char *key, const char *value)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX);
	struct keyval_writer w;

	if (!text)
		return -ENOMEM;
	keyval_begin(&w, text, verb);
	if (key)
		keyval_add(&w, key, "%s", value);
	if (w.overflow)
		return -EMSGSIZE;
	if (send(fd, text, w.len, MSG_NOSIGNAL) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return 0;
}

int control_send_fd(int fd, const char *verb, int descriptor)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s\n", verb);
	int r = packet_send(fd, text, (size_t)n, descriptor);

	return r == -EAGAIN ? -ETIMEDOUT : r;
}

void control_limit(int fd, uint64_t ms)
{
	struct timeval timeout = { .tv_sec = (time_t)(ms / 1000),
				   .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

/* Whoever is to answer is stopped: by a signal or a debugger, and perhaps for ever. */
static bool peer_is_stopped(int fd)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0 &&
	       process_is_stopped(peer.pid, peer.pid);
}

/* Returns 0 when there is something to read. */
static int await_message(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct timeval limit = { .tv_sec = OVERLAY_REQUEST_MS / 1000 };
	socklen_t len = sizeof(limit);
	unsigned stopped = 0;

	(void)getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &len); /* control_limit() */
	for (int64_t left = limit.tv_sec * 1000 + limit.tv_usec / 1000; left > 0; left -= LOOK_MS) {
		int n = poll(&poll_fd, 1, LOOK_MS);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		/* Twice: one that is only looked at by a debugger goes on. */
		stopped = peer_is_stopped(fd) ? stopped + 1 : 0;
		if (stopped == 2)
			return -EHOSTDOWN;
	}
	return -ETIMEDOUT;
}

int control_receive(int fd, char *ret_text)
{
	int r = await_message(fd);
	ssize_t n;

	if (r < 0)
		return r;
	do {
		n = recv(fd, ret_text, KEYVAL_MAX, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : errno == ECONNRESET ? -EPIPE : -errno;
	if (n == 0)
		return -EPIPE;
	ret_text[n] = '\0';
	return 0;
}

int control_error(const char *message, char *ret_error)
{
	char number[16], text[OVERLAY_ERROR_MAX];
	uint32_t error = EIO;

	if (!keyval_verb_is(message, "error"))
		return 0;
	if (keyval_get(message, "errno", number, sizeof(number)) > 0)
		(void)parse_u32(number, &error);
	if (error == 0 || error > 4095)
		error = EIO;
	if (keyval_get(message, "message", text, sizeof(text)) <= 0)
		snprintf(text, sizeof(text), "%s", strerror((int)error));
	if (ret_error)
		snprintf(ret_error, OVERLAY_ERROR_MAX, "%s", text);
	return -(int)error;
}

int control_listen(const struct control_dir *dir, const char *volume_id, int *ret_fd)
{
	struct sockaddr_un address;
	char name[VOLUME_ID_MAX + 8];
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	socklen_t len;

	if (fd < 0)
		return -errno;
	if (socket_name(volume_id, name, sizeof(name)) < 0)
		return -ENAMETOOLONG;
	if (unlinkat(dir->fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	len = path_socket_address(dir->fd, dir->path, name, &address);
	if (bind(fd, (struct sockaddr *)&address, len) < 0)
		return -errno;
	if (fchmodat(dir->fd, name, 0600, 0) < 0 || listen(fd, BACKLOG) < 0) {
		int r = -errno;

		unlinkat(dir->fd, name, 0);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int control_link(const struct control_dir *dir, const char *volume_id, const char *other_id)
{
	char from[VOLUME_ID_MAX + 8], to[VOLUME_ID_MAX + 8];

	if (socket_name(volume_id, from, sizeof(from)) < 0 ||
	    socket_name(other_id, to, sizeof(to)) < 0)
		return -ENAMETOOLONG;
	if (unlinkat(dir->fd, to, 0) < 0 && errno != ENOENT)
		return -errno;
	return linkat(dir->fd, from, dir->fd, to, 0) < 0 ? -errno : 0;
}

void control_remove(const struct control_dir *dir, const char *volume_id)
{
	char name[VOLUME_ID_MAX + 8];

	if (socket_name(volume_id, name, sizeof(name)) == 0)
		unlinkat(dir->fd, name, 0);
}
