// SPDX-License-Identifier: Apache-2.0
/*
 * teardown: a volume taken away, step by step (design, section 2.6): target, overlay, plugin,
 * directory, record. Each step is idempotent, and none runs after one that failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/dry_run.h"
#include "mountd/holders.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"

#define DETACH_TRIES 8 /* a hand-off under way changes what is at the target */
#define LAZY_GONE_MS 1000
#define UNSEEN_MS 1000 /* a hold that nobody is seen to have */
#define LOOK_MS 250    /* an overlay that has not ended by then may be one that cannot */

/* The number of an overlay that has gone may be another's by now, whose users are none of ours: 0 then. */
static dev_t own_dev(struct manager *m, const struct volume_record *vol)
{
	return vol->state == VOLUME_NATIVE ? 0 : live_dev(m, vol->id);
}

static int busy(struct manager *m, const struct volume_record *vol, const struct mount_view *view,
		char *ret_error)
{
	AUTO_FREE char *below = NULL;
	char holders[512], quoted[256];

	if (mount_below(vol->target_resolved, &below) == 0)
		snprintf(ret_error, ANSWER_TEXT_MAX,
			 "the target is busy: another mount is below it, at %s",
			 log_quote(below, quoted, sizeof(quoted)));
	else
		snprintf(ret_error, ANSWER_TEXT_MAX, "the target is busy: %s",
			 holders_describe(view->id, own_dev(m, vol), holders, sizeof(holders)));
	return -EBUSY;
}

/* Whether there is somebody, or something, to be named. */
static bool is_held(struct manager *m, const struct volume_record *vol,
		    const struct mount_view *view, pid_t keeper)
{
	AUTO_FREE char *below = NULL;
	char holders[512];

	return mount_below(vol->target_resolved, &below) == 0 ||
	       holders_find(view->id, own_dev(m, vol), keeper, holders, sizeof(holders));
}

/*
 * A hold that nobody is seen to have, or the keeper alone, is mostly one of the moment: the end of a hand-off, which takes
 * its time on a busy machine. Not so those of the kernel itself (a loop device, a swap file).
 */
static int detach_unless_held(struct manager *m, const struct volume_record *vol,
			      const struct target *target, const struct mount_view *view,
			      pid_t keeper, bool lazy, uint64_t limit_ms)
{
	const uint64_t until = clock_now_ms() + UNSEEN_MS;
	int r;

	do {
		r = mount_detach(target->parent_fd, target->name, lazy, limit_ms);
	} while (r == -EBUSY && clock_now_ms() < until && !is_held(m, vol, view, keeper));
	return r;
}

static int foreign(const struct volume_record *vol, char *ret_error)
{
	char what[384];

	if (mount_describe(vol->target_resolved, what, sizeof(what)) < 0)
		snprintf(what, sizeof(what), "something");
	snprintf(ret_error, ANSWER_TEXT_MAX,
		 "%s is mounted at the target, and is not ours: left untouched", what);
	return -EBUSY;
}

/* What the end of a mount had to wait for; the mount itself is off the target before that. */
static int detach_slowly(const struct target *target, const struct mount_view *before,
			 char *ret_error)
{
	struct mount_view view;
	int r = mount_look(target->parent_fd, target->name, &view);

	if (r == -ENOENT || (r == 0 && (!view.is_root || view.id != before->id)))
		return 0;
	snprintf(ret_error, ANSWER_TEXT_MAX,
		 "unmounting the target: its file system does not answer");
	return -ETIMEDOUT;
}

static int detach(struct manager *m, const struct volume_record *vol, const struct target *target,
		  const struct mount_view *view, struct overlay *o, bool lazy, char *ret_error)
{
	const uint64_t limit_ms =
		o || vol->state != VOLUME_NATIVE ? MOUNT_OVERLAY_MS : MOUNT_DEVICE_MS;
	int r = detach_unless_held(m, vol, target, view, o ? overlay_keeper_pid(o) : 0, lazy,
				   limit_ms);

	if (r == -EBUSY)
		return busy(m, vol, view, ret_error);
	if (r == -ETIMEDOUT)
		return detach_slowly(target, view, ret_error);
	if (r < 0 && r != -EINVAL) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "unmounting the target: %s", strerror(-r));
		return r;
	}
	return 0;
}

