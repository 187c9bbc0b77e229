// SPDX-License-Identifier: Apache-2.0
/*
 * refresh: a volume that is set up brought to what its source says now (design, section 8). Its plugin gives
 * what it writes its ownership before it can be seen (plugins/plugin.h), so no run is due afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/flow.h"
#include "mountd/manager_impl.h"
#include "mountd/object_list.h"

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether a refresh has left nothing to be recorded: kubelet repeats each mount after its restarts. */
static bool is_recorded(struct manager *m, const struct volume_record *vol, const char *metadata,
			const char *certifies)
{
	AUTO_FREE char *marker = NULL;
	int r = store_marker_get(m->store, vol->id, &marker);

	return (r == 0 || r == -ENOENT) && is_same(marker, certifies) &&
	       is_same(vol->plugin_metadata, metadata);
}

/* What the plugin keeps, and the marker of what it has made, in one transaction. */
static int record_refresh(struct manager *m, const char *id, const struct volume_work *work,
			  const char *certifies)
{
	AUTO(overlay) *o = overlay_find(m->overlays, id);
	AUTO(volume_record) *vol = NULL;
	char *metadata = flow_metadata(&work->building.b);
	int r;

	if (!metadata)
		return -ENOMEM;
	/* A follower writes the same row. */
	if (o)
		overlay_mute(o, id, true);
	r = store_volume_by_id(m->store, id, &vol);
	if (r == 0 && !is_recorded(m, vol, metadata, certifies)) {
		free(vol->plugin_metadata);
		vol->plugin_metadata = take_ptr(&metadata);
		r = store_setup_done(m->store, vol, certifies, NULL);
	}
	if (o)
		overlay_mute(o, id, false);
	free(metadata);
	return r;
}

static int certify(struct volume_work *work, char **ret_certifies)
{
	if (work->plugin->attributes.idempotency != IDEMPOTENCY_MARKER)
		return 0;
	return work->plugin->certify(&work->building.b, ret_certifies);
}

static int run(struct manager *m, const struct volume_record *vol, struct volume_work *work,
	       bool *ret_changed, char *ret_error)
{
	struct volume_builder *b = &work->building.b;
	AUTO_FREE char *certifies = NULL;
	int r;

	if (work->plugin->attributes.needs_objects && !b->objects) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s needs objects to be refreshed from",
			 work->plugin->name);
		return -EINVAL;
	}
	if (work->dir_fd < 0 || !flow_is_set_up(work->plugin, &work->building)) {
		snprintf(ret_error, ANSWER_TEXT_MAX,
			 "what was set up is no longer there: mount it again");
		return -ENOENT;
	}
	b->error[0] = '\0';
	r = work->plugin->check(b);
	if (r == 0)
		r = work->plugin->refresh(b, volume_plugin_gid(vol), ret_changed);
	step_reached(m, STEP_REFRESHED);
	if (r == 0)
		r = certify(work, &certifies);
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", b->error[0] ? b->error : strerror(-r));
		return r;
	}
	r = record_refresh(m, vol->id, work, certifies);
	if (r < 0)
		store_why(r, ret_error, ANSWER_TEXT_MAX);
	return r;
}

int volume_refresh(struct manager *m, const struct volume_record *vol,
		   const struct refresh_request *request, bool *ret_changed, char *ret_error)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX];
	bool changed = false;
	int r = work_open(m, vol, request->front, false, &work, why);

	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", why[0] ? why : strerror(-r));
		return r;
	}
	if (!work->plugin->attributes.refreshable) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s is not refreshable", work->plugin->name);
		return -EOPNOTSUPP;
	}
	work->building.b.objects = request->objects;
	work->building.b.pod_namespace = request->pod_namespace;
	r = run(m, vol, work, &changed, ret_error);
	if (r < 0)
		return r;
	if (changed)
		event(m, vol->id, "refreshed", "%s", vol->target);
	*ret_changed = changed;
	return 0;
}

/* ---- the request ---- */

/* All but the plugin's own work, which writes what differs. */
static enum proto_exit would_refresh(struct manager *m, const struct volume_record *vol,
				     const struct refresh_request *request, struct answer *answer)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX] = "", quoted[256];
	int r;

	if (!volume_state_is_live(vol->state))
		return volume_not_live(vol, answer);
	r = work_open(m, vol, request->front, false, &work, why);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (!work->plugin->attributes.refreshable)
		return answer_fail(answer, EXIT_FAILED, "%s is not refreshable",
				   work->plugin->name);
	if (work->plugin->attributes.needs_objects && !request->objects)
		return answer_fail(answer, EXIT_FAILED, "%s needs objects to be refreshed from",
				   work->plugin->name);
	work->building.b.objects = request->objects;
	work->building.b.pod_namespace = request->pod_namespace;
	r = work->plugin->check(&work->building.b);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s",
				   work->building.b.error[0] ? work->building.b.error :
							       strerror(-r));
	return answer_would(answer, "write what differs to %s",
			    log_quote(vol->target, quoted, sizeof(quoted)));
}

static enum proto_exit refresh_locked(struct manager *m, const struct volume_record *vol,
				      const struct refresh_request *request, struct answer *answer)
{
	char why[ANSWER_TEXT_MAX] = "";
	bool changed = false;
	int r;

	if (!volume_state_is_live(vol->state))
		return volume_not_live(vol, answer);
	r = volume_refresh(m, vol, request, &changed, why);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	answer->result = json_pack("{s:s, s:b}", "id", vol->id, "changed", changed);
	return EXIT_OK;
}

enum proto_exit manager_refresh(struct manager *m, enum front_end front, const char *volume,
				json_t *objects, const char *pod, bool dry_run,
				struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(rules) *rules = NULL;
	AUTO_FREE char *pod_namespace = NULL;
	struct refresh_request request;
	json_t *selected = NULL;
	char why[ANSWER_TEXT_MAX] = "";
	int r = rules_load(m->layout->config_path, &rules, why);

	if (r == 0)
		r = object_list_select(objects, pod, &selected, &pod_namespace, why);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	r = volume_find_locked(m, volume, &vol);
	if (r < 0) {
		json_decref(selected);
		return volume_not_found(answer, r);
	}
	request = (struct refresh_request){
		.front = &rules->front[front],
		.objects = selected,
		.pod_namespace = pod_namespace,
	};
	if (dry_run)
		would_refresh(m, vol, &request, answer);
	else
		refresh_locked(m, vol, &request, answer);
	key_unlock(m, vol->id);
	json_decref(selected);
	if (answer->exit != EXIT_OK && !dry_run)
		event(m, vol->id, "refresh-failed", "%s", answer->error);
	return answer->exit;
}
