// SPDX-License-Identifier: Apache-2.0
/*
 * setup: a mount request from its check to its answer (design, section 2, steps 1 to 3). What a crash
 * leaves between two steps is finished or undone by the next call: the record says how far it got.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/device_host.h"
#include "mountd/dry_run.h"
#include "mountd/flow.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"
#include "mountd/mount_list.h"
#include "mountd/setup_check.h"

#define SETTLE_LOOK_MS 10
#define SETTLE_ENTRIES_A_MS 50 /* a cautious walk of a tree that is not in the cache */

static void mounting_free(struct mounting *x)
{
	rules_free(x->rules);
	spec_free(x->spec);
	json_decref(x->objects);
	free(x->pod_namespace);
	free(x->staged);
	target_free(x->target);
	volume_record_free(x->vol);
	free(x);
}
DEFINE_AUTO(mounting)

static enum proto_exit no_memory(struct answer *answer)
{
	return answer_fail(answer, EXIT_FAILED, "%s", strerror(ENOMEM));
}

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
}

/* ---- repeating ---- */

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The first argument in which a repeated mount differs (interface.md, Repeating), or NULL. */
static const char *first_difference(const struct volume_record *old,
				    const struct volume_record *new)
{
	if (!same_text(old->plugin, new->plugin))
		return "plugin";
	if (!same_text(old->source_identity, new->source_identity))
		return "source";
	if (!same_text(old->target, new->target) &&
	    !same_text(old->target_resolved, new->target_resolved))
		return "target";
	if (old->fs_group != new->fs_group)
		return "fsgroup";
	if (!same_text(old->policy, new->policy))
		return "policy";
	if (!same_text(old->ownership, new->ownership))
		return "ownership";
	if (!same_text(old->excludes, new->excludes))
		return "exclude";
	if (old->keep_private != new->keep_private)
		return "keep-private";
	if (old->read_only != new->read_only)
		return "read-only";
	return NULL;
}

/*
 * Locks the volume that the request means: the one that is at the target already, else the one with
 * the request's id. *ret_old is its record, or NULL; x->vol->id is what is locked.
 */
static enum proto_exit lock_volume(struct mounting *x, struct volume_record **ret_old)
{
	struct manager *m = x->m;

	for (;;) {
		AUTO(volume_record) *at_target = NULL, *by_id = NULL;
		int r = store_volume_by_target(m->store, x->vol->target, &at_target);

		if (r == -ENOENT)
			r = store_volume_by_target(m->store, x->vol->target_resolved, &at_target);
		if (r < 0 && r != -ENOENT)
			return store_failed(x->answer, r);
		if (at_target && strcmp(at_target->id, x->vol->id) != 0) {
			if (x->request->volume_id)
				return answer_fail(
					x->answer, EXIT_FAILED,
					"the target is that of volume %s: volume-id differs",
					at_target->id);
			free(x->vol->id);
			x->vol->id = strdup(at_target->id);
			if (!x->vol->id)
				return no_memory(x->answer);
		}
		if (key_lock(m, x->vol->id) < 0)
			return no_memory(x->answer);
		r = store_volume_by_id(m->store, x->vol->id, &by_id);
		if (r < 0 && r != -ENOENT) {
			key_unlock(m, x->vol->id);
			return store_failed(x->answer, r);
		}
		if (by_id || !at_target) {
			*ret_old = take_ptr(&by_id);
			return EXIT_OK;
		}
		key_unlock(m, x->vol->id); /* it went while we waited */
	}
}

/* Whether what is mounted at the target is ours: by its id, or as what a hand-off has put there. */
static bool is_ours(struct manager *m, const struct volume_record *vol, struct overlay *o,
		    const struct target *target, struct mount_view *ret_view)
{
	AUTO(volume_record) *now = NULL;
	struct overlay_status status = { 0 };
	uint64_t id = vol->mount_id;
	/*
	 * A hand-off may have changed the mount since the record was read. The keeper knows one mount: that of
	 * a volume which shares the overlay is on record only.
	 */
	bool answers = o && overlay_refresh(o, &status) == 0;

	if (store_volume_by_id(m->store, vol->id, &now) == 0)
		id = now->mount_id;
	if (mount_look(target->parent_fd, target->name, ret_view) < 0)
		return false;
	if (ret_view->id != 0 && (ret_view->id == id || ret_view->id == status.mount_id))
		return true;
	return (!answers || status.state == VOLUME_NATIVE) &&
	       was_handed_off(m, vol, target, ret_view);
}

