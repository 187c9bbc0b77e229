// SPDX-License-Identifier: Apache-2.0
/*
 * status: what the manager tells of volumes (interface.md, State), and the small requests that change
 * how a run goes on.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/finding.h"
#include "mountd/holders.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"

#define WALK_LOOKS 20
#define WALK_LOOK_MS 25
#define CLIENT_LOOK_MS 1000 /* how soon a wait notices that its client has gone */

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
}

enum proto_exit volume_not_found(struct answer *answer, int error)
{
	if (error == -ENOENT)
		return answer_fail(answer, EXIT_NO_VOLUME, "no such volume");
	return store_failed(answer, error);
}

/*
 * That a native mount has gone is heard of a moment later only (mount_watch.h), and not at all where a request works
 * on the volume: it is shown as gone at once.
 */
void volume_correct_native(struct manager *m, struct volume_record *vol)
{
	AUTO(target) *target = NULL;
	AUTO_FREE char *reason = NULL;
	char why[TARGET_ERROR_MAX];
	struct mount_view view;
	int r = -ENOENT;

	if (vol->state != VOLUME_NATIVE)
		return;
	if (strcmp(vol->boot_id ? vol->boot_id : "", m->boot_id) == 0)
		r = target_open(vol->target_resolved, &target, why);
	if (r == 0)
		r = mount_look(target->parent_fd, target->name, &view);
	/* Below a file system that does not answer it is there for all we know. */
	if (r == -ETIMEDOUT || (r == 0 && view.is_root))
		return;
	reason = strdup("nothing is mounted at the target");
	if (!reason)
		return;
	vol->state = VOLUME_ABSENT;
	free(vol->reason);
	vol->reason = take_ptr(&reason);
}

/* The volume as it is now, for those who only look. */
static int look(struct manager *m, const char *volume, struct volume_record **ret_vol)
{
	int r = volume_find(m, volume, ret_vol);

	if (r == 0)
		volume_correct_native(m, *ret_vol);
	return r;
}

/* ---- the status object ---- */

static json_t *text_or_null(const char *text)
{
	json_t *value = text && *text ? json_string(text) : NULL;

	return value ? value : json_null();
}

static json_t *time_text(int64_t at_ms)
{
	time_t seconds = (time_t)(at_ms / 1000);
	char text[64];
	struct tm tm;
	size_t used;

	gmtime_r(&seconds, &tm);
	used = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + used, sizeof(text) - used, ".%03dZ", (int)(at_ms % 1000));
	return json_string(text);
}

static json_t *parsed_or_null(const char *text)
{
	json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	return value ? value : json_null();
}

static json_t *entries_json(const struct run_counters *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "seen", (json_int_t)c->seen, "changed",
			 (json_int_t)c->changed, "correct", (json_int_t)c->correct, "excluded",
			 (json_int_t)c->excluded, "failed", (json_int_t)c->failed);
}

static bool is_converged(enum volume_state state)
{
	return state == VOLUME_CONVERGED || state == VOLUME_NATIVE;
}

/* The part of the walk that is done, and how long the rest will take; null where nobody can know. */
static void add_progress(json_t *object, const struct volume_record *vol,
			 const struct overlay_status *status)
{
	json_t *progress = json_null(), *eta = json_null();
	bool has_run = vol->run_id || (vol->state == VOLUME_NATIVE && vol->fs_group == GID_UNSET);

	if (vol->run_id && is_converged(vol->state)) {
		progress = json_real(1.0);
	} else if (has_run && status && status->total > 0) {
		uint64_t seen = status->counters.seen < status->total ? status->counters.seen :
									status->total;

		progress = json_real((double)seen / (double)status->total);
		if (status->rate > 0)
			eta = json_integer((json_int_t)((status->total - seen) / status->rate));
	}
	json_object_set_new(object, "progress", progress);
	json_object_set_new(
		object, "ratePerSecond",
		json_integer(status && !is_converged(vol->state) ? (json_int_t)status->rate : 0));
	json_object_set_new(object, "etaSeconds", eta);
}