int unmount_target(struct manager *m, struct volume_record *vol, struct overlay *o, bool lazy,
		   char *ret_error)
{
	AUTO(target) *target = NULL;
	char why[TARGET_ERROR_MAX];
	int r = target_open(vol->target_resolved, &target, why);

	if (r == -ENOENT || r == -ENOTDIR) {
		vol->mount_id = 0;
		return 0; /* without its parent nothing can be mounted there */
	}
	for (int i = 0; r == 0 && i < DETACH_TRIES; i++) {
		struct overlay_status status = { 0 };
		struct mount_view view;

		r = mount_look(target->parent_fd, target->name, &view);
		if (r == -ENOENT || (r == 0 && !view.is_root)) {
			vol->mount_id = 0;
			return 0;
		}
		if (r < 0)
			break;
		if (o)
			(void)overlay_refresh(o, &status);
		if (view.id != vol->mount_id && view.id != status.mount_id) {
			/* Perhaps a hand-off came between the two looks; it does not come twice. */
			if (o && i == 0)
				continue;
			if (!is_orphan(vol) && !was_handed_off(m, vol, target, &view))
				return foreign(vol, ret_error);
		}
		r = detach(m, vol, target, &view, o, lazy, ret_error);
		if (r < 0)
			return r;
	}
	if (r == 0)
		return foreign(vol, ret_error);
	snprintf(ret_error, ANSWER_TEXT_MAX, "the target: %s",
		 why[0]		 ? why :
		 r == -ETIMEDOUT ? "its file system does not answer" :
				   strerror(-r));
	return r;
}

/* Why an overlay that nobody has mounted any more does not end; false: somebody may still use it. */
static bool cannot_end(struct overlay *o, char *ret_why, size_t size)
{
	struct overlay_status status;
	int r = overlay_refresh(o, &status);

	if (r == -EHOSTDOWN)
		snprintf(ret_why, size, "its keeper is stopped");
	else if (r == 0 && status.is_stuck)
		snprintf(ret_why, size, "its %.200s", status.reason);
	return r == -EHOSTDOWN || (r == 0 && status.is_stuck);
}

/* Whether it is gone; at most @limit_ms, and no longer than it can be hoped for. */
static bool await_end(struct overlay *o, uint64_t limit_ms, char *ret_why, size_t size)
{
	for (uint64_t waited = 0; waited < limit_ms; waited += LOOK_MS) {
		if (overlay_wait_gone(o, LOOK_MS))
			return true;
		if (cannot_end(o, ret_why, size))
			return false;
	}
	return overlay_is_gone(o);
}

/* The connection has ended when the keeper has: before that, somebody still uses the overlay. */
static int await_overlay(struct manager *m, const struct volume_record *vol, struct overlay *o,
			 bool lazy, bool may_outlive, char *ret_error)
{
	char why[OVERLAY_TEXT_MAX] = "", holders[512];

	if (overlay_detach(o, vol->id) > 0)
		return 0; /* another volume's too: the last one out waits */
	if (await_end(o, lazy ? LAZY_GONE_MS : OVERLAY_GONE_MS, why, sizeof(why)))
		return 0;
	if (lazy && may_outlive)
		return 0;
	(void)overlay_attach(o, vol->id, true);
	if (why[0])
		snprintf(ret_error, ANSWER_TEXT_MAX,
			 "the overlay is unmounted but does not end: %s", why);
	else
		snprintf(ret_error, ANSWER_TEXT_MAX,
			 "the overlay is unmounted but still in use: %s",
			 holders_describe(0, live_dev(m, vol->id), holders, sizeof(holders)));
	return -EBUSY;
}

/* A keeper is there, that the volume's tree is in use by. */
static int never_answers(int error, char *ret_error)
{
	snprintf(ret_error, ANSWER_TEXT_MAX, "the overlay is unmounted but does not end: %s",
		 error == -EHOSTDOWN ? "its keeper is stopped" : strerror(-error));
	return -EBUSY;
}

static void tell_deleted(void *arg, uint64_t entries)
{
	answer_tell(arg, "deleting", entries, 0);
}

static int tear_down_plugin(struct manager *m, struct volume_record *vol, enum teardown_keep keep,
			    const struct answer *answer, char *ret_error)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX];
	int r = work_open(m, vol, NULL, false, &work, why);

	if (r == 0 && work->dir_fd >= 0 &&
	    !(keep == KEEP_DATA && work->plugin->attributes.idempotency == IDEMPOTENCY_MARKER)) {
		work->building.b.on_deleted = answer ? tell_deleted : NULL;
		work->building.b.on_deleted_arg = (void *)answer;
		r = work->plugin->tear_down(&work->building.b);
		snprintf(why, sizeof(why), "%s", work->building.b.error);
	}
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "tearing down: %s",
			 why[0] ? why : strerror(-r));
		return r;
	}
	step_reached(m, STEP_UNMOUNT_TORN_DOWN);
	if (keep == KEEP_NOTHING)
		r = volume_file_remove(m->files, vol->id);
	if (keep == KEEP_NOTHING && r == 0 && unlinkat(m->volumes_fd, vol->id, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT)
		r = -errno;
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "the volume's directory: %s", strerror(-r));
		return r;
	}
	step_reached(m, STEP_UNMOUNT_REMOVED);
	return 0;
}