/* What is at the target of a volume that is on record: 1 it is there, 0 nothing is, else an error. */
static int is_at_target(struct manager *m, const struct volume_record *vol,
			const struct target *target, char *ret_error)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	struct mount_view view;
	int r = mount_look(target->parent_fd, target->name, &view);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!view.is_root)
		return 0;
	/* Perhaps a hand-off came between the keeper's answer and the look; it does not come twice. */
	if (is_ours(m, vol, o, target, &view) || (o && is_ours(m, vol, o, target, &view)))
		return 1;
	/* Its keeper has ended, and what it did last is not on record yet. */
	if (was_handed_off(m, vol, target, &view))
		return 1;
	snprintf(ret_error, ANSWER_TEXT_MAX, "something that is not ours is mounted at the target");
	if (mount_describe(target->resolved, ret_error, ANSWER_TEXT_MAX / 2) == 0)
		strcat(ret_error, " is mounted at the target, and is not ours");
	return -EBUSY;
}

/*
 * The volume at the target may have been unmounted by hand a moment ago, which was not heard of yet: it does not
 * stand in the way of what is to be there next.
 */
static void take_away_gone(struct mounting *x)
{
	struct manager *m = x->m;
	AUTO(volume_record) *seen = NULL, *old = NULL;
	enum target_kind kind;
	char why[ANSWER_TEXT_MAX];

	if (store_volume_by_target(m->store, x->vol->target, &seen) < 0 &&
	    store_volume_by_target(m->store, x->vol->target_resolved, &seen) < 0)
		return;
	if (key_lock(m, seen->id) < 0)
		return;
	if (store_volume_by_id(m->store, seen->id, &old) == 0 && volume_state_is_live(old->state) &&
	    old->boot_id && strcmp(old->boot_id, m->boot_id) == 0 &&
	    target_look(x->target, &kind) == 0 && kind != TARGET_MOUNT &&
	    !mount_is_present(old->mount_id))
		(void)vanished_tear_down(m, old, why);
	key_unlock(m, seen->id);
}

/* ---- setting up ---- */

/* From the recorded intent to a volume at its target. *ret_error: ANSWER_TEXT_MAX bytes. */
static int set_up_and_present(struct mounting *x, char *ret_error)
{
	AUTO(volume_work) *work = NULL;
	AUTO(flow) *flow = NULL;
	AUTO_FREE char *metadata = NULL;
	char why[PLUGIN_ERROR_MAX];
	int r;

	ret_error[0] = '\0';
	r = work_open(x->m, x->vol, x->front, true, &work, why);
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", why);
		return r;
	}
	work->building.b.objects = x->objects;
	work->building.b.pod_namespace = x->pod_namespace;
	flow = flow_new(work->plugin, &work->building);
	if (!flow)
		return -ENOMEM;
	r = flow_set_up(flow, volume_plugin_gid(x->vol));
	/* Also of a set-up that failed: its tear-down must find what it made. */
	metadata = flow_metadata(&work->building.b);
	if (!metadata)
		return -ENOMEM;
	free(x->vol->plugin_metadata);
	x->vol->plugin_metadata = take_ptr(&metadata);
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", work->building.b.error);
		return r;
	}
	step_reached(x->m, STEP_MOUNT_SET_UP);
	struct presenting p = {
		.m = x->m,
		.vol = x->vol,
		.target = x->target,
		.plugin = x->plugin,
		.lower_fd = flow->lower_fd,
		.outcome = flow->outcome,
		.setup_ran = flow->ran || flow->changed,
		.certifies = flow->certifies,
		.conflict_is_refused =
			strcmp(x->request->conflict ? x->request->conflict : x->front->conflict,
			       "refuse") == 0,
		.error = ret_error,
		.note = x->answer->note,
	};
	return present_volume(&p);
}

