// SPDX-License-Identifier: Apache-2.0
/*
 * reconstruct: what is on record is compared with what is there: mounts, keepers, directories. Each
 * volume is brought to the one state that loses nothing. Consumers are not disturbed: what is in use is
 * never unmounted, and what nobody knows is never removed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/finding.h"
#include "mountd/mount.h"
#include "mountd/mount_list.h"
#include "mountd/tree_identity.h"
#include "store/dump.h"

static const char *const action_names[] = {
	[ACTION_REBUILD] = "rebuild",
	[ACTION_ADOPT] = "adopt",
	[ACTION_REMOUNT] = "remount",
	[ACTION_FINISH_SET_UP] = "finish set-up",
	[ACTION_FINISH_TEAR_DOWN] = "finish tear-down",
	[ACTION_MARK_ABSENT] = "mark absent",
	[ACTION_REPORT] = "report only",
};

void found(struct findings *f, const char *volume, enum finding_action action, const char *error,
	   const char *format, ...)
{
	char text[ANSWER_TEXT_MAX / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (f->rows)
		json_array_append_new(f->rows, json_pack("{s:s?, s:s, s:s, s:s?}", "volume", volume,
							 "found", text, "action",
							 action_names[action], "error", error));
	/* What is only reported is not said again with each look. */
	if (!f->dry_run && (action != ACTION_REPORT || f->starting))
		event(f->m, volume, error ? "reconstruct-failed" : "reconstructed",
		      "%s: %s%s%.200s", text, action_names[action], error ? ": " : "",
		      error ? error : "");
}

/* @target: NULL when its parent is not there. */
static bool look_at(const struct target *target, struct mount_view *ret_view)
{
	return target && mount_look(target->parent_fd, target->name, ret_view) == 0 &&
	       ret_view->is_root;
}

static void set_state(struct findings *f, const struct volume_record *vol, enum volume_state state,
		      const char *reason, uint64_t mount_id)
{
	int r = f->dry_run ? 0 :
			     store_volume_set_state(f->m->store, vol->id, state, reason, mount_id);

	if (r < 0)
		log_line(LOG_WARNING, "reconstruct",
			 "vol=%s ignoring that its state is not on record: %s", vol->id,
			 strerror(-r));
}

static void mark_absent(struct findings *f, const struct volume_record *vol, const char *why)
{
	set_state(f, vol, VOLUME_ABSENT, why, 0);
	if (!f->dry_run)
		live_remove(f->m, vol->id);
	found(f, vol->id, ACTION_MARK_ABSENT, NULL, "%s", why);
}

static void mark_failed(struct findings *f, const struct volume_record *vol, const char *why)
{
	if (vol->state != VOLUME_FAILED || !vol->reason || strcmp(vol->reason, why) != 0)
		set_state(f, vol, VOLUME_FAILED, why, vol->mount_id);
}

