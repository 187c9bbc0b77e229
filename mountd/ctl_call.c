// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/ctl_start.h"
#include "mountd/proto.h"

#define CALL_TRIES 5

int ctl_fail(const struct ctl *ctl, int exit, const char *subject, const char *format, ...)
{
	char text[2048], quoted[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "fsgroupctl: %s%s%s: %s\n", ctl->command, subject ? " " : "",
		subject ? log_quote(subject, quoted, sizeof(quoted)) : "", text);
	return exit;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

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

/* The replies to a request that was sent. 0: the end came before the last; else 1 or an error. */
static int receive(int fd, ctl_frame_fn on_frame, void *arg, json_t **ret_frame)
{
	for (;;) {
		json_t *frame = NULL;
		int r = proto_receive(fd, &frame);

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

static int finish(const struct ctl *ctl, const char *subject, json_t *frame, json_t **ret_result)
{
	json_t *exit = json_object_get(frame, "exit");
	const char *error = json_string_value(json_object_get(frame, "error"));
	const char *note = json_string_value(json_object_get(frame, "note"));
	int status = json_is_integer(exit) ? (int)json_integer_value(exit) : EXIT_FAILED;

	if (status != EXIT_OK)
		ctl_fail(ctl, status, subject, "%s", error ? error : "failed");
	else if (note)
		ctl_fail(ctl, 0, subject, "note: %s", note);
	if (ret_result && status == EXIT_OK)
		*ret_result = json_incref(json_object_get(frame, "result"));
	json_decref(frame);
	return status;
}

int ctl_call(const struct ctl *ctl, const char *subject, json_t *request, ctl_frame_fn on_frame,
	     void *arg, json_t **ret_result)
{
	char why[1024];
	int r = -ENOMEM;

	if (ret_result)
		*ret_result = NULL;
	for (int i = 0; request && i < CALL_TRIES; i++) {
		uint64_t start = now_ms();
		json_t *frame = NULL;
		AUTO_FD int fd = -1;

		r = ctl_connect(ctl->root, &fd, why, sizeof(why));
		if (r < 0) {
			json_decref(request);
			return ctl_fail(ctl, EXIT_FAILED, subject, "%s", why);
		}
		r = proto_send(fd, request);
		if (r == 0)
			r = receive(fd, on_frame, arg, &frame);
		if (r > 0) {
			json_decref(request);
			return finish(ctl, subject, frame, ret_result);
		}
		if (!is_broken(r))
			break;
		shorten(request, now_ms() - start);
	}
	json_decref(request);
	return ctl_fail(ctl, EXIT_FAILED, subject, "the daemon's answer: %s",
			r == 0 ? "the connection ended" : strerror(-r));
}
