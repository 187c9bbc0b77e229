// SPDX-License-Identifier: Apache-2.0
/*
 * update: what is wanted of a volume changed while it is mounted. What the wanted ownership is made of begins
 * a new run, for which the volume is put behind a new overlay: only while nobody uses it, for two runs
 * cannot be shown through one mount, nor a native mount be covered behind its consumers' back.
 */
#include "mountd/update.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/gid_map.h"
#include "fs/base/log.h"
#include "mountd/dry_run.h"
#include "mountd/manager_impl.h"

struct updating {
	struct manager *m;
	const struct update_request *request;
	struct volume_record *old, *new;
	struct answer *answer;
};

/* ---- what may change ---- */

static bool fs_group_differs(const struct volume_record *a, const struct volume_record *b)
{
	return a->fs_group != b->fs_group;
}

static bool policy_differs(const struct volume_record *a, const struct volume_record *b)
{
	return strcmp(a->policy, b->policy) != 0;
}

static bool excludes_differ(const struct volume_record *a, const struct volume_record *b)
{
	return strcmp(a->excludes, b->excludes) != 0;
}

static bool rate_differs(const struct volume_record *a, const struct volume_record *b)
{
	return a->converge_rate != b->converge_rate;
}

static bool spec_differs(const struct volume_record *a, const struct volume_record *b)
{
	return strcmp(a->source, b->source) != 0;
}

/*
 * The arguments of a mount, and which of them may change while the volume is mounted. Whether a new run
 * is due is asked of wanted_text(): of the policies only RootOnly makes another wanted ownership.
 */
static const struct {
	const char *argument;
	bool (*differs)(const struct volume_record *a, const struct volume_record *b);
} arguments[] = {
	{ "fsGroup", fs_group_differs },
	{ "policy", policy_differs },
	{ "excludes", excludes_differ },
	{ "convergeRate", rate_differs },
	{ "spec", spec_differs }, /* of the same source, or of a plugin that refreshes */
	/* Never: */
	{ "plugin", NULL },
	{ "source", NULL },
	{ "target", NULL },
	{ "ownership", NULL },
	{ "keepPrivate", NULL },
	{ "readOnly", NULL },
	{ "handoff", NULL },
	{ "handoffInNamespaces", NULL },
	{ "settleMs", NULL },
	{ "conflict", NULL },
	{ "coherence", NULL },
	{ "transport", NULL },
	{ "idmap", NULL },
	{ "persist", NULL },
	{ "volumeId", NULL },
	{ "objects", NULL },
	{ "pod", NULL },
	{ "staged", NULL },
	{ "mountOptions", NULL }, /* but by a remount */
};

bool update_is_refused(const char *argument)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		if (strcmp(arguments[i].argument, argument) == 0)
			return !arguments[i].differs;
	}
	return false;
}

/* ---- the record to come ---- */

static enum proto_exit no_memory(struct answer *answer)
{
	return answer_fail(answer, EXIT_FAILED, "%s", strerror(ENOMEM));
}

static bool replace(char **io_text, char *text)
{
	if (!text)
		return false;
	free(*io_text);
	*io_text = text;
	return true;
}

/* The plugin's word on the spec's source, and its identity. */
static enum proto_exit check_spec(struct updating *u, const struct spec *spec)
{
	AUTO(volume_work) *work = NULL;
	AUTO_FREE char *identity = NULL;
	char why[PLUGIN_ERROR_MAX];
	int r = work_open(u->m, u->old, NULL, false, &work, why);

	if (r < 0)
		return answer_fail(u->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	work->building.b.source = spec->source;
	r = work->plugin->check(&work->building.b);
	if (r < 0)
		return answer_fail(u->answer, EXIT_FAILED, "%s",
				   work->building.b.error[0] ? work->building.b.error :
							       strerror(-r));
	identity = work->plugin->identity(&work->building.b);
	if (!identity)
		return no_memory(u->answer);
	/* What is refreshed may come from elsewhere with the next refresh. */
	if (strcmp(identity, u->old->source_identity) != 0 && !work->plugin->attributes.refreshable)
		return answer_fail(
			u->answer, EXIT_FAILED,
			"the spec is of another source, which cannot change while the volume is mounted");
	replace(&u->new->source_identity, take_ptr(&identity));
	return EXIT_OK;
}

static enum proto_exit take_spec(struct updating *u)
{
	AUTO(spec) *spec = NULL;
	char why[SPEC_ERROR_MAX];
	int r = spec_parse(u->old->plugin, NULL, u->request->spec, &spec, why);

