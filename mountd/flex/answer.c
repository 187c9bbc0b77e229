// SPDX-License-Identifier: Apache-2.0
#include "mountd/flex/answer.h"

#include <stdarg.h>
#include <stdio.h>

#include "fs/base/log.h"
#include "mountd/client/call.h"
#include "mountd/proto.h"

json_t *flex_failure(const char *format, ...)
{
	char text[FLEX_MESSAGE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return json_pack("{s:s, s:s}", "status", "Failure", "message", text);
}

json_t *flex_bad_path(const char *what, const char *path)
{
	char quoted[256];

	return flex_failure("%s %s: not an absolute path", what,
			    log_quote(path, quoted, sizeof(quoted)));
}

json_t *flex_success(const char *note)
{
	return note ? json_pack("{s:s, s:s}", "status", "Success", "message", note) :
		      json_pack("{s:s}", "status", "Success");
}

json_t *flex_not_supported(const char *command)
{
	char text[FLEX_MESSAGE_MAX], quoted[128];

	snprintf(text, sizeof(text), "%s: this driver has no such call",
		 log_quote(command, quoted, sizeof(quoted)));
	return json_pack("{s:s, s:s}", "status", "Not supported", "message", text);
}

json_t *flex_ask(const char *root, json_t *request)
{
	char why[FLEX_MESSAGE_MAX] = "no memory";
	json_t *reply = NULL, *answer;
	const char *error;
	int r;

	if (!request)
		return flex_failure("an argument is not valid UTF-8");
	r = client_call(root, request, NULL, NULL, &reply, why, sizeof(why));
	json_decref(request);
	if (r < 0)
		return flex_failure("%s", why);
	error = client_reply_text(reply, "error");
	if (client_reply_exit(reply) == EXIT_OK)
		answer = flex_success(client_reply_text(reply, "note"));
	else
		answer = flex_failure("%s", error ? error : "failed");
	json_decref(reply);
	return answer;
}