static json_t *requests_json(const struct overlay_status *status)
{
	json_t *object = json_object();
	char text[OVERLAY_REQUESTS_SIZE];
	char *rest = strcpy(text, status->requests);
	const char *name;
	uint64_t count;

	while (overlay_status_request(&rest, &name, &count))
		json_object_set_new(object, name, json_integer((json_int_t)count));
	return object;
}

static json_t *server_json(const struct overlay_status *status)
{
	if (!status)
		return json_null();
	return json_pack(
		"{s:i, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:o}", "pid", (int)status->server_pid,
		"restarts", (json_int_t)status->restarts, "upgrades", (json_int_t)status->upgrades,
		"version", status->server_version, "keeperVersion", status->keeper_version,
		"dataPath", status->passthrough ? "passthrough" : "cached", "transport",
		status->over_ring ? "io_uring" : "dev", "requests", requests_json(status),
		"noFailover", text_or_null(status->no_failover[0] ? status->no_failover : NULL));
}

static void add_failures(struct manager *m, json_t *object, const char *id)
{
	struct failure_record *list = NULL;
	uint64_t total = 0;
	int n = store_failures_get(m->store, id, &list, &total);
	json_t *failures = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(failures,
				      json_pack("{s:o, s:i, s:s}", "path",
						text_or_null(list[i].path), "errno", list[i].error,
						"message", strerror(list[i].error)));
	if (n >= 0)
		store_failures_free(list, (size_t)n);
	json_object_set_new(object, "failures", failures);
	json_object_set_new(object, "failuresTotal", json_integer((json_int_t)total));
}

static void run_counters_of(struct manager *m, const struct volume_record *vol,
			    const struct overlay_status *status, struct run_counters *ret_counters)
{
	AUTO(run_record) *run = NULL;

	*ret_counters = (struct run_counters){ 0 };
	if (status)
		*ret_counters = status->counters;
	else if (vol->run_id && store_run_get(m->store, vol->run_id, &run) == 0)
		*ret_counters = run->counters;
}

/* @with_holders: also looks who keeps a converged overlay, which takes a walk through /proc. */
static json_t *status_json(struct manager *m, const struct volume_record *vol, bool with_holders)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	struct overlay_status buffer, *status = NULL;
	struct run_counters counters;
	json_t *object = json_object(), *holders = NULL;

	if (o && !overlay_is_gone(o)) {
		overlay_status_get(o, &buffer);
		status = &buffer;
	}
	run_counters_of(m, vol, status, &counters);
	json_object_set_new(object, "id", json_string(vol->id));
	json_object_set_new(object, "plugin", json_string(vol->plugin));
	json_object_set_new(object, "source", parsed_or_null(vol->source));
	json_object_set_new(object, "target", text_or_null(vol->target));
	json_object_set_new(object, "fsGroup",
			    vol->fs_group == GID_UNSET ? json_null() : json_integer(vol->fs_group));
	json_object_set_new(object, "policy", json_string(vol->policy));
	json_object_set_new(object, "ownership", json_string(vol->ownership));
	json_object_set_new(object, "readOnly", json_boolean(vol->read_only));
	json_object_set_new(object, "state", json_string(volume_state_name(vol->state)));
	json_object_set_new(object, "reason", text_or_null(vol->reason));
	json_object_set_new(object, "entries", entries_json(&counters));
	add_progress(object, vol, status);
	json_object_set_new(object, "server", server_json(status));
	if (with_holders && status && is_converged(vol->state) &&
	    (status->held || vol->state == VOLUME_CONVERGED))
		holders = holders_list(live_dev(m, vol->id));
	json_object_set_new(object, "overlayHolders", holders ? holders : json_array());
	add_failures(m, object, vol->id);
	json_object_set_new(object, "coherence", json_string(vol->coherence));
	json_object_set_new(object, "device", device_status(m, vol));
	json_object_set_new(object, "usage", usages_json(m->usages, vol));
	json_object_set_new(object, "createdAt", time_text(vol->created_at_ms));
	json_object_set_new(object, "updatedAt", time_text(vol->updated_at_ms));
	return object;
}