	if (r < 0)
		return answer_fail(u->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (spec->read_only && !u->old->read_only)
		return answer_fail(u->answer, EXIT_FAILED,
				   "readOnly cannot change while the volume is mounted");
	if (check_spec(u, spec) != EXIT_OK)
		return u->answer->exit;
	return replace(&u->new->source, spec_record(spec)) ? EXIT_OK : no_memory(u->answer);
}

static enum proto_exit check_request(struct updating *u)
{
	const struct update_request *q = u->request;
	char quoted[96];

	if (q->policy && strcmp(q->policy, "Always") != 0 &&
	    strcmp(q->policy, "OnRootMismatch") != 0 && strcmp(q->policy, "RootOnly") != 0)
		return answer_fail(u->answer, EXIT_FAILED, "unknown policy %s",
				   log_quote(q->policy, quoted, sizeof(quoted)));
	if (q->has_fs_group && !gid_is_mapped(q->fs_group))
		return answer_fail(u->answer, EXIT_FAILED,
				   "gid %u is not mapped in this user namespace",
				   (unsigned)q->fs_group);
	return EXIT_OK;
}

/* The rules hold for what the volume would become. */
static enum proto_exit check_rules(struct updating *u)
{
	AUTO(rules) *rules = NULL;
	const struct front_rules *front;
	char why[ANSWER_TEXT_MAX] = "";
	int r = rules_load(u->m->layout->config_path, &rules, why);

	if (r < 0)
		return answer_fail(u->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	front = &rules->front[u->request->front];
	if (!rules_plugin_is_allowed(front, u->old->plugin))
		return answer_fail(
			u->answer, EXIT_FAILED,
			"plugin %s is not allowed here: no rule 'plugins' of mountd.conf names it",
			u->old->plugin);
	if (u->request->has_fs_group && !rules_ownership_is_allowed(front, u->old->ownership))
		return answer_fail(
			u->answer, EXIT_FAILED,
			"ownership=%s is not allowed here: no rule 'ownership' of mountd.conf names it",
			u->old->ownership);
	return EXIT_OK;
}

static enum proto_exit fill_new(struct updating *u)
{
	const struct update_request *q = u->request;
	int r = store_volume_by_id(u->m->store, u->old->id, &u->new);

	if (r < 0)
		return volume_not_found(u->answer, r);
	if (q->has_fs_group)
		u->new->fs_group = q->fs_group;
	if (q->has_rate)
		u->new->converge_rate = q->converge_rate;
	if (q->policy && !replace(&u->new->policy, strdup(q->policy)))
		return no_memory(u->answer);
	if (q->excludes && !replace(&u->new->excludes, json_dumps(q->excludes, JSON_COMPACT)))
		return no_memory(u->answer);
	return q->spec ? take_spec(u) : EXIT_OK;
}

/* The names of what changes, as an array. */
static json_t *differences(const struct updating *u)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		if (arguments[i].differs && arguments[i].differs(u->old, u->new))
			json_array_append_new(list, json_string(arguments[i].argument));
	}
	return list;
}

static int new_run_is_due(const struct updating *u, bool *ret_due)
{
	AUTO_FREE char *before = wanted_text(u->old), *after = wanted_text(u->new);

	if (!before || !after)
		return -ENOMEM;
	*ret_due = strcmp(before, after) != 0;
	return 0;
}

/* ---- doing ---- */

/* All that the follower does not write; it writes the same row, and is muted meanwhile. */
static int record_new(struct updating *u)
{
	AUTO(overlay) *o = overlay_find(u->m->overlays, u->old->id);
	AUTO(volume_record) *now = NULL;
	int r;

	if (o)
		overlay_mute(o, u->old->id, true);
	r = store_volume_by_id(u->m->store, u->old->id, &now);
	if (r == 0) {
		now->fs_group = u->new->fs_group;
		now->converge_rate = u->new->converge_rate;
		free(now->policy);
		free(now->excludes);
		free(now->source);
		free(now->source_identity);
		now->policy = strdup(u->new->policy);
		now->excludes = strdup(u->new->excludes);
		now->source = strdup(u->new->source);
		now->source_identity = strdup(u->new->source_identity);
		r = now->policy && now->excludes && now->source && now->source_identity ? 0 :
											  -ENOMEM;
	}
	if (r == 0)
		r = store_volume_update(u->m->store, now);
	if (o)
		overlay_mute(o, u->old->id, false);
	return r;
}

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
}

