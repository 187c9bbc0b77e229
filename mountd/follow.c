// SPDX-License-Identifier: Apache-2.0
/*
 * follow: what keepers report becomes what is on record. Called by the overlays' watchers, one overlay
 * at a time; a write that fails is tried again with the next report.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"
#include "mountd/root_record.h"

#define COUNTERS_EVERY_MS 1000 /* each is an fsync */

struct progress {
	struct run_counters written;
	uint64_t counters_at_ms, failures_print;
	bool epoch_known, finished;
};

static void get_progress(struct live *live, void *arg)
{
	*(struct progress *)arg = (struct progress){
		.written = live->written,
		.counters_at_ms = live->counters_at_ms,
		.failures_print = live->failures_print,
		.epoch_known = live->epoch_known,
		.finished = live->finished,
	};
}

static void set_progress(struct live *live, void *arg)
{
	const struct progress *p = arg;

	live->written = p->written;
	live->counters_at_ms = p->counters_at_ms;
	live->failures_print = p->failures_print;
	live->epoch_known = p->epoch_known;
	live->finished = p->finished;
}

/*
 * Only a run that left nothing pending is finished: one with failures is resumed by the next mount, so
 * that what could not be changed stays presented and is tried again.
 */
static bool is_done(const struct overlay_status *status)
{
	return (status->state == VOLUME_CONVERGED || status->state == VOLUME_NATIVE) &&
	       status->counters.failed == 0;
}

static bool counters_are_due(const struct overlay_status *status, const struct progress *progress,
			     uint64_t now)
{
	if (memcmp(&status->counters, &progress->written, sizeof(progress->written)) == 0)
		return false;
	return status->state != VOLUME_CONVERGING ||
	       now - progress->counters_at_ms >= COUNTERS_EVERY_MS;
}

