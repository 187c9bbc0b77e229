// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_call.h"

#include <stdarg.h>
#include <stdio.h>

#include "fs/base/log.h"
#include "mountd/proto.h"

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

static int finish(const struct ctl *ctl, const char *subject, json_t *frame, json_t **ret_result)
{
	const char *error = client_reply_text(frame, "error");
	const char *note = client_reply_text(frame, "note");
	int status = client_reply_exit(frame);

	if (status != EXIT_OK)
		ctl_fail(ctl, status, subject, "%s", error ? error : "failed");
	else if (note)
		ctl_fail(ctl, 0, subject, "note: %s", note);
	if (ret_result && status == EXIT_OK)
		*ret_result = json_incref(json_object_get(frame, "result"));
	json_decref(frame);
	return status;
}

int ctl_call(const struct ctl *ctl, const char *subject, json_t *request, client_frame_fn on_frame,
	     void *arg, json_t **ret_result)
{
	char why[1024];
	json_t *reply = NULL;
	int r;

	if (ret_result)
		*ret_result = NULL;
	r = client_call(ctl->root, request, on_frame, arg, &reply, why, sizeof(why));
	json_decref(request);
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, subject, "%s", why);
	return finish(ctl, subject, reply, ret_result);
}