static enum proto_exit update_record(struct updating *u)
{
	AUTO(overlay) *o = overlay_find(u->m->overlays, u->old->id);
	char rate[32], why[OVERLAY_ERROR_MAX];
	int r = record_new(u);

	if (r < 0)
		return store_failed(u->answer, r);
	if (!o || !rate_differs(u->old, u->new))
		return EXIT_OK;
	snprintf(rate, sizeof(rate), "%llu", (unsigned long long)u->new->converge_rate);
	r = overlay_request(o, "rate", "rate", rate, why);
	if (r < 0 && r != -EPIPE) /* gone: there is no walk left */
		return answer_fail(u->answer, EXIT_FAILED, "%s", why);
	return EXIT_OK;
}

/* A tree that its plugin alone writes, and that is small: at once, as at its birth. */
static enum proto_exit update_owned_tree(struct updating *u)
{
	AUTO(volume_work) *work = NULL;
	AUTO_FD int lower_fd = -1;
	char why[PLUGIN_ERROR_MAX];
	int r = work_open(u->m, u->new, NULL, false, &work, why);

	if (r == 0) {
		struct volume_builder *b = &work->building.b;

		r = work->plugin->open_lower(b, &lower_fd);
		if (r == 0)
			r = b->host->own_tree(b, lower_fd, volume_plugin_gid(u->new), true);
		snprintf(why, sizeof(why), "%s", b->error);
	}
	if (r < 0)
		return answer_fail(u->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	return update_record(u);
}

/* Mounted again as @vol says; its texts may be taken. */
static enum proto_exit mount_as(struct updating *u, struct volume_record *vol,
				struct answer *answer)
{
	int r;