/* An unfinished run's journal stays for the one that resumes it, unless its tree is gone. */
static void drop_journal(struct manager *m, const struct volume_record *vol,
			 enum teardown_keep keep)
{
	const struct volume_plugin *plugin = plugin_find(vol->plugin);
	AUTO(run_record) *run = NULL;

	if (!vol->run_id || store_run_get(m->store, vol->run_id, &run) < 0)
		return;
	if (run->finished || (keep == KEEP_NOTHING && plugin &&
			      plugin->attributes.idempotency == IDEMPOTENCY_MARKER))
		journal_remove(m, vol->run_id);
}

/*
 * The target unmounted. What is about to be mounted again is on record as such first: that after a crash nothing is at
 * its target does not mean that somebody wanted it gone (vanished.c).
 */
static int leave_target(struct manager *m, struct volume_record *vol, struct overlay *o, bool lazy,
			enum teardown_keep keep, char *ret_error)
{
	bool comes_back = keep == KEEP_SET_UP && vol->mount_id != 0;
	int r = comes_back ? store_volume_set_state(m->store, vol->id, VOLUME_SETTING_UP, NULL,
						    vol->mount_id) :
			     0;

	if (r < 0) {
		store_why(r, ret_error, ANSWER_TEXT_MAX);
		return r;
	}
	r = unmount_target(m, vol, o, lazy, ret_error);
	if (r < 0 && comes_back)
		(void)store_volume_set_state(m->store, vol->id, vol->state, vol->reason,
					     vol->mount_id);
	return r;
}

int teardown_told(struct manager *m, struct volume_record *vol, bool lazy, enum teardown_keep keep,
		  const struct answer *answer, char *ret_error)
{
	const struct volume_plugin *plugin = plugin_find(vol->plugin);
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	int r, adopted = 0;

	ret_error[0] = '\0';
	/* A crash may have left a keeper that nobody has attached. */
	if (!o) {
		adopted = overlay_adopt(m->overlays, vol->id, &o);
		if (adopted == 0 && overlay_attach(o, vol->id, true) < 0)
			return -ENOMEM;
	}
	r = leave_target(m, vol, o, lazy, keep, ret_error);
	if (r < 0)
		return r;
	step_reached(m, STEP_UNMOUNT_DETACHED);
	if (o)
		r = await_overlay(m, vol, o, lazy,
				  keep == KEEP_DATA || !plugin ||
					  plugin->attributes.idempotency != IDEMPOTENCY_MARKER,
				  ret_error);
	else if (adopted < 0 && adopted != -ENOENT && adopted != -ECONNREFUSED && adopted != -EPIPE)
		r = never_answers(adopted, ret_error);
	if (r < 0)
		return r;
	step_reached(m, STEP_UNMOUNT_ENDED);
	if (keep != KEEP_SET_UP)
		r = tear_down_plugin(m, vol, keep, answer, ret_error);
	if (r < 0)
		return r;
	overlay_socket_remove(m->overlays, vol->id);
	live_remove(m, vol->id);
	drop_journal(m, vol, keep);
	return 0;
}

int teardown(struct manager *m, struct volume_record *vol, bool lazy, enum teardown_keep keep,
	     char *ret_error)
{
	return teardown_told(m, vol, lazy, keep, NULL, ret_error);
}

/* ---- the request ---- */

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
}

enum proto_exit unmount_unknown(const char *volume, struct answer *answer)
{
	AUTO(target) *target = NULL;
	enum target_kind kind = TARGET_ABSENT;
	char why[ANSWER_TEXT_MAX];

	if (!strchr(volume, '/') || target_open(volume, &target, why) < 0)
		return EXIT_OK;
	if (target_look(target, &kind) < 0 || kind != TARGET_MOUNT)
		return EXIT_OK;
	if (mount_describe(target->resolved, why, sizeof(why)) < 0)
		snprintf(why, sizeof(why), "something");
	return answer_fail(answer, EXIT_FAILED,
			   "%.500s is mounted there, and is not ours: left untouched", why);
}

/*
 * On a read-only disk no record can be made, but what the consumer has is taken away all the same. What the volume keeps
 * on that disk goes with the next unmount when it can be written again.
 */
static int unmount_unrecorded(struct manager *m, struct volume_record *vol, bool lazy,
			      struct answer *answer)
{
	char why[ANSWER_TEXT_MAX];
	int r = teardown(m, vol, lazy, KEEP_DATA, why);

	if (r < 0 && vol->mount_id != 0)
		answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	else
		answer_fail(
			answer, EXIT_FAILED,
			"it is unmounted, but stays on record: %s is on a read-only file system",
			m->layout->state_path);
	return -EROFS;
}