/* The record on the tree's own root, for the next node. Where it cannot be, the store's alone has to do. */
static void record_on_root(struct manager *m, const struct volume_record *vol)
{
	AUTO(run_record) *run = NULL;
	AUTO(volume_work) *work = NULL;
	AUTO_FD int lower_fd = -1;
	char why[PLUGIN_ERROR_MAX];

	if (store_run_get(m->store, vol->run_id, &run) < 0 ||
	    work_open(m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0 ||
	    work->plugin->open_lower(&work->building.b, &lower_fd) < 0)
		return;
	(void)root_record_finish(lower_fd, run->tree, run->wanted, run->id);
}

static int follow_run(struct manager *m, const struct volume_record *vol,
		      const struct overlay_status *status, struct progress *io_progress)
{
	uint64_t now = clock_now_ms();
	int r = 0;

	if (status->epoch[0] && !io_progress->epoch_known) {
		r = store_run_set_epoch(m->store, status->run, status->epoch);
		io_progress->epoch_known = r == 0;
	}
	if (r < 0)
		return r;
	if (is_done(status) && !io_progress->finished) {
		r = store_run_finish(m->store, status->run, &status->counters);
		io_progress->finished = r == 0;
		step_reached(m, STEP_RUN_FINISHED);
		if (r == 0)
			record_on_root(m, vol);
	} else if (!io_progress->finished && counters_are_due(status, io_progress, now)) {
		r = store_run_set_counters(m->store, status->run, &status->counters);
		io_progress->counters_at_ms = now;
		if (r == 0)
			io_progress->written = status->counters;
	}
	return r;
}

/* Tells two sets of failures apart (FNV-1a, 64 bit); never 0. */
static uint64_t fingerprint(const struct failure_record *list, size_t count, uint64_t total)
{
	uint64_t print = 0xcbf29ce484222325;

	for (size_t i = 0; i < count; i++) {
		for (const char *p = list[i].path; *p; p++)
			print = (print ^ (unsigned char)*p) * 0x100000001b3;
		print = (print ^ (uint64_t)list[i].error) * 0x100000001b3;
	}
	print = (print ^ total) * 0x100000001b3;
	return print ? print : 1;
}

static bool is_walking(const struct overlay_status *status)
{
	return status->state == VOLUME_CONVERGING || status->state == VOLUME_PRESENTED;
}

static bool has_failures_on_record(struct manager *m, const char *id)
{
	struct failure_record *list = NULL;
	uint64_t total = 0;
	int n = store_failures_get(m->store, id, &list, &total);

	if (n >= 0)
		store_failures_free(list, (size_t)n);
	return n < 0 || total > 0;
}

static int record_failures(struct manager *m, const char *id, const struct overlay_status *status,
			   const struct failure_record *list, size_t count)
{
	int r = store_failures_set(m->store, id, list, count, status->failures_total);

	if (r == 0 && count > 0 && !is_walking(status))
		event(m, id, "failures", "%llu could not be changed; the first: %.200s: %s",
		      (unsigned long long)status->failures_total, list[0].path,
		      strerror(list[0].error));
	return r;
}

static int follow_failures(struct manager *m, const char *id, const struct overlay_status *status,
			   const char *message, struct progress *io_progress)
{
	struct failure_record *list = NULL;
	uint64_t print;
	int n, r = 0;

	/* A walk that begins again has none yet: what is on record stays until it has met some, or ended. */
	if (is_walking(status) && status->failures_total == 0)
		return 0;
	n = overlay_status_failures(message, &list);
	if (n < 0)
		return n;
	print = fingerprint(list, (size_t)n, status->failures_total);
	if (print != io_progress->failures_print &&
	    (status->failures_total > 0 || has_failures_on_record(m, id)))
		r = record_failures(m, id, status, list, (size_t)n);
	overlay_failures_free(list, (size_t)n);
	if (r == 0)
		io_progress->failures_print = print;
	return r;
}

/* What is mounted at the volume's target: 1; 0: nothing; -ETIMEDOUT: it cannot be told. */
static int look_at_target(const struct volume_record *vol, struct target **ret_target,
			  struct mount_view *ret_view)
{
	char why[TARGET_ERROR_MAX];
	int r = target_open(vol->target_resolved, ret_target, why);

	if (r == 0)
		r = mount_look((*ret_target)->parent_fd, (*ret_target)->name, ret_view);
	return r == 0 ? ret_view->is_root : r == -ETIMEDOUT ? r : 0;
}

/* The keeper speaks of its own target; a volume that shares the overlay has a mount of its own. */
static uint64_t mount_id_of(struct manager *m, const struct volume_record *vol,
			    const struct overlay_status *status)
{
	AUTO(target) *target = NULL;
	struct mount_view view;

	if (status->mount_id == 0 || status->mount_id == vol->mount_id)
		return vol->mount_id;
	if (look_at_target(vol, &target, &view) <= 0)
		return vol->mount_id;
	if (view.id == status->mount_id ||
	    (status->state == VOLUME_NATIVE && view.id != vol->mount_id &&
	     was_handed_off(m, vol, target, &view)))
		return view.id;
	return vol->mount_id;
}

/* On record, and told, unless it is already. @reason: or NULL. */
static int record_state(struct manager *m, const struct volume_record *vol, enum volume_state state,
			const char *reason, uint64_t mount_id)
{
	int r;

	if (vol->state == state && vol->mount_id == mount_id &&
	    strcmp(vol->reason ? vol->reason : "", reason ? reason : "") == 0)
		return 0;
	step_reached(m, STEP_STATE_CHANGED);
	r = store_volume_set_state(m->store, vol->id, state, reason, mount_id);
	step_reached(m, STEP_STATE_FOLLOWED);
	if (r == 0 && vol->state != state)
		event(m, vol->id, volume_state_name(state), "%s%s%s", vol->target,
		      reason ? ": " : "", reason ? reason : "");
	return r;
}

static int follow_state(struct manager *m, const struct volume_record *vol,
			const struct overlay_status *status)
{
	return record_state(m, vol, status->state, status->reason[0] ? status->reason : NULL,
			    mount_id_of(m, vol, status));
}

static bool follow_status(void *arg, const char *id, const struct overlay_status *status,
			  const char *message)
{
	struct manager *m = arg;
	AUTO(volume_record) *vol = NULL;
	struct progress progress = { 0 };
	bool has_run;
	int r = store_volume_by_id(m->store, id, &vol);

	if (r < 0) {
		log_line(LOG_WARNING, "follow", "vol=%s ignoring a report: %s", id, strerror(-r));
		return false;
	}
	if (status->fell_back_from[0])
		event(m, id, "upgrade-failed", "server %s has died, server %s serves again",
		      status->fell_back_from, status->server_version);
	live_touch(m, id, get_progress, &progress);
	has_run = status->run[0] && vol->run_id && strcmp(status->run, vol->run_id) == 0;
	/* The run first: whoever sees "converged" may rely on its being on record. */
	r = has_run ? follow_run(m, vol, status, &progress) : 0;
	if (r == 0)
		r = follow_failures(m, id, status, message, &progress);
	live_touch(m, id, set_progress, &progress);
	if (r == 0)
		r = follow_state(m, vol, status);
	if (r < 0)
		log_line(LOG_WARNING, "follow", "vol=%s a report is not on record yet: %s", id,
			 strerror(-r));
	return r == 0 && has_run && progress.finished;
}

static void follow_gone(void *arg, const char *id, const struct overlay_status *last)
{
	struct manager *m = arg;
	AUTO(volume_record) *vol = NULL;
	AUTO(target) *target = NULL;
	struct mount_view view = { 0 };
	int mounted;

	if (store_volume_by_id(m->store, id, &vol) < 0)
		return;
	mounted = look_at_target(vol, &target, &view);
	if (mounted < 0) {
		mend_later(m); /* which finds what this would have */
		return;
	}
	/* What is native on record needs no keeper, whatever its last report was. */
	if (mounted && ((vol->state == VOLUME_NATIVE && view.id == vol->mount_id) ||
			(last->state == VOLUME_NATIVE &&
			 (view.id == vol->mount_id || view.id == last->mount_id)) ||
			(view.id != vol->mount_id && was_handed_off(m, vol, target, &view)))) {
		/* After the hand-off nothing of ours is needed any more. Its last report has mostly put it on record. */
		(void)record_state(m, vol, VOLUME_NATIVE, NULL, view.id);
		return;
	}
	if (mounted && view.id == vol->mount_id) {
		(void)store_volume_set_state(m->store, id, VOLUME_FAILED,
					     "the overlay's keeper has ended", vol->mount_id);
		event(m, id, "failed", "the overlay's keeper has ended; its mount is still at %s",
		      vol->target);
		mend_wanted(m);
		return;
	}
	/* A plain umount(2) is legal: the mender takes away what is left. */
	look_wanted(m);
}

static void follow_changed(void *arg)
{
	manager_changed(arg);
}

/* Perhaps one whose tear-down had to leave it. */
static void follow_left(void *arg)
{
	mend_wanted(arg);
}

const struct overlay_follower follower_template = {
	.status = follow_status,
	.gone = follow_gone,
	.left = follow_left,
	.changed = follow_changed,
};
