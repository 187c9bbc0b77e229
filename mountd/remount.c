// SPDX-License-Identifier: Apache-2.0
/*
 * remount: a volume brought back without its caller: from its record, and only where it is proven that
 * what is set up is what was set up, or where the caller has asked for it (persist).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/apart.h"
#include "mountd/finding.h"
#include "mountd/flow.h"
#include "mountd/holders.h"
#include "mountd/mount.h"
#include "mountd/setup_check.h"
#include "mountd/tree_identity.h"

#define DEAD_ANSWER_MS 2000
/* A server may outlive its keeper by a moment. */
#define DEAD_TRIES 10
#define DEAD_PAUSE_MS 100

static bool is_same_boot(const struct manager *m, const struct volume_record *vol)
{
	return vol->boot_id && strcmp(vol->boot_id, m->boot_id) == 0;
}

/* ---- proof ---- */

/* A plugin without a strategy has nothing that could prove it. */
static bool setup_is_proven(struct volume_work *work)
{
	return work->plugin->attributes.idempotency != IDEMPOTENCY_NONE &&
	       flow_is_set_up(work->plugin, &work->building);
}

/* The tree is the one that the run was for: file system and root directory. */
static bool tree_is_proven(struct manager *m, const struct volume_record *vol,
			   struct volume_work *work)
{
	AUTO(run_record) *run = NULL;
	AUTO_FREE char *tree = NULL;
	AUTO_FD int lower = -1;

	if (!vol->run_id)
		return true;
	return store_run_get(m->store, vol->run_id, &run) == 0 &&
	       work->plugin->open_lower(&work->building.b, &lower) == 0 &&
	       tree_identity(lower, m->boot_id, &tree) == 0 && strcmp(tree, run->tree) == 0;
}

bool remount_is_proven(struct manager *m, const struct volume_record *vol, char *ret_error)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX] = "";

	if (work_open(m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "what is set up cannot be looked at: %s",
			 why[0] ? why : "its directory is not there");
		return false;
	}
	if (!setup_is_proven(work) || !tree_is_proven(m, vol, work)) {
		snprintf(ret_error, ANSWER_TEXT_MAX,
			 "it is not proven that what is set up is what was set up");
		return false;
	}
	return true;
}

/* ---- the dead overlay ---- */

/* Whether nothing serves the mount any more. */
static bool is_dead(const struct target *target)
{
	return apart_ask(target->parent_fd, target->name, DEAD_ANSWER_MS) == -ENOTCONN;
}

/*
 * Takes our own dead overlay off the target. Those who still have files open there have lost them with the
 * server: that they hold the mount must not keep it from coming back.
 */
static int detach_dead(struct manager *m, struct volume_record *vol, char *ret_error)
{
	AUTO(target) *target = NULL;
	struct mount_view view;
	char holders[512];
	int r = target_open(vol->target_resolved, &target, ret_error);

	if (r < 0)
		return r;
	r = mount_look(target->parent_fd, target->name, &view);
	if (r < 0 || !view.is_root || view.id != vol->mount_id)
		return 0; /* what else is there the set-up flow looks at */
	for (int i = 1; i < DEAD_TRIES && !is_dead(target); i++)
		poll(NULL, 0, DEAD_PAUSE_MS);
	if (!is_dead(target)) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "something still serves the overlay");
		return -EBUSY;
	}
	/* Nobody is to think that somebody else has unmounted it (vanished.c). */
	r = store_volume_set_state(m->store, vol->id, VOLUME_SETTING_UP, vol->reason,
				   vol->mount_id);
	if (r < 0) {
		store_why(r, ret_error, ANSWER_TEXT_MAX);
		return r;
	}
	r = mount_detach(target->parent_fd, target->name, false, MOUNT_OVERLAY_MS);
	if (r == -EBUSY) {
		holders_describe(view.id, 0, holders, sizeof(holders));
		event(m, vol->id, "lost", "what was open in the dead overlay could not be kept: %s",
		      holders);
		r = mount_detach(target->parent_fd, target->name, true, MOUNT_OVERLAY_MS);
	}
	if (r < 0)
		snprintf(ret_error, ANSWER_TEXT_MAX, "taking the dead overlay away: %s",
			 strerror(-r));
	else
		vol->mount_id = 0;
	return r;
}

int remount(struct manager *m, struct volume_record *vol, char *ret_error)
{
	struct answer answer = { 0 };
	int r = 0;

	ret_error[0] = '\0';
	if (is_same_boot(m, vol) && vol->state == VOLUME_FAILED)
		r = detach_dead(m, vol, ret_error);
	if (r < 0) {
		(void)store_volume_set_state(m->store, vol->id, VOLUME_FAILED, ret_error,
					     vol->mount_id);
		return r;
	}
	/* Without its caller nothing is opened that a front end would have to be asked for, but for what persists. */
	if (mount_recorded(m, vol, vol->persist, &answer) != EXIT_OK) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", answer.error);
		r = -EIO;
	}
	answer_fini(&answer);
	return r;
}