enum proto_exit manager_status(struct manager *m, const char *volume, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	struct volume_record **list = NULL;
	int r;

	if (volume) {
		r = look(m, volume, &vol);
		if (r < 0)
			return volume_not_found(answer, r);
		answer->result = status_json(m, vol, true);
		return EXIT_OK;
	}
	r = store_volume_list(m->store, &list);
	if (r < 0)
		return store_failed(answer, r);
	answer->result = json_array();
	for (int i = 0; i < r; i++) {
		volume_correct_native(m, list[i]);
		json_array_append_new(answer->result, status_json(m, list[i], false));
	}
	store_volume_list_free(list, (size_t)r);
	return EXIT_OK;
}

/* ---- steering ---- */

enum proto_exit volume_not_live(const struct volume_record *vol, struct answer *answer)
{
	return answer_fail(answer, EXIT_FAILED, "the volume is %s%s%s",
			   volume_state_name(vol->state), vol->reason ? ": " : "",
			   vol->reason ? vol->reason : "");
}

/* Writes what a request has changed beside the state. The follower writes the same row: it is muted. */
static int record_walk(struct manager *m, const char *id, bool paused, const uint64_t *rate)
{
	AUTO(overlay) *o = overlay_find(m->overlays, id);
	AUTO(volume_record) *vol = NULL;
	int r;

	if (o)
		overlay_mute(o, id, true);
	r = store_volume_by_id(m->store, id, &vol);
	if (r == 0) {
		vol->paused = paused;
		if (rate)
			vol->converge_rate = *rate;
		r = store_volume_update(m->store, vol);
	}
	if (o)
		overlay_mute(o, id, false);
	return r;
}

/* Where no walk is left there is nothing to steer: a success, for a script that comes late. */
static enum proto_exit steer(struct manager *m, const struct volume_record *vol, const char *verb,
			     const char *key, const char *value, struct answer *answer)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	char why[OVERLAY_ERROR_MAX];
	int r;

	if (!o)
		return EXIT_OK;
	r = overlay_request(o, verb, key, value, why);
	if (r < 0 && r != -EPIPE)
		return answer_fail(answer, EXIT_FAILED, "%s", why);
	(void)overlay_refresh(o, NULL);
	return EXIT_OK;
}

/* What the volume is now, for who has steered it. */
static enum proto_exit answer_state(struct manager *m, const char *id, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;

	if (answer->exit == EXIT_OK && store_volume_by_id(m->store, id, &vol) == 0)
		answer->result =
			json_pack("{s:s, s:s}", "id", id, "state", volume_state_name(vol->state));
	return answer->exit;
}

enum proto_exit manager_pause(struct manager *m, const char *volume, bool paused,
			      struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	int r = volume_find_locked(m, volume, &vol);

	if (r < 0)
		return volume_not_found(answer, r);
	if (!volume_state_is_live(vol->state)) {
		volume_not_live(vol, answer);
	} else {
		r = record_walk(m, vol->id, paused, NULL);
		if (r < 0)
			store_failed(answer, r);
		else
			steer(m, vol, paused ? "pause" : "resume", NULL, NULL, answer);
	}
	key_unlock(m, vol->id);
	manager_changed(m);
	return answer_state(m, vol->id, answer);
}

/* One whose overlay has died altogether: it is remounted where what is set up is proven to be what was set up. */
static void recover_dead(struct manager *m, struct volume_record *vol, struct answer *answer)
{
	struct findings f = { .m = m };
	AUTO(volume_record) *now = NULL;

	reconstruct_volume(&f, vol);
	if (store_volume_by_id(m->store, vol->id, &now) < 0)
		answer_fail(answer, EXIT_NO_VOLUME, "no such volume");
	else if (!volume_state_is_live(now->state))
		volume_not_live(now, answer);
}

