// SPDX-License-Identifier: Apache-2.0
#include "mountd/flex/device.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/flex/answer.h"

#define DEVICE_WAIT_MS 10000

/* What the options say of a device: {"device", "name"}. NULL: *ret_answer is the failure. */
static json_t *look_at_options(const struct flex_args *call, const char *text, json_t **ret_answer)
{
	char why[FLEX_MESSAGE_MAX] = "no memory";
	json_t *said = json_object();

	if (said && flex_options_apply(text, call->driver, FLEX_LOOK, said, why) == 0)
		return said;
	json_decref(said);
	*ret_answer = flex_failure("%s", why);
	return NULL;
}

/* kubelet names volumes itself, and so do we. */
json_t *flex_get_volume_name(const struct flex_args *call)
{
	json_t *answer = NULL, *said = look_at_options(call, call->args[0], &answer);
	json_t *name = json_object_get(said, "name");

	if (said)
		answer = name ? json_pack("{s:s, s:O}", "status", "Success", "volumeName", name) :
				flex_not_supported("getvolumename");
	json_decref(said);
	return answer;
}

json_t *flex_attach(const struct flex_args *call)
{
	json_t *answer = NULL, *said = look_at_options(call, call->args[0], &answer);

	if (said)
		answer = json_pack("{s:s, s:O}", "status", "Success", "device",
				   json_object_get(said, "device"));
	json_decref(said);
	return answer;
}

/* Older kubelets give the node first; a node's name does not begin with a brace. */
json_t *flex_is_attached(const struct flex_args *call)
{
	bool second = call->count > 1 && call->args[0][0] != '{';
	json_t *answer = NULL, *said = look_at_options(call, call->args[second ? 1 : 0], &answer);

	if (said)
		answer = json_pack("{s:s, s:b}", "status", "Success", "attached", 1);
	json_decref(said);
	return answer;
}

json_t *flex_detach(const struct flex_args *call)
{
	(void)call;
	return flex_success(NULL);
}

/* ---- waiting ---- */

/*
 * Whether @path leads to a block device now; *ret_path is where: links below /dev are udev's, the daemon
 * follows none. What else is there is not told: who writes a pod may not know.
 */
static bool is_there(const char *path, char ret_path[PATH_MAX])
{
	struct stat st;

	return realpath(path, ret_path) && lstat(ret_path, &st) == 0 && S_ISBLK(st.st_mode);
}

static void drain(int fd)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));

	(void)!read(fd, events, sizeof(events));
}

static bool await_device(const char *path, char ret_path[PATH_MAX])
{
	uint64_t end = clock_now_ms() + DEVICE_WAIT_MS, now;
	AUTO_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	AUTO_FREE char *dir = strdup(path);

	if (!dir)
		return is_there(path, ret_path);
	*(strrchr(dir, '/') + 1) = '\0';
	/* Watched before the look: what comes in between is an event. */
	if (fd < 0 || inotify_add_watch(fd, dir, IN_CREATE | IN_MOVED_TO | IN_ATTRIB) < 0)
		return is_there(path, ret_path);
	while (!is_there(path, ret_path)) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

		now = clock_now_ms();
		if (now >= end)
			return false;
		if (poll(&poll_fd, 1, (int)(end - now)) > 0)
			drain(fd);
	}
	return true;
}

json_t *flex_wait_for_attach(const struct flex_args *call)
{
	char found[PATH_MAX], quoted[256];
	const char *device = call->args[0];
	json_t *answer = NULL, *said = look_at_options(call, call->args[1], &answer);

	if (!said)
		return answer;
	json_decref(said);
	if (device[0] != '/')
		return flex_bad_path("device", device);
	if (!await_device(device, found))
		return flex_failure("device %s: no block device is there yet",
				    log_quote(device, quoted, sizeof(quoted)));
	return json_pack("{s:s, s:s}", "status", "Success", "device", found);
}

/* ---- mounting ---- */

json_t *flex_mount_device(const struct flex_args *call)
{
	const char *dir = call->args[0], *device = call->args[1];
	char why[FLEX_MESSAGE_MAX] = "no memory";
	json_t *request;

	if (dir[0] != '/')
		return flex_bad_path("mount directory", dir);
	if (device[0] != '/')
		return flex_bad_path("device", device);
	request = json_pack("{s:s, s:s, s:s, s:s}", "command", "stage", "frontEnd", "flexvolume",
			    "staging", dir, "device", device);
	if (request &&
	    flex_options_apply(call->args[2], call->driver, FLEX_STAGE, request, why) < 0) {
		json_decref(request);
		return flex_failure("%s", why);
	}
	return flex_ask(call->root, request);
}

/*
 * The device is the one that is staged there, and how large it is to be it says itself: what kubelet calls it by now
 * (nothing, after a restart of kubelet), and the two sizes, are not asked for.
 */
json_t *flex_expand_fs(const struct flex_args *call)
{
	const char *dir = call->args[2];
	json_t *answer = NULL, *said = look_at_options(call, call->args[0], &answer);

	if (!said)
		return answer;
	json_decref(said);
	if (dir[0] != '/')
		return flex_bad_path("mount directory", dir);
	return flex_ask(call->root, json_pack("{s:s, s:s}", "command", "expand", "volume", dir));
}

json_t *flex_unmount_device(const struct flex_args *call)
{
	const char *dir = call->args[0];

	if (dir[0] != '/')
		return flex_bad_path("mount directory", dir);
	return flex_ask(call->root, json_pack("{s:s, s:s}", "command", "unstage", "volume", dir));
}