/* A target that can take a volume of this plugin. */
static enum proto_exit check_target(struct mounting *x)
{
	enum target_kind kind = TARGET_ABSENT;
	char quoted[256], what[256] = "something";
	int r = target_look(x->target, &kind);

	log_quote(x->target->given, quoted, sizeof(quoted));
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "target %s: %s", quoted, strerror(-r));
	switch (kind) {
	case TARGET_ABSENT:
		return answer_fail(x->answer, EXIT_FAILED, "target %s: does not exist", quoted);
	case TARGET_MOUNT:
		if (mount_describe(x->target->resolved, what, sizeof(what)) < 0)
			snprintf(what, sizeof(what), "something");
		return answer_fail(x->answer, EXIT_FAILED,
				   "target %s: %s is mounted there, and is not ours", quoted, what);
	case TARGET_DIRECTORY:
		return EXIT_OK;
	case TARGET_FILE:
		if (strcmp(x->plugin->name, "hostPath") == 0)
			return EXIT_OK;
		break;
	case TARGET_OTHER:
		break;
	}
	return answer_fail(x->answer, EXIT_FAILED, "target %s: is not a directory", quoted);
}

/* After a failed mount nothing is mounted, and nothing on record that was not there before. */
static void undo(struct mounting *x, bool was_known)
{
	struct manager *m = x->m;
	char why[ANSWER_TEXT_MAX];
	int r = teardown(m, x->vol, false, was_known ? KEEP_DATA : KEEP_NOTHING, why);

	if (r < 0) {
		log_line(LOG_ERROR, "mount", "vol=%s undoing a failed mount: %s", x->vol->id, why);
		(void)store_volume_set_state(m->store, x->vol->id, VOLUME_TEARING_DOWN, why,
					     x->vol->mount_id);
	} else if (was_known) {
		(void)store_volume_set_state(m->store, x->vol->id, VOLUME_ABSENT, x->answer->error,
					     0);
	} else {
		r = store_volume_delete(m->store, x->vol->id);
		if (r < 0)
			log_line(LOG_ERROR, "mount", "vol=%s record not removed: %s", x->vol->id,
				 strerror(-r));
	}
}

/*
 * The intent on record. That of a consumer is written while its device is locked and staged: from then on
 * the device is in use, and is not unstaged.
 */
static int insert(struct mounting *x, char *ret_error)
{
	const char *device_id = store_device_of(x->vol);
	AUTO_FD int fd = -1;
	int r;

	if (!device_id)
		return store_volume_insert(x->m->store, x->vol);
	r = key_lock(x->m, device_id);
	if (r < 0)
		return r;
	r = staged_open(x->m, device_id, &fd, ret_error);
	if (r == 0)
		r = store_volume_insert(x->m->store, x->vol);
	key_unlock(x->m, device_id);
	return r;
}

static enum proto_exit mount_now(struct mounting *x, bool was_known)
{
	char why[ANSWER_TEXT_MAX] = "";
	int r;

	if (check_target(x) != EXIT_OK)
		return x->answer->exit;
	step_reached(x->m, STEP_MOUNT_CHECKED);
	r = was_known ? store_volume_update(x->m->store, x->vol) : insert(x, why);
	if (r < 0 && why[0])
		return answer_fail(x->answer, EXIT_FAILED, "%s", why);
	if (r == -EEXIST)
		return answer_fail(x->answer, EXIT_FAILED, "the volume id or the target is taken");
	if (r < 0)
		return store_failed(x->answer, r);
	step_reached(x->m, STEP_MOUNT_RECORDED);
	r = set_up_and_present(x, why);
	if (r < 0) {
		answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
		undo(x, was_known);
		return x->answer->exit;
	}
	step_reached(x->m, STEP_MOUNT_PRESENTED);
	event(x->m, x->vol->id, "mounted", "%s at %s", x->vol->plugin, x->vol->target);
	return EXIT_OK;
}

/* What the old record has and the request does not say anew. */
static int keep_from_old(struct volume_record *vol, struct volume_record *old)
{
	vol->plugin_metadata = take_ptr(&old->plugin_metadata);
	vol->run_id = take_ptr(&old->run_id);
	vol->mount_id = old->mount_id;
	vol->created_at_ms = old->created_at_ms;
	return 0;
}

