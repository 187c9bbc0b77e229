// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/call.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "fs/base/log.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
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

bool ctl_ask_running(const struct ctl *ctl, json_t *request, json_t **ret_result)
{
	json_t *reply = NULL;
	int r = client_ask_running(ctl->root, request, &reply);
	bool answered = r == 0 && client_reply_exit(reply) == EXIT_OK;

	json_decref(request);
	if (answered)
		*ret_result = json_incref(json_object_get(reply, "result"));
	json_decref(reply);
	return answered;
}

int ctl_call(const struct ctl *ctl, const char *subject, json_t *request, client_frame_fn on_frame,
	     void *arg, json_t **ret_result)
{
	char why[1024];
	json_t *reply = NULL;
	int r;

	if (ret_result)
		*ret_result = NULL;
	if (ctl->dry_run && request)
		json_object_set_new(request, "dryRun", json_true());
	r = client_call(ctl->root, request, on_frame, arg, &reply, why, sizeof(why));
	json_decref(request);
	/* As if it had written. */
	if (r == -ECANCELED)
		raise(SIGPIPE);
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, subject, "%s", why);
	return finish(ctl, subject, reply, ret_result);
}

bool ctl_show_plan(const struct ctl *ctl, const json_t *result)
{
	const json_t *would = json_object_get(result, "would"), *item;
	size_t i;

	if (!ctl->dry_run || !json_is_array(would))
		return false;
	if (ctl->json) {
		show_json(result, false);
		return true;
	}
	json_array_foreach(would, i, item)
		show_line("would ", json_string_value(item));
	return true;
}

int ctl_call_plainly(const struct ctl *ctl, const char *subject, json_t *request, bool is_told)
{
	json_t *result = NULL;
	int exit = progress_call(ctl, subject, request, is_told, &result);

	if (exit == EXIT_OK && !ctl_show_plan(ctl, result) && ctl->json)
		show_json(result ? result : json_null(), false);
	json_decref(result);
	return exit;
}

int ctl_usage(const struct ctl *ctl, const char *what)
{
	return ctl_fail(ctl, EXIT_USAGE, NULL, "%s (fsgroupctl --help says more)", what);
}