enum proto_exit manager_recover(struct manager *m, const char *volume, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(overlay) *o = NULL;
	char why[OVERLAY_ERROR_MAX];
	int r = volume_find_locked(m, volume, &vol);

	if (r < 0)
		return volume_not_found(answer, r);
	o = overlay_find(m->overlays, vol->id);
	mend_forget(m, vol->id);
	if (!o && vol->state == VOLUME_FAILED)
		recover_dead(m, vol, answer);
	else if (o && overlay_request(o, "recover", NULL, NULL, why) < 0)
		answer_fail(answer, EXIT_FAILED, "%s", why);
	if (o)
		(void)overlay_refresh(o, NULL);
	key_unlock(m, vol->id);
	manager_changed(m);
	return answer_state(m, vol->id, answer);
}

/*
 * A walk that left failures begins again: whoever waits after this must not see how the last one ended.
 * A short walk may have ended so again meanwhile, hence a bound.
 */
static void await_walk(struct manager *m, const char *id)
{
	AUTO(overlay) *o = overlay_find(m->overlays, id);
	struct overlay_status status;
	uint64_t generation = 0;

	for (int i = 0; o && i < WALK_LOOKS; i++) {
		if (overlay_refresh(o, &status) < 0 || status.state != VOLUME_CONVERGED ||
		    status.counters.failed == 0)
			return;
		manager_await_change(m, &generation, WALK_LOOK_MS);
	}
}

static enum proto_exit converge_locked(struct manager *m, const struct volume_record *vol,
				       const uint64_t *rate, struct answer *answer)
{
	char text[32];
	int r;

	if (!volume_state_is_live(vol->state))
		return volume_not_live(vol, answer);
	if (vol->state == VOLUME_VIRTUAL)
		return answer_fail(answer, EXIT_FAILED,
				   "the volume is virtual: its ownership is never written");
	r = record_walk(m, vol->id, false, rate);
	if (r < 0)
		return store_failed(answer, r);
	if (rate) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)*rate);
		if (steer(m, vol, "rate", "rate", text, answer) != EXIT_OK)
			return answer->exit;
	}
	if (steer(m, vol, "converge", NULL, NULL, answer) == EXIT_OK)
		await_walk(m, vol->id);
	return answer->exit;
}

enum proto_exit manager_converge(struct manager *m, const char *volume, bool has_rate,
				 uint64_t rate, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	int r = volume_find_locked(m, volume, &vol);

	if (r < 0)
		return volume_not_found(answer, r);
	converge_locked(m, vol, has_rate ? &rate : NULL, answer);
	key_unlock(m, vol->id);
	manager_changed(m);
	return answer_state(m, vol->id, answer);
}

/* ---- waiting ---- */

/* What keeps a converged volume from ever becoming native of itself; NULL: nothing. */
static const char *obstacle(struct manager *m, const struct volume_record *vol)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	struct overlay_status status;

	if (!vol->handoff)
		return "handoff=no";
	if (vol->state != VOLUME_CONVERGED || !o)
		return NULL;
	overlay_status_get(o, &status);
	if (vol->reason && strcmp(vol->reason, SELINUX_FOREIGN_REASON) == 0)
		return vol->reason;
	if (status.counters.failed == 0 && status.counters.excluded == 0)
		return NULL;
	return vol->reason ? vol->reason : "excluded paths or failures";
}

/* 1: reached or passed; 0: not yet; -1: it can never be, and the answer says why. */
static int judge_wait(struct manager *m, const struct volume_record *vol, enum volume_state wanted,
		      struct answer *answer)
{
	const char *name = volume_state_name(wanted);
	bool fails = vol->state == VOLUME_FAILED || vol->state == VOLUME_ABSENT ||
		     vol->state == VOLUME_TEARING_DOWN || vol->state == VOLUME_STAGED;

