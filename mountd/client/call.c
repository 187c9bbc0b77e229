// SPDX-License-Identifier: Apache-2.0
#include "mountd/client/call.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "mountd/client/place.h"
#include "mountd/client/start.h"
#include "mountd/proto.h"

#define CALL_TRIES 5
#define ASK_LIMIT_S 2

/* A request that is asked again has less time left. */
static void shorten(json_t *request, uint64_t passed_ms)
{
	json_t *timeout = json_object_get(request, "timeoutMs");
	json_int_t left;

	if (!timeout)
		return;
	left = json_integer_value(timeout) - (json_int_t)passed_ms;
	json_object_set_new(request, "timeoutMs", json_integer(left > 0 ? left : 0));
}

static bool is_broken(int error)
{
	return error == 0 || error == -ECONNRESET || error == -EPIPE;
}

/* Whether the answers to it end only when nobody wants them any more. */
static bool is_endless(const json_t *request)
{
	return json_is_true(json_object_get(request, "watch")) ||
	       json_is_true(json_object_get(request, "follow"));
}

/*
 * Until something is there to be received. Who shows what changes ends with its reader, and not at the next change:
 * until then it would start a daemon again that somebody has stopped.
 */
static int await_frame(int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = STDOUT_FILENO } };

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return fds[1].revents & (POLLERR | POLLHUP) ? -ECANCELED : 0;
}

/* The replies to a request that was sent. 0: the end came before the last; else 1 or an error. */
static int receive(int fd, bool endless, client_frame_fn on_frame, void *arg, json_t **ret_frame)
{
	for (;;) {
		json_t *frame = NULL;
		int r = endless ? await_frame(fd) : 0;

		if (r == 0)
			r = proto_receive(fd, &frame);

		if (r <= 0)
			return r;
		if (!json_is_true(json_object_get(frame, "more"))) {
			*ret_frame = frame;
			return 1;
		}
		if (on_frame && !on_frame(arg, json_object_get(frame, "result"))) {
			json_object_del(frame, "result");
			*ret_frame = frame;
			return 1;
		}
		json_decref(frame);
	}
}

/* The path that the daemon is to find as the client does, or NULL. */
static const char *place_of(const json_t *request)
{
	const char *command = json_string_value(json_object_get(request, "command"));
	bool is_mounted = (command && strcmp(command, "remount") == 0) ||
			  json_is_true(json_object_get(request, "byHand"));
	const char *path =
		json_string_value(json_object_get(request, is_mounted ? "volume" : "target"));

	return path && path[0] == '/' ? path : NULL;
}

static int call(const char *root, const struct client_place *place, json_t *request,
		client_frame_fn on_frame, void *arg, json_t **ret_reply, char *ret_error,
		size_t size)
{
	int r = -ENOMEM;

	for (int i = 0; request && i < CALL_TRIES; i++) {
		uint64_t start = clock_now_ms();
		AUTO_FD int fd = -1;

		r = ctl_connect(root, &fd, ret_error, size);
		if (r < 0)
			return r;
		json_object_set_new(request, "version", json_integer(PROTO_VERSION));
		r = place->is_known ? proto_send_with(fd, request, place->fds) :
				      proto_send(fd, request);
		if (r == -EMSGSIZE) {
			snprintf(ret_error, size, "the request is larger than %u MiB",
				 PROTO_FRAME_MAX >> 20);
			return r;
		}
		/* Who is sent away before all is sent has been told why. */
		if (r == 0 || r == -EPIPE)
			r = receive(fd, is_endless(request), on_frame, arg, ret_reply);
		if (r > 0)
			return 0;
		if (!is_broken(r))
			break;
		shorten(request, clock_now_ms() - start);
	}
	snprintf(ret_error, size, "the daemon's answer: %s",
		 r == 0 ? "the connection ended" : strerror(-r));
	return r == 0 ? -ECONNRESET : r;
}

int client_call_in(const char *root, const char *space, json_t *request, client_frame_fn on_frame,
		   void *arg, json_t **ret_reply, char *ret_error, size_t size)
{
	struct client_place place = { 0 };
	const char *path = place_of(request);
	int r = path ? client_place_open(path, space, &place) : 0;

	if (r < 0) {
		snprintf(ret_error, size, "the mount namespace %.200s: %s", space ? space : "",
			 strerror(-r));
		return r;
	}
	r = call(root, &place, request, on_frame, arg, ret_reply, ret_error, size);
	client_place_close(&place);
	return r;
}

int client_call(const char *root, json_t *request, client_frame_fn on_frame, void *arg,
		json_t **ret_reply, char *ret_error, size_t size)
{
	return client_call_in(root, NULL, request, on_frame, arg, ret_reply, ret_error, size);
}

int client_ask_running(const char *root, json_t *request, json_t **ret_reply)
{
	const struct timeval limit = { .tv_sec = ASK_LIMIT_S };
	AUTO_FD int fd = -1;
	int r = ctl_connect_running(root, &fd);

	if (r < 0)
		return r;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (request)
		json_object_set_new(request, "version", json_integer(PROTO_VERSION));
	r = request ? proto_send_within(fd, request, ASK_LIMIT_S * 1000) : -ENOMEM;
	if (r == 0)
		r = receive(fd, false, NULL, NULL, ret_reply);
	return r > 0 ? 0 : r == 0 ? -ECONNRESET : r;
}

int client_reply_exit(const json_t *reply)
{
	const json_t *exit = json_object_get(reply, "exit");

	return json_is_integer(exit) ? (int)json_integer_value(exit) : EXIT_FAILED;
}

const char *client_reply_text(const json_t *reply, const char *key)
{
	return json_string_value(json_object_get(reply, key));
}