/* The tree that the volume shows, for conflicts with volumes to come: from its run, or looked at again. */
static void remember_live(struct manager *m, const struct volume_record *vol, bool is_virtual)
{
	AUTO(run_record) *run = NULL;
	AUTO(volume_work) *work = NULL;
	AUTO_FREE char *tree = NULL, *wanted = NULL, *text = NULL;
	AUTO_FD int lower = -1;
	char why[PLUGIN_ERROR_MAX];

	if (vol->run_id && store_run_get(m->store, vol->run_id, &run) == 0) {
		(void)live_add(m, vol->id, run->tree, run->wanted);
		return;
	}
	if (!is_virtual || work_open(m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0)
		return;
	wanted = wanted_text(vol);
	if (!wanted || asprintf(&text, "virtual;%s", wanted) < 0) {
		text = NULL;
		return;
	}
	if (work->plugin->open_lower(&work->building.b, &lower) == 0 &&
	    tree_identity(lower, m->boot_id, &tree) == 0)
		(void)live_add(m, vol->id, tree, text);
}

/* ---- keepers ---- */

enum keeper { KEEPER_FOLLOWED, KEEPER_GONE };

static void adopt(struct findings *f, const struct volume_record *vol, struct overlay *o,
		  const struct overlay_status *status, const struct mount_view *view)
{
	struct manager *m = f->m;
	bool corrects = vol->state == VOLUME_SETTING_UP || vol->state == VOLUME_FAILED;

	if (!f->dry_run) {
		remember_live(m, vol, status->state == VOLUME_VIRTUAL);
		if (status->state != VOLUME_NATIVE)
			live_set_dev(m, vol->id, view->dev);
		if (corrects)
			set_state(f, vol, status->state, status->reason[0] ? status->reason : NULL,
				  view->id);
		if (overlay_attach(o, vol->id, false) < 0) {
			found(f, vol->id, ACTION_ADOPT, strerror(ENOMEM), "its keeper is running");
			return;
		}
	}
	/* At the daemon's start every keeper is adopted: only those that change something are worth a row. */
	if (!f->starting || corrects)
		found(f, vol->id, ACTION_ADOPT, NULL,
		      "its keeper is running, and the record said %s",
		      volume_state_name(vol->state));
}

static enum keeper look_at_keeper(struct findings *f, const struct volume_record *vol,
				  const struct target *target)
{
	AUTO(overlay) *o = overlay_find(f->m->overlays, vol->id);
	bool attached = o && !overlay_is_gone(o);
	struct overlay_status status;
	struct mount_view view;
	int r;

	if (!attached) {
		overlay_unref(o);
		o = NULL;
		r = overlay_adopt(f->m->overlays, vol->id, &o);
		if (r == -ENOENT || r == -ECONNREFUSED)
			return KEEPER_GONE;
		if (r < 0) {
			found(f, vol->id, ACTION_REPORT, NULL, "its keeper does not answer: %s",
			      r == -EHOSTDOWN ? "it is stopped" : strerror(-r));
			mend_later(f->m);
			return KEEPER_FOLLOWED;
		}
	}
	overlay_status_get(o, &status);
	/* One that has just ended: what it said last, a hand-off perhaps, is for its follower to put on record. */
	if (attached && overlay_refresh(o, &status) == -EPIPE) {
		(void)overlay_wait_gone(o, OVERLAY_GONE_MS);
		return KEEPER_GONE;
	}
	/*
	 * Looked at only now: a keeper that was just starting answers once it has mounted. One whose
	 * overlay is at no target of ours any more only waits for its last users.
	 */
	if (look_at(target, &view) && (view.id == status.mount_id || view.id == vol->mount_id)) {
		if (!attached)
			adopt(f, vol, o, &status, &view);
		return KEEPER_FOLLOWED;
	}
	if (!attached)
		return KEEPER_GONE;
	/* A hand-off may just have come between the two looks; it does not come twice. */
	if (overlay_refresh(o, &status) < 0 ||
	    (look_at(target, &view) && view.id == status.mount_id))
		return KEEPER_FOLLOWED;
	/* Somebody still uses it. */
	return KEEPER_GONE;
}

/* ---- what nobody serves ---- */

static void dead_overlay(struct findings *f, struct volume_record *vol)
{
	static const char why[] = "the overlay's keeper has ended";
	char error[ANSWER_TEXT_MAX] = "";

	mark_failed(f, vol, why);
	if (f->starting)
		return;
	if (!remount_is_proven(f->m, vol, error)) {
		found(f, vol->id, ACTION_REPORT, NULL, "%s, and %s", why, error);
		return;
	}
	if (!f->dry_run && !mend_is_allowed(f->m, vol->id)) {
		found(f, vol->id, ACTION_REPORT, NULL, "%s, again and again", why);
		return;
	}
	if (f->dry_run || remount(f->m, vol, error) == 0)
		found(f, vol->id, ACTION_REMOUNT, NULL, "%s", why);
	else
		found(f, vol->id, ACTION_REMOUNT, error, "%s", why);
}

static void finish_set_up(struct findings *f, struct volume_record *vol)
{
	static const char what[] = "its set-up was interrupted";
	char error[ANSWER_TEXT_MAX] = "";

	if (f->starting)
		return;
	if (f->dry_run || remount(f->m, vol, error) == 0)
		found(f, vol->id, ACTION_FINISH_SET_UP, NULL, "%s", what);
	else
		found(f, vol->id, ACTION_FINISH_SET_UP, error, "%s", what);
}

static void finish_tear_down(struct findings *f, struct volume_record *vol)
{
	static const char what[] = "its tear-down was interrupted";
	char error[ANSWER_TEXT_MAX] = "";
	int r = 0;

	if (f->starting)
		return;
	if (!f->dry_run) {
		r = teardown(f->m, vol, false, KEEP_NOTHING, error);
		if (r == 0)
			r = store_volume_delete(f->m->store, vol->id);
		if (r < 0 && !error[0])
			snprintf(error, sizeof(error), "%s", strerror(-r));
		if (r < 0)
			(void)store_volume_set_state(f->m->store, vol->id, VOLUME_TEARING_DOWN,
						     error, vol->mount_id);
	}
	found(f, vol->id, ACTION_FINISH_TEAR_DOWN, r < 0 ? error : NULL, "%s", what);
}

/* No keeper answers. */
static void judge(struct findings *f, struct volume_record *vol, const struct target *target)
{
	static const char foreign[] = "something that is not ours is mounted at the target";
	struct mount_view view = { 0 };
	bool mounted = look_at(target, &view);

	if (vol->state == VOLUME_SETTING_UP) {
		finish_set_up(f, vol);
	} else if (!mounted && vol->mount_id != 0 && mount_is_present(vol->mount_id)) {
		found(f, vol->id, ACTION_REPORT, NULL,
		      "its mount is not at the target, but at another place");
	} else if (!mounted) {
		vanished(f, vol);
	} else if (view.id == vol->mount_id && vol->mount_id != 0) {
		if (vol->state != VOLUME_NATIVE)
			dead_overlay(f, vol);
		else if (f->starting)
			remember_live(f->m, vol, false);
	} else if (was_handed_off(f->m, vol, target, &view)) {
		set_state(f, vol, VOLUME_NATIVE, NULL, view.id);
		if (!f->dry_run)
			remember_live(f->m, vol, false);
		found(f, vol->id, ACTION_ADOPT, NULL, "it was handed off while nobody listened");
	} else {
		mark_failed(f, vol, foreign);
		found(f, vol->id, ACTION_REPORT, NULL, "%s", foreign);
	}
}

/*
 * In another boot nothing of it is there, and nothing is mounted, checked or formatted before its caller asks
 * again: it was asked to persist, or it waits.
 */
static void judge_other_boot(struct findings *f, struct volume_record *vol)
{
	static const char restarted[] = "the machine has been restarted";
	char error[ANSWER_TEXT_MAX] = "";

	if (vol->state == VOLUME_TEARING_DOWN) {
		found(f, vol->id, ACTION_REPORT, NULL,
		      "its tear-down was interrupted before %s: the next unmount finishes it",
		      restarted);
		return;
	}
	if (vol->persist && !f->starting) {
		if (f->dry_run || remount(f->m, vol, error) == 0)
			found(f, vol->id, ACTION_REMOUNT, NULL, "%s, and it persists", restarted);
		else
			found(f, vol->id, ACTION_REMOUNT, error, "%s, and it persists", restarted);
		return;
	}
	if (vol->state != VOLUME_ABSENT)
		mark_absent(f, vol, restarted);
}

static bool is_of_this_boot(const struct manager *m, const struct volume_record *vol)
{
	return vol->boot_id && strcmp(vol->boot_id, m->boot_id) == 0;
}

void reconstruct_volume(struct findings *f, struct volume_record *vol)
{
	AUTO(target) *target = NULL;
	AUTO(volume_record) *now = NULL;
	char why[TARGET_ERROR_MAX];

	if (!vol->target) {
		stage_reconstruct(f, vol);
		return;
	}
	if (!is_of_this_boot(f->m, vol)) {
		judge_other_boot(f, vol);
		return;
	}
	if (vol->state == VOLUME_ABSENT || !vol->target_resolved)
		return;
	if (vol->state == VOLUME_TEARING_DOWN) {
		finish_tear_down(f, vol);
		return;
	}
	if (target_open(vol->target_resolved, &target, why) == -ETIMEDOUT) {
		found(f, vol->id, ACTION_REPORT, NULL, "%s", why);
		mend_later(f->m);
		return;
	}
	/* Read again: whoever followed the keeper may have written since. */
	if (look_at_keeper(f, vol, target) == KEEPER_GONE &&
	    store_volume_by_id(f->m->store, vol->id, &now) == 0)
		judge(f, now, target);
}

/* A volume that a request works on is that request's business. */
static void reconstruct_one(struct findings *f, const char *id)
{
	AUTO(volume_record) *vol = NULL;

	if (key_try_lock(f->m, id) < 0)
		return;
	if (store_volume_by_id(f->m->store, id, &vol) == 0)
		reconstruct_volume(f, vol);
	key_unlock(f->m, id);
}

/* The volumes on record, of this boot or of another one. */
static int reconstruct_all(struct findings *f, bool of_this_boot)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(f->m->store, &list);

	f->volumes = n > 0 ? (uint64_t)n : 0;
	for (int i = 0; i < n && !manager_is_stopping(f->m); i++) {
		if (is_of_this_boot(f->m, list[i]) != of_this_boot)
			continue;
		reconstruct_one(f, list[i]->id);
		if (f->answer)
			answer_tell(f->answer, "looking at volumes", ++f->looked_at, f->volumes);
	}
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	return n < 0 ? n : 0;
}