	if (vol->state >= wanted && vol->state <= VOLUME_NATIVE)
		return 1;
	if (vol->state == VOLUME_VIRTUAL && wanted == VOLUME_PRESENTED)
		return 1;
	if (vol->state == VOLUME_VIRTUAL)
		answer_fail(answer, EXIT_FAILED, "never %s: the volume is virtual", name);
	else if (fails)
		answer_fail(answer, EXIT_FAILED, "not %s: the volume is %s%s%s", name,
			    volume_state_name(vol->state), vol->reason ? ": " : "",
			    vol->reason ? vol->reason : "");
	else if (wanted == VOLUME_NATIVE && obstacle(m, vol))
		answer_fail(answer, EXIT_FAILED, "never native: %s", obstacle(m, vol));
	else if (wanted == VOLUME_NATIVE && vol->state == VOLUME_CONVERGED && vol->reason &&
		 strcmp(vol->reason, "excluded paths") == 0)
		answer_fail(answer, EXIT_FAILED, "never native: %s", vol->reason);
	else
		return 0;
	return -1;
}

static bool client_is_gone(int client_fd)
{
	struct pollfd poll_fd = { .fd = client_fd, .events = POLLRDHUP };

	return client_fd >= 0 && poll(&poll_fd, 1, 0) > 0 &&
	       (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void tell_walk(struct manager *m, const struct volume_record *vol,
		      const struct answer *answer)
{
	AUTO(overlay) *o = answer->listener ? overlay_find(m->overlays, vol->id) : NULL;
	struct overlay_status status;

	if (!o)
		return;
	overlay_status_get(o, &status);
	answer_tell(answer, volume_state_name(vol->state), status.counters.seen, status.total);
}

enum proto_exit manager_wait(struct manager *m, const char *volume, const char *state,
			     uint64_t timeout_ms, int client_fd, struct answer *answer)
{
	enum volume_state wanted = VOLUME_NATIVE;
	uint64_t start = clock_now_ms(), generation = 0, waited;

	if (volume_state_from_name(state, &wanted) < 0 ||
	    (wanted != VOLUME_PRESENTED && wanted != VOLUME_CONVERGED && wanted != VOLUME_NATIVE))
		return answer_fail(answer, EXIT_USAGE,
				   "state must be presented, converged or native");
	while (!manager_is_stopping(m) && !client_is_gone(client_fd)) {
		AUTO(volume_record) *vol = NULL;
		int r = look(m, volume, &vol);

		if (r < 0)
			return volume_not_found(answer, r);
		r = judge_wait(m, vol, wanted, answer);
		if (r < 0)
			return answer->exit;
		if (r > 0) {
			answer->result = json_pack("{s:s, s:s}", "id", vol->id, "state",
						   volume_state_name(vol->state));
			return EXIT_OK;
		}
		tell_walk(m, vol, answer);
		waited = clock_now_ms() - start;
		if (waited >= timeout_ms)
			return answer_fail(answer, EXIT_TIMEOUT, "timed out: the volume is %s%s%s",
					   volume_state_name(vol->state), vol->reason ? ": " : "",
					   vol->reason ? vol->reason : "");
		manager_await_change(m, &generation,
				     timeout_ms - waited < CLIENT_LOOK_MS ? timeout_ms - waited :
									    CLIENT_LOOK_MS);
	}
	return answer_fail(answer, EXIT_FAILED, "given up");
}

/* ---- events ---- */

#define EVENTS_A_REPLY 1000

enum proto_exit manager_events(struct manager *m, int64_t after, struct answer *answer)
{
	struct event_record *list = NULL;
	int n;

	answer->result = json_array();
	do {
		n = store_event_list(m->store, after, EVENTS_A_REPLY, &list);
		if (n < 0)
			return store_failed(answer, n);
		for (int i = 0; i < n; i++) {
			json_array_append_new(
				answer->result,
				json_pack("{s:I, s:o, s:o, s:s, s:o}", "id", (json_int_t)list[i].id,
					  "at", time_text(list[i].at_ms), "volume",
					  text_or_null(list[i].volume_id), "kind", list[i].kind,
					  "message", text_or_null(list[i].message)));
			after = list[i].id;
		}
		store_event_list_free(list, (size_t)n);
	} while (n == EVENTS_A_REPLY);
	return EXIT_OK;
}