	vol->mount_id = 0;
	vol->state = VOLUME_SETTING_UP;
	free(take_ptr(&vol->reason));
	r = store_volume_update(u->m->store, vol);
	if (r < 0)
		return store_failed(answer, r);
	step_reached(u->m, STEP_UPDATE_RECORDED);
	return mount_recorded(u->m, vol, true, answer);
}

/* Off the target, with what is set up left as it is; refused while it is in use. */
static int take_off(struct updating *u)
{
	AUTO(overlay) *o = overlay_find(u->m->overlays, u->old->id);
	char why[ANSWER_TEXT_MAX];
	int r;

	if (o)
		overlay_mute(o, u->old->id, true);
	r = teardown(u->m, u->old, false, KEEP_SET_UP, why);
	if (r == -EBUSY)
		answer_fail(u->answer, EXIT_FAILED,
			    "the wanted ownership cannot change while the volume is in use: %.700s",
			    why);
	else if (r < 0)
		answer_fail(u->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (r < 0 && o)
		overlay_mute(o, u->old->id, false);
	return r;
}

static enum proto_exit update_presentation(struct updating *u)
{
	struct answer first = { 0 }, back = { 0 };
	AUTO(volume_record) *before = NULL;
	int r = store_volume_by_id(u->m->store, u->old->id, &before);

	if (r < 0)
		return volume_not_found(u->answer, r);
	if (take_off(u) < 0)
		return u->answer->exit;
	/* The run it took part in is not that of the new ownership. */
	free(take_ptr(&u->new->run_id));
	if (mount_as(u, u->new, &first) != EXIT_OK) {
		bool is_back = mount_as(u, before, &back) == EXIT_OK;

		answer_fail(u->answer, EXIT_FAILED, "%.700s (%s%.200s)", first.error,
			    is_back ? "the volume is as it was" : "and it cannot be brought back: ",
			    is_back ? "" : back.error);
	} else if (first.note[0]) {
		snprintf(u->answer->note, sizeof(u->answer->note), "%s", first.note);
	}
	answer_fini(&first);
	answer_fini(&back);
	return u->answer->exit;
}

static enum proto_exit apply(struct updating *u, bool run_is_due)
{
	const struct volume_plugin *plugin = plugin_find(u->old->plugin);

	if (!volume_state_is_live(u->old->state))
		snprintf(u->answer->note, sizeof(u->answer->note),
			 "the volume is %s: this is for its next mount",
			 volume_state_name(u->old->state));
	if (!run_is_due || !volume_state_is_live(u->old->state))
		return update_record(u);
	if (plugin && plugin->attributes.is_read_only && u->old->state == VOLUME_NATIVE)
		return update_owned_tree(u);
	return update_presentation(u);
}

static enum proto_exit would(struct updating *u, const json_t *changed, bool run_is_due)
{
	const struct volume_plugin *plugin = plugin_find(u->old->plugin);
	const json_t *name;
	size_t i;

	if (json_array_size(changed) == 0)
		return answer_would(u->answer, "do nothing: it is so");
	json_array_foreach(changed, i, name)
		answer_would(u->answer, "change %s", json_string_value(name));
	if (!run_is_due || !volume_state_is_live(u->old->state))
		return EXIT_OK;
	if (plugin && plugin->attributes.is_read_only && u->old->state == VOLUME_NATIVE)
		return answer_would(u->answer, "give its files to group %u in place",
				    (unsigned)u->new->fs_group);
	if (dry_run_detach(u->m, u->old, false, u->answer) != EXIT_OK)
		return u->answer->exit;
	return answer_would(u->answer, "mount it again, with a new run");
}

static enum proto_exit update_locked(struct updating *u)
{
	bool run_is_due = false;
	json_t *changed;

	/* What is known and not here may be changed: an update that was cut off has left it so. */
	if (u->old->state == VOLUME_TEARING_DOWN || u->old->state == VOLUME_STAGED)
		return volume_not_live(u->old, u->answer);
	if (check_request(u) != EXIT_OK || check_rules(u) != EXIT_OK || fill_new(u) != EXIT_OK)
		return u->answer->exit;
	if (new_run_is_due(u, &run_is_due) < 0)
		return no_memory(u->answer);
	changed = differences(u);
	if (u->request->dry_run) {
		would(u, changed, run_is_due);
		json_decref(changed);
		return u->answer->exit;
	}
	if (json_array_size(changed) == 0 || apply(u, run_is_due) == EXIT_OK)
		u->answer->result = json_pack("{s:s, s:O}", "id", u->old->id, "changed", changed);
	if (u->answer->exit == EXIT_OK && json_array_size(changed) > 0)
		event(u->m, u->old->id, "updated", "%s", u->old->target);
	json_decref(changed);
	return u->answer->exit;
}

enum proto_exit manager_update(struct manager *m, const struct update_request *request,
			       struct answer *answer)
{
	struct updating u = { .m = m, .request = request, .answer = answer };
	int r = volume_find_locked(m, request->volume, &u.old);

	if (r < 0)
		return volume_not_found(answer, r);
	/* One that somebody has just unmounted by hand is not to be mounted again by this. */
	volume_correct_native(m, u.old);
	update_locked(&u);
	key_unlock(m, u.old->id);
	if (answer->exit != EXIT_OK && !request->dry_run)
		event(m, u.old->id, "update-failed", "%s", answer->error);
	volume_record_free(u.old);
	volume_record_free(u.new);
	manager_changed(m);
	return answer->exit;
}