static enum proto_exit unmount_known(struct manager *m, struct volume_record *vol, bool lazy,
				     struct answer *answer)
{
	enum volume_state before = vol->state;
	char why[ANSWER_TEXT_MAX];
	struct overlay *o;
	int r;

	/* In another boot its mount id means nothing any more. */
	if (strcmp(vol->boot_id ? vol->boot_id : "", m->boot_id) != 0)
		vol->mount_id = 0;
	o = overlay_find(m->overlays, vol->id);
	if (o)
		overlay_mute(o, vol->id, true);
	r = store_volume_set_state(m->store, vol->id, VOLUME_TEARING_DOWN, NULL, vol->mount_id);
	if (r == -EROFS) {
		r = unmount_unrecorded(m, vol, lazy, answer);
	} else if (r < 0) {
		store_failed(answer, r);
	} else {
		step_reached(m, STEP_UNMOUNT_RECORDED);
		r = teardown_told(m, vol, lazy, KEEP_NOTHING, answer, why);
		if (r < 0)
			answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	}
	if (r == 0) {
		r = store_volume_delete(m->store, vol->id);
		step_reached(m, STEP_UNMOUNT_DELETED);
		if (r < 0)
			store_failed(answer, r);
		else
			event(m, vol->id, "unmounted", "%s", vol->target);
	} else if (vol->mount_id != 0) {
		/* Still there: it is what it was. */
		(void)store_volume_set_state(m->store, vol->id, before, vol->reason, vol->mount_id);
		overlay_unref(o);
		o = overlay_find(m->overlays, vol->id); /* perhaps adopted meanwhile */
		if (o)
			overlay_mute(o, vol->id, false);
	} else {
		(void)store_volume_set_state(m->store, vol->id, VOLUME_TEARING_DOWN, answer->error,
					     0);
	}
	overlay_unref(o);
	manager_changed(m);
	return answer->exit;
}

enum proto_exit manager_unmount(struct manager *m, const char *volume, bool lazy,
				struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	int r = volume_find_locked(m, volume, &vol);

	if (r == -ENOENT)
		return unmount_unknown(volume, answer);
	if (r < 0)
		return store_failed(answer, r);
	if (vol->target)
		unmount_known(m, vol, lazy, answer);
	else
		answer_fail(answer, EXIT_FAILED, "is a staged device: unstage it");
	key_unlock(m, vol->id);
	if (answer->exit != EXIT_OK)
		event(m, vol->id, "unmount-failed", "%s", answer->error);
	else
		answer->result = json_pack("{s:s, s:s, s:n}", "volume", vol->id, "target",
					   vol->target, "error");
	return answer->exit;
}

enum proto_exit manager_unmount_dry(struct manager *m, const char *volume, bool lazy,
				    struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	int r = volume_find_locked(m, volume, &vol);

	if (r == -ENOENT)
		return unmount_unknown(volume, answer) == EXIT_OK ?
			       answer_would(answer, "do nothing: no such volume is known") :
			       answer->exit;
	if (r < 0)
		return store_failed(answer, r);
	if (vol->target)
		dry_run_unmount(m, vol, lazy, answer);
	else
		answer_fail(answer, EXIT_FAILED, "is a staged device: unstage it");
	key_unlock(m, vol->id);
	return answer->exit;
}

/* Those that have a target, at the front of the list; a staged device is not unmounted. */
static int with_target(struct volume_record **list, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		struct volume_record *vol = list[i];

		if (!vol->target)
			continue;
		list[i] = list[kept];
		list[kept++] = vol;
	}
	return kept;
}

enum proto_exit manager_unmount_all(struct manager *m, bool lazy,
				    void (*done)(void *arg, json_t *row), void *arg,
				    struct answer *answer)
{
	struct volume_record **list = NULL;
	char first[ANSWER_TEXT_MAX / 2] = "";
	int n = store_volume_list(m->store, &list), total, failed = 0;

	if (n < 0)
		return store_failed(answer, n);
	total = with_target(list, n);
	for (int i = 0; i < total; i++) {
		struct answer one = { 0 };
		bool ok = manager_unmount(m, list[i]->id, lazy, &one) == EXIT_OK;
		json_t *row = json_pack("{s:s, s:s, s:s?, s:i, s:i}", "volume", list[i]->id,
					"target", list[i]->target, "error", ok ? NULL : one.error,
					"done", i + 1, "total", total);

		if (!ok && failed++ == 0)
			snprintf(first, sizeof(first), "%s: %.300s", list[i]->id, one.error);
		if (row)
			done(arg, row);
		json_decref(row);
		answer_fini(&one);
	}
	store_volume_list_free(list, (size_t)n);
	if (failed > 0)
		return answer_fail(answer, EXIT_FAILED,
				   "%d of %d volumes not unmounted; the first: %s", failed, total,
				   first);
	return EXIT_OK;
}
