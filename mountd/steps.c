// SPDX-License-Identifier: Apache-2.0
#include "mountd/steps.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/manager_impl.h"

static const char *const names[STEP_COUNT] = {
	[STEP_MOUNT_CHECKED] = "mount.checked",
	[STEP_MOUNT_RECORDED] = "mount.recorded",
	[STEP_PLUGIN_BOUND] = "mount.plugin-bound",
	[STEP_WRAPPED_RECORDED] = "mount.wrapped-recorded",
	[STEP_WRAPPED_SET_UP] = "mount.wrapped-set-up",
	[STEP_WRAPPED_DONE] = "mount.wrapped-done",
	[STEP_MOUNT_SET_UP] = "mount.set-up",
	[STEP_MOUNT_DONE] = "mount.done",
	[STEP_TARGET_RECORDED] = "mount.target-recorded",
	[STEP_TARGET_MOUNTED] = "mount.target-mounted",
	[STEP_OVERLAY_STARTED] = "mount.overlay-started",
	[STEP_MOUNT_PRESENTED] = "mount.presented",
	[STEP_REFRESHED] = "refresh.refreshed",
	[STEP_UPDATE_RECORDED] = "update.recorded",
	[STEP_UNMOUNT_RECORDED] = "unmount.recorded",
	[STEP_UNMOUNT_DETACHED] = "unmount.detached",
	[STEP_UNMOUNT_ENDED] = "unmount.ended",
	[STEP_WRAPPED_TORN_DOWN] = "unmount.wrapped-torn-down",
	[STEP_UNMOUNT_TORN_DOWN] = "unmount.torn-down",
	[STEP_UNMOUNT_REMOVED] = "unmount.removed",
	[STEP_UNMOUNT_DELETED] = "unmount.deleted",
	[STEP_RUN_FINISHED] = "follow.finished",
	[STEP_STATE_CHANGED] = "follow.changed",
	[STEP_STATE_FOLLOWED] = "follow.followed",
	[STEP_STAGE_RECORDED] = "stage.recorded",
	[STEP_DEVICE_RECORDED] = "stage.device-recorded",
	[STEP_STAGE_MOUNTED] = "stage.mounted",
	[STEP_STAGE_DONE] = "stage.done",
	[STEP_UNSTAGE_RECORDED] = "unstage.recorded",
	[STEP_UNSTAGE_UNMOUNTED] = "unstage.unmounted",
	[STEP_UNSTAGE_REMOVED] = "unstage.removed",
	[STEP_UNSTAGE_DELETED] = "unstage.deleted",
};

const char *step_name(enum step step)
{
	assert((size_t)step < STEP_COUNT);
	return names[step];
}

void step_reached(struct manager *m, enum step step)
{
	bool crashes;

	pthread_mutex_lock(&m->lock);
	crashes = m->crash_times > 0 && m->crash_step == step && --m->crash_times == 0;
	pthread_mutex_unlock(&m->lock);
	if (crashes)
		_exit(128);
}

int step_crash_at(struct manager *m, const char *text)
{
	size_t len = strcspn(text, ":");
	uint64_t times = 1;

	if (text[len] == ':' && (parse_u64(text + len + 1, &times) < 0 || times == 0))
		return -EINVAL;
	for (int i = 0; i < STEP_COUNT; i++) {
		if (strlen(names[i]) != len || strncmp(names[i], text, len) != 0)
			continue;
		pthread_mutex_lock(&m->lock);
		m->crash_step = (enum step)i;
		m->crash_times = times;
		pthread_mutex_unlock(&m->lock);
		return 0;
	}
	return -EINVAL;
}
