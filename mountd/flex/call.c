// SPDX-License-Identifier: Apache-2.0
#include "mountd/flex/call.h"

#include <stdbool.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "mountd/flex/answer.h"
#include "mountd/flex/device.h"

static json_t *call_init(const struct flex_args *call)
{
	return json_pack("{s:s, s:{s:b, s:b, s:b, s:b, s:b}}", "status", "Success", "capabilities",
			 "attach", call->driver == FLEX_DEVICE, "fsGroup", 0, "selinuxRelabel", 0,
			 "requiresFSResize", call->driver == FLEX_DEVICE, "supportsMetrics", 1);
}

/* Of a device: a consumer of what mountdevice has staged, which the daemon finds by its source. */
static json_t *call_mount(const struct flex_args *call)
{
	char why[FLEX_MESSAGE_MAX] = "no memory";
	const char *dir = call->args[0];
	json_t *request;

	if (dir[0] != '/')
		return flex_bad_path("mount directory", dir);
	request = json_pack("{s:s, s:s, s:s}", "command", "mount", "frontEnd", "flexvolume",
			    "target", dir);
	if (request &&
	    flex_options_apply(call->args[1], call->driver, FLEX_MOUNT, request, why) < 0) {
		json_decref(request);
		return flex_failure("%s", why);
	}
	return flex_ask(call->root, request);
}

/* A path and nothing else: the store knows the rest, and what it does not know is not mounted. */
static json_t *call_unmount(const struct flex_args *call)
{
	const char *dir = call->args[0];

	if (dir[0] != '/')
		return flex_bad_path("mount directory", dir);
	return flex_ask(call->root, json_pack("{s:s, s:s}", "command", "unmount", "volume", dir));
}

static const struct {
	const char *command;
	int args;
	bool device_only;
	json_t *(*call)(const struct flex_args *call);
} rows[] = {
	{ "init", 0, false, call_init },
	{ "mount", 2, false, call_mount },
	{ "unmount", 1, false, call_unmount },
	{ "getvolumename", 1, true, flex_get_volume_name },
	{ "attach", 1, true, flex_attach },
	{ "waitforattach", 2, true, flex_wait_for_attach },
	{ "isattached", 1, true, flex_is_attached },
	{ "mountdevice", 3, true, flex_mount_device },
	{ "unmountdevice", 1, true, flex_unmount_device },
	{ "detach", 1, true, flex_detach },
	{ "expandfs", 5, true, flex_expand_fs },
	/* expandvolume is for who attaches: kubelet then asks for expandfs. */
};

enum flex_driver flex_driver_of(const char *self)
{
	const char *slash = strrchr(self, '/');

	return strcmp(slash ? slash + 1 : self, "device") == 0 ? FLEX_DEVICE : FLEX_VOLUME;
}

json_t *flex_call(const char *root, enum flex_driver driver, int argc, char **argv)
{
	const struct flex_args call = {
		.root = root,
		.driver = driver,
		.args = argv + 1,
		.count = argc - 1,
	};

	if (argc < 1)
		return flex_failure("a command is missing");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(argv[0], rows[i].command) != 0)
			continue;
		if (rows[i].device_only && driver != FLEX_DEVICE)
			break;
		if (argc - 1 < rows[i].args)
			return flex_failure("%s: %d arguments are needed, not %d", argv[0],
					    rows[i].args, argc - 1);
		return rows[i].call(&call);
	}
	return flex_not_supported(argv[0]);
}
