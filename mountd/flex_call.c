// SPDX-License-Identifier: Apache-2.0
#include "mountd/flex_call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/client.h"
#include "mountd/flex_options.h"
#include "mountd/proto.h"

#define MESSAGE_MAX 2048

json_t *flex_failure(const char *format, ...)
{
	char text[MESSAGE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return json_pack("{s:s, s:s}", "status", "Failure", "message", text);
}

static json_t *success(const char *note)
{
	return note ? json_pack("{s:s, s:s}", "status", "Success", "message", note) :
		      json_pack("{s:s}", "status", "Success");
}

/* One request; the daemon's refusal is the answer's message. */
static json_t *ask(const char *root, json_t *request)
{
	char why[MESSAGE_MAX] = "no memory";
	json_t *reply = NULL, *answer;
	const char *error;

	if (client_call(root, request, NULL, NULL, &reply, why, sizeof(why)) < 0)
		return flex_failure("%s", why);
	error = client_reply_text(reply, "error");
	if (client_reply_exit(reply) == EXIT_OK)
		answer = success(client_reply_text(reply, "note"));
	else
		answer = flex_failure("%s", error ? error : "failed");
	json_decref(reply);
	return answer;
}

static json_t *call_init(const char *root, char **args)
{
	(void)root;
	(void)args;
	return json_pack("{s:s, s:{s:b, s:b, s:b, s:b, s:b}}", "status", "Success", "capabilities",
			 "attach", 0, "fsGroup", 0, "selinuxRelabel", 0, "requiresFSResize", 0,
			 "supportsMetrics", 1);
}

static json_t *absolute_only(const char *what, const char *path)
{
	char quoted[256];

	return flex_failure("%s %s: not an absolute path", what,
			    log_quote(path, quoted, sizeof(quoted)));
}

static json_t *call_mount(const char *root, char **args)
{
	char why[MESSAGE_MAX] = "no memory";
	json_t *request, *answer;

	if (args[0][0] != '/')
		return absolute_only("mount directory", args[0]);
	request = json_pack("{s:s, s:s, s:s}", "command", "mount", "frontEnd", "flexvolume",
			    "target", args[0]);
	if (!request)
		return flex_failure("mount directory: not valid UTF-8");
	if (flex_options_apply(args[1], request, why, sizeof(why)) < 0)
		answer = flex_failure("%s", why);
	else
		answer = ask(root, request);
	json_decref(request);
	return answer;
}

/* A path and nothing else: the store knows the rest, and what it does not know is not mounted. */
static json_t *call_unmount(const char *root, char **args)
{
	json_t *request, *answer;

	if (args[0][0] != '/')
		return absolute_only("mount directory", args[0]);
	request = json_pack("{s:s, s:s}", "command", "unmount", "volume", args[0]);
	if (!request)
		return flex_failure("mount directory: not valid UTF-8");
	answer = ask(root, request);
	json_decref(request);
	return answer;
}

/* kubelet remembers this and does what it does for drivers without the command. */
static json_t *not_supported(const char *command)
{
	char text[MESSAGE_MAX], quoted[128];

	snprintf(text, sizeof(text), "%s: this driver has no such call",
		 log_quote(command, quoted, sizeof(quoted)));
	return json_pack("{s:s, s:s}", "status", "Not supported", "message", text);
}

static const struct {
	const char *command;
	int args;
	json_t *(*call)(const char *root, char **args);
} rows[] = {
	{ "init", 0, call_init },
	{ "mount", 2, call_mount },
	{ "unmount", 1, call_unmount },
};

json_t *flex_call(const char *root, int argc, char **argv)
{
	if (argc < 1)
		return flex_failure("a command is missing");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(argv[0], rows[i].command) != 0)
			continue;
		if (argc - 1 < rows[i].args)
			return flex_failure("%s: %d arguments are needed, not %d", argv[0],
					    rows[i].args, argc - 1);
		return rows[i].call(root, argv + 1);
	}
	return not_supported(argv[0]);
}