/*
 * The volume is at its target. One that is refreshable is refreshed; else there is nothing to do. 1: it is
 * as asked for; 0: what was set up is gone.
 */
static int repeat_live(struct mounting *x, const struct volume_record *old, char *ret_error)
{
	bool changed = false;
	int r;

	if (!x->plugin->attributes.refreshable)
		return 1;
	if (x->plugin->attributes.needs_objects && !x->objects) {
		snprintf(x->answer->note, sizeof(x->answer->note),
			 "not refreshed: the call brought no objects");
		return 1;
	}
	r = volume_refresh(x->m, old,
			   &(struct refresh_request){
				   .front = x->front,
				   .objects = x->objects,
				   .pod_namespace = x->pod_namespace,
			   },
			   &changed, ret_error);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

static int keep_text(char **io_text, bool is_said, const char *old)
{
	char *text;

	if (is_said || !old)
		return 0;
	text = strdup(old);
	if (!text)
		return -ENOMEM;
	free(*io_text);
	*io_text = text;
	return 0;
}

/*
 * A node agent says the same of a volume each time. What it leaves to mountd.conf was decided when it said so first:
 * else a change there would keep every pod of the node that runs from being started again.
 */
static int keep_assumed(struct mounting *x, const struct volume_record *old)
{
	const struct mount_request *q = x->request;
	int r;

	if (q->front != FRONT_FLEXVOLUME && q->front != FRONT_CSI)
		return 0;
	r = keep_text(&x->vol->policy, q->policy != NULL, old->policy);
	if (r == 0)
		r = keep_text(&x->vol->ownership, q->ownership != NULL, old->ownership);
	return r < 0 ? r : keep_text(&x->vol->excludes, q->excludes != NULL, old->excludes);
}

static enum proto_exit mount_known(struct mounting *x, struct volume_record *old)
{
	char why[ANSWER_TEXT_MAX] = "";
	const char *difference;
	int r;

	if (old->state == VOLUME_TEARING_DOWN) {
		r = teardown(x->m, old, false, KEEP_NOTHING, why);
		if (r == 0)
			r = store_volume_delete(x->m->store, old->id);
		if (r < 0)
			return answer_fail(x->answer, EXIT_FAILED,
					   "finishing the last tear-down: %s",
					   why[0] ? why : strerror(-r));
		return mount_now(x, false);
	}
	if (keep_assumed(x, old) < 0)
		return no_memory(x->answer);
	difference = first_difference(old, x->vol);
	if (difference)
		return answer_fail(x->answer, EXIT_FAILED, "volume %s exists with another %s",
				   old->id, difference);
	if (x->request->mount_options && !same_text(old->mount_options, x->vol->mount_options))
		snprintf(x->answer->note, sizeof(x->answer->note),
			 "it is mounted already, and its mount options stay as they are");
	if (volume_state_is_live(old->state)) {
		r = is_at_target(x->m, old, x->target, why);
		if (r == 1)
			r = repeat_live(x, old, why);
		x->is_repeated = r == 1;
		if (r == 1)
			return EXIT_OK;
		if (r < 0)
			return answer_fail(x->answer, EXIT_FAILED, "%s",
					   why[0] ? why : strerror(-r));
	}
	/* Begun, failed or gone: what is left of its presentation goes, what is set up stays. */
	if (strcmp(old->boot_id ? old->boot_id : "", x->m->boot_id) != 0)
		old->mount_id = 0;
	r = teardown(x->m, old, false, KEEP_SET_UP, why);
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED,
				   "what is left of it cannot be removed: %s",
				   why[0] ? why : strerror(-r));
	old->mount_id = 0;
	keep_from_old(x->vol, old);
	return mount_now(x, true);
}

/* Whether the walk can be through by then, as far as it is known how much there is, or was seen so far. */
static bool fits(struct mounting *x, uint64_t ms)
{
	AUTO(overlay) *o = overlay_find(x->m->overlays, x->vol->id);
	struct overlay_status status;
	uint64_t entries;

	if (!o)
		return true;
	overlay_status_get(o, &status);
	entries = status.total > status.counters.seen ? status.total : status.counters.seen;
	return entries / SETTLE_ENTRIES_A_MS <= ms;
}