/*
 * After a restart of the machine everything changes a little: that is one transaction, of which nothing is lost
 * that would not be found again. Where it is too much for a full disk's reserve, each change is one.
 */
static int reconstruct_at_start(struct findings *f)
{
	int r = store_batch_begin(f->m->store);

	if (r == 0) {
		find_lost(f);
		r = reconstruct_all(f, false);
	}
	if (r == 0)
		r = store_batch_end(f->m->store);
	else
		(void)store_batch_end(f->m->store);
	if (r == 0)
		return 0;
	log_line(LOG_WARNING, "reconstruct", "one change after the other: %s", strerror(-r));
	find_lost(f);
	return reconstruct_all(f, false);
}

static int reconstruct(struct findings *f)
{
	int r;

	if (f->starting) {
		r = reconstruct_at_start(f);
	} else {
		find_lost(f);
		r = reconstruct_all(f, false);
	}
	/* Not in that transaction: what keepers are told must be on record. */
	if (r == 0)
		r = reconstruct_all(f, true);
	if (r == 0)
		find_strays(f);
	return r;
}

void manager_reconstruct_start(struct manager *m)
{
	struct findings f = { .m = m, .starting = true };
	int r = reconstruct(&f);

	if (r < 0)
		log_line(LOG_ERROR, "reconstruct", "the store's volumes cannot be listed: %s",
			 strerror(-r));
	else
		journals_drop(m);
}

enum proto_exit manager_reconstruct(struct manager *m, bool dry_run, struct answer *answer)
{
	struct findings f = { .m = m, .dry_run = dry_run, .rows = json_array(), .answer = answer };
	char why[ANSWER_TEXT_MAX];
	int r = f.rows ? reconstruct(&f) : -ENOMEM;

	if (r < 0) {
		json_decref(f.rows);
		return answer_fail(answer, EXIT_FAILED, "%s", store_why(r, why, sizeof(why)));
	}
	answer->result = f.rows;
	return EXIT_OK;
}