/* The time that a small volume needs to become native before anybody sees the overlay. */
static void settle(struct mounting *x)
{
	uint64_t ms = x->request->has_settle ? x->request->settle_ms : x->front->settle_ms;
	const char *state = x->vol->handoff ? "native" : "converged";
	const uint64_t began = clock_now_ms();

	for (uint64_t spent; (spent = clock_now_ms() - began) < ms && fits(x, ms);) {
		uint64_t step = ms - spent < SETTLE_LOOK_MS ? ms - spent : SETTLE_LOOK_MS;
		struct answer ignored = { 0 };
		enum proto_exit done = manager_wait(x->m, x->vol->id, state, step, -1, &ignored);

		answer_fini(&ignored);
		if (done != EXIT_TIMEOUT)
			return; /* it is, or can never be */
	}
}

/* ---- what would be done ---- */

static bool is_made(const json_t *source)
{
	const char *type = json_string_value(json_object_get(source, "type"));
	size_t len = type ? strlen(type) : 0;

	return len > 8 && strcmp(type + len - 8, "OrCreate") == 0;
}

/*
 * The tree of a source that is a path of the node, where it can be told before it is set up: *ret_fd, else it stays.
 * What is not there, and is not made by the set-up either, is a failure.
 */
static enum proto_exit look_at_source(struct mounting *x, int *ret_fd)
{
	const char *path = json_string_value(json_object_get(x->spec->source, "path"));
	json_t *metadata = json_object();
	struct building building =
		source_building(x->m, x->front, x->vol->id, x->spec->source, metadata);
	int r = metadata ? 0 : -ENOMEM;

	if (r == 0 && path && path[0] == '/' && !x->request->staged)
		r = building.b.host->open_source(&building.b, path, ret_fd);
	json_decref(metadata);
	if (r == 0 || (r == -ENOENT && is_made(x->spec->source)))
		return EXIT_OK;
	return answer_fail(x->answer, EXIT_FAILED, "%s",
			   building.b.error[0] ? building.b.error : strerror(-r));
}

static enum proto_exit would_mount(struct mounting *x)
{
	const char *device_id = store_device_of(x->vol);
	const char *conflict = x->request->conflict ? x->request->conflict : x->front->conflict;
	AUTO_FD int device_fd = -1, source_fd = -1;
	char why[ANSWER_TEXT_MAX] = "", quoted[256];
	int r;

	if (check_target(x) != EXIT_OK)
		return x->answer->exit;
	r = device_id ? staged_open(x->m, device_id, &device_fd, why) : 0;
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (look_at_source(x, &source_fd) != EXIT_OK)
		return x->answer->exit;
	answer_would(x->answer, "put volume %s of plugin %s on record, and set it up", x->vol->id,
		     x->plugin->name);
	if (dry_run_ownership(x->m, x->vol, x->plugin, source_fd, strcmp(conflict, "refuse") == 0,
			      x->answer) != EXIT_OK)
		return x->answer->exit;
	return answer_would(x->answer, "mount it at %s%s",
			    log_quote(x->vol->target, quoted, sizeof(quoted)),
			    x->vol->read_only ? ", read-only" : "");
}

static enum proto_exit would_mount_known(struct mounting *x, const struct volume_record *old)
{
	char why[ANSWER_TEXT_MAX] = "";
	const char *difference;
	int r = 0;

	if (old->state == VOLUME_TEARING_DOWN) {
		answer_would(x->answer, "finish its last tear-down");
		return would_mount(x);
	}
	difference = first_difference(old, x->vol);
	if (difference)
		return answer_fail(x->answer, EXIT_FAILED, "volume %s exists with another %s",
				   old->id, difference);
	if (volume_state_is_live(old->state))
		r = is_at_target(x->m, old, x->target, why);
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (r == 1 && x->plugin->attributes.refreshable &&
	    (x->objects || !x->plugin->attributes.needs_objects))
		return answer_would(x->answer, "refresh volume %s, which is mounted", old->id);
	if (r == 1)
		return answer_would(x->answer, "do nothing: volume %s is mounted so", old->id);
	answer_would(x->answer, "take away what is left of its last presentation");
	return would_mount(x);
}

static enum proto_exit would(struct mounting *x)
{
	AUTO(volume_record) *old = NULL;

	if (mounting_check(x) != EXIT_OK || lock_volume(x, &old) != EXIT_OK)
		return x->answer->exit;
	if (old)
		would_mount_known(x, old);
	else
		would_mount(x);
	key_unlock(x->m, x->vol->id);
	return x->answer->exit;
}

/*
 * What became of the fsGroup: "ignored", "done" (right, or nothing is due) or "present" (shown, and by
 * default being applied).
 */
static const char *ownership_outcome(const struct volume_record *vol)
{
	if (vol->fs_group == GID_UNSET)
		return "done";
	if (strcmp(vol->ownership, "none") == 0 || present_is_ignored(vol))
		return "ignored";
	return vol->run_id || vol->state != VOLUME_NATIVE ? "present" : "done";
}

static void answer_state(struct mounting *x)
{
	AUTO(volume_record) *now = NULL;

	if (store_volume_by_id(x->m->store, x->vol->id, &now) < 0)
		return;
	x->answer->result =
		json_pack("{s:s, s:s, s:s}", "id", now->id, "state", volume_state_name(now->state),
			  "ownership", ownership_outcome(now));
	/* Said again when the mount is repeated. */
	if (present_is_ignored(now) && !x->answer->note[0])
		snprintf(x->answer->note, sizeof(x->answer->note), "%s", now->reason);
}

enum proto_exit manager_mount(struct manager *m, const struct mount_request *request,
			      struct answer *answer)
{
	AUTO(mounting) *x = calloc(1, sizeof(*x));
	AUTO(volume_record) *old = NULL;
	char quoted[256];

	if (!x)
		return no_memory(answer);
	x->m = m;
	x->request = request;
	x->answer = answer;
	if (request->dry_run)
		return would(x);
	if (mounting_check(x) == EXIT_OK)
		take_away_gone(x);
	if (answer->exit == EXIT_OK && lock_volume(x, &old) == EXIT_OK) {
		if (old)
			mount_known(x, old);
		else
			mount_now(x, false);
		key_unlock(m, x->vol->id);
	}
	if (answer->exit != EXIT_OK) {
		event(m, x->vol ? x->vol->id : NULL, "mount-failed", "%s: %s",
		      log_quote(request->target, quoted, sizeof(quoted)), answer->error);
		return answer->exit;
	}
	if (!x->is_repeated)
		settle(x);
	answer_state(x);
	return EXIT_OK;
}

enum proto_exit mount_recorded(struct manager *m, struct volume_record *vol, bool trusted,
			       struct answer *answer)
{
	/* It was accepted once; without its caller it is not to become something else. */
	static const struct mount_request request = { .front = FRONT_CTL, .conflict = "refuse" };
	static char *nothing[] = { NULL };
	static const struct front_rules closed = { .sources = nothing };
	AUTO(mounting) *x = calloc(1, sizeof(*x));
	char why[ANSWER_TEXT_MAX] = "";
	int r;

	if (!x)
		return no_memory(answer);
	x->m = m;
	x->request = &request;
	x->answer = answer;
	x->plugin = plugin_find(vol->plugin);
	r = trusted ? rules_load(m->layout->config_path, &x->rules, why) : 0;
	x->front = x->rules ? &x->rules->front[FRONT_CTL] : &closed;
	if (r == 0)
		r = target_open(vol->target_resolved, &x->target, why);
	if (r == 0)
		r = store_volume_by_id(m->store, vol->id, &x->vol);
	if (r == 0 && !x->plugin)
		r = -ENOSYS;
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	free(x->vol->boot_id);
	x->vol->boot_id = strdup(m->boot_id);
	if (!x->vol->boot_id)
		return no_memory(answer);
	x->vol->state = VOLUME_SETTING_UP;
	mount_known(x, vol);
	return answer->exit;
}
