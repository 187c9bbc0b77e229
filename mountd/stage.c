// SPDX-License-Identifier: Apache-2.0
/*
 * stage: the life of a device: mounted once for all its consumers, and unmounted when there are none (unstage.c).
 * Its record is a volume without a target and a device; it is written before anything is done and removed
 * after the device is free again. Each step is idempotent: what a crash leaves is finished or undone by the
 * next call.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/setup_check.h"
#include "mountd/stage.h"
#include "mountd/steps.h"

/* Where a device is mounted unless the caller says where: in the volume's own directory. */
static const char STAGING_NAME[] = "device";

/* A stage request on its way. */
struct staging {
	struct manager *m;
	const struct stage_request *request;
	struct answer *answer;
	struct rules *rules;
	const struct front_rules *front;
	struct spec *spec;
	const struct volume_plugin *plugin;
	struct volume_record *vol;    /* as asked for; later as recorded */
	struct device_record *device; /* as asked for; later as recorded */
	char *options;		      /* the request's and the spec's; or NULL */
};

static void staging_free(struct staging *x)
{
	rules_free(x->rules);
	spec_free(x->spec);
	volume_record_free(x->vol);
	device_record_free(x->device);
	free(x->options);
	free(x);
}
DEFINE_AUTO(staging)

static enum proto_exit fail(struct answer *answer, int error, const char *why)
{
	return answer_fail(answer, EXIT_FAILED, "%s", why && why[0] ? why : strerror(-error));
}

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return fail(answer, error, store_why(error, why, sizeof(why)));
}

/* ---- what is asked for ---- */

static enum proto_exit check_rules(struct staging *x)
{
	if (!rules_plugin_is_allowed(x->front, x->spec->plugin))
		return answer_fail(
			x->answer, EXIT_FAILED,
			"plugin %s is not allowed here: no rule 'plugins' of mountd.conf names it",
			x->spec->plugin);
	if (x->request->front == FRONT_FLEXVOLUME && x->spec->mount_options)
		return answer_fail(x->answer, EXIT_FAILED, "mountOptions are not taken here");
	if (x->request->format && !x->front->format)
		return answer_fail(
			x->answer, EXIT_FAILED,
			"formatting is not allowed here: no rule 'format = yes' in mountd.conf");
	if (x->request->volume_id && !volume_id_is_valid(x->request->volume_id))
		return answer_fail(x->answer, EXIT_FAILED,
				   "volume id: must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}");
	x->plugin = plugin_find(x->spec->plugin);
	if (!x->plugin || !x->plugin->attributes.attachable)
		return answer_fail(x->answer, EXIT_FAILED,
				   "plugin %s has no devices to stage: it is mounted at once",
				   x->spec->plugin);
	return EXIT_OK;
}

/* Without an id given, the same staging path or else the same source has the same id. */
static char *id_of(const struct staging *x, const char *identity)
{
	AUTO_FREE char *name = NULL;
	char id[TARGET_ID_SIZE];

	if (x->request->volume_id)
		return strdup(x->request->volume_id);
	if (x->request->staging)
		name = strdup(x->request->staging);
	else if (asprintf(&name, "%s:%s", x->plugin->name, identity) < 0)
		name = NULL;
	if (!name)
		return NULL;
	target_id(name, id);
	return strdup(id);
}

static char *staging_path_of(const struct staging *x)
{
	AUTO_FREE char *own = NULL;

	if (x->request->staging)
		return strdup(x->request->staging);
	own = path_join(x->m->volumes_path, x->vol->id);
	return own ? path_join(own, STAGING_NAME) : NULL;
}

/* What a repeated stage is compared with. */
static char *arguments_of(const struct staging *x)
{
	json_t *arguments = json_pack("{s:s, s:s*, s:s*}", "device", x->request->device, "fsType",
				      x->request->fs_type, "mountOptions", x->options);
	char *text = json_dumps(arguments, JSON_COMPACT | JSON_SORT_KEYS);

	json_decref(arguments);
	return text;
}

static int join_options(struct staging *x)
{
	const char *a = x->spec->mount_options, *b = x->request->mount_options;

	if (!a && !b)
		return 0;
	if (asprintf(&x->options, "%s%s%s", a ? a : "", a && b ? "," : "", b ? b : "") < 0) {
		x->options = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* A device has no ownership of its own: its columns say so. */
static int fill_records(struct staging *x, char *identity)
{
	struct volume_record *vol = x->vol = volume_record_new();
	struct device_record *device = x->device = device_record_new();

	if (!vol || !device || join_options(x) < 0) {
		free(identity);
		return -ENOMEM;
	}
	vol->source_identity = identity;
	vol->id = id_of(x, identity);
	vol->plugin = strdup(x->spec->plugin);
	vol->source = spec_record(x->spec);
	vol->policy = strdup(x->front->policy);
	vol->ownership = strdup("none");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	vol->read_only = x->spec->read_only || x->request->read_only;
	vol->state = VOLUME_SETTING_UP;
	vol->boot_id = strdup(x->m->boot_id);
	if (!vol->id || !vol->plugin || !vol->source || !vol->policy || !vol->ownership ||
	    !vol->excludes || !vol->coherence || !vol->boot_id)
		return -ENOMEM;
	device->id = strdup(vol->id);
	device->staging_path = staging_path_of(x);
	device->identity = strdup("");
	device->arguments = arguments_of(x);
	return device->id && device->staging_path && device->identity && device->arguments ?
		       0 :
		       -ENOMEM;
}

static enum proto_exit check_source(struct staging *x)
{
	json_t *metadata = json_object();
	struct building building = source_building(x->m, x->front, "", x->spec->source, metadata);
	char *identity = NULL;
	int r = metadata ? x->plugin->check(&building.b) : -ENOMEM;

	if (r == 0) {
		identity = x->plugin->identity(&building.b);
		r = identity ? fill_records(x, identity) : -ENOMEM;
	}
	json_decref(metadata);
	return r < 0 ? fail(x->answer, r, building.b.error) : EXIT_OK;
}

static enum proto_exit staging_check(struct staging *x)
{
	char why[ANSWER_TEXT_MAX] = "";
	int r = rules_load(x->m->layout->config_path, &x->rules, why);

	if (r < 0)
		return fail(x->answer, r, why);
	x->front = &x->rules->front[x->request->front];
	r = spec_parse(x->request->plugin, x->request->source, x->request->spec, &x->spec, why);
	if (r < 0)
		return fail(x->answer, r, why);
	if (check_rules(x) != EXIT_OK)
		return x->answer->exit;
	return check_source(x);
}

/* ---- staging ---- */

/* The plugin's part. *ret_error: ANSWER_TEXT_MAX bytes. */
static int mount_device(struct staging *x, char *ret_error)
{
	const struct device_request request = {
		.path = x->request->device,
		.fs_type = x->request->fs_type,
		.options = x->options,
		.format = x->request->format,
	};
	AUTO(volume_work) *work = NULL;
	struct place place = { 0 };
	struct mount_view view;
	char why[PLUGIN_ERROR_MAX];
	int r = work_open(x->m, x->vol, x->front, true, &work, why);

	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", why);
		return r;
	}
	r = place_open(x->device, &place, ret_error);
	if (r < 0)
		return r;
	r = x->plugin->mount_device(&work->building.b, &request, &place.place);
	if (r < 0)
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", work->building.b.error);
	if (r == 0)
		r = mount_look(place.place.dir_fd, place.place.name, &view);
	if (r == 0)
		x->vol->mount_id = view.id;
	if (stage_take_metadata(x->vol, work) < 0)
		r = -ENOMEM;
	free(x->device->identity);
	x->device->identity = x->plugin->device_identity(&work->building.b);
	target_free(place.target);
	return r < 0 ? r : x->device->identity ? 0 : -ENOMEM;
}

/* After a failed stage nothing is mounted, and nothing on record that was not there before. */
static void undo(struct staging *x, bool was_known)
{
	char why[ANSWER_TEXT_MAX] = "";
	int r = 0;

	if (!was_known) {
		r = unstage(x->m, x->vol, x->device, why);
		if (r == 0)
			r = store_volume_delete(x->m->store, x->vol->id);
	}
	if (r < 0)
		log_line(LOG_ERROR, "stage", "vol=%s undoing a failed stage: %s", x->vol->id, why);
	if (!was_known && r == 0)
		return;
	x->vol->state = was_known ? VOLUME_FAILED : VOLUME_TEARING_DOWN;
	free(x->vol->reason);
	x->vol->reason = strdup(x->answer->error);
	r = store_volume_update(x->m->store, x->vol);
	if (r < 0)
		log_line(LOG_ERROR, "stage", "vol=%s ignoring that its state is not on record: %s",
			 x->vol->id, strerror(-r));
}

static enum proto_exit stage_now(struct staging *x, bool was_known)
{
	char why[ANSWER_TEXT_MAX] = "";
	int r = store_device_put(x->m->store, x->vol, x->device);

	if (r == -EEXIST)
		return answer_fail(x->answer, EXIT_FAILED, "another device is staged at this path");
	if (r < 0)
		return store_failed(x->answer, r);
	step_reached(x->m, STEP_STAGE_RECORDED);
	r = mount_device(x, why);
	if (r == 0) {
		step_reached(x->m, STEP_STAGE_MOUNTED);
		x->vol->state = VOLUME_STAGED;
		r = store_device_put(x->m->store, x->vol, x->device);
		if (r < 0)
			store_why(r, why, sizeof(why));
	}
	if (r < 0) {
		fail(x->answer, r, why);
		undo(x, was_known);
		return x->answer->exit;
	}
	step_reached(x->m, STEP_STAGE_DONE);
	event(x->m, x->vol->id, "staged", "%s at %s: %s", x->vol->plugin, x->device->staging_path,
	      x->device->identity);
	return EXIT_OK;
}

static bool is_same_source(const struct staging *x, const struct volume_record *vol,
			   const struct device_record *device)
{
	return strcmp(vol->plugin, x->vol->plugin) == 0 &&
	       strcmp(vol->source_identity, x->vol->source_identity) == 0 &&
	       strcmp(device->staging_path, x->device->staging_path) == 0;
}

/* The first argument in which a repeated stage differs, or NULL. */
static const char *first_difference(const struct staging *x, const struct volume_record *vol,
				    const struct device_record *device)
{
	if (strcmp(vol->plugin, x->vol->plugin) != 0)
		return "plugin";
	if (strcmp(vol->source_identity, x->vol->source_identity) != 0)
		return "source";
	if (vol->read_only != x->vol->read_only)
		return "read-only";
	if (strcmp(device->staging_path, x->device->staging_path) != 0)
		return "staging path";
	if (strcmp(device->arguments, x->device->arguments) != 0)
		return "device, file system type or mount options";
	return NULL;
}

/*
 * What was staged in another boot is not repeated with the same words: devices get other names, and a node agent
 * that finds nothing mounted does not unstage. What the device is stays on record as long as its source is the same.
 */
static bool is_of_another_boot(const struct staging *x, const struct volume_record *old)
{
	return old->state == VOLUME_ABSENT &&
	       strcmp(old->boot_id ? old->boot_id : "", x->m->boot_id) != 0;
}

static enum proto_exit stage_known(struct staging *x, struct volume_record *old,
				   const struct device_record *old_device)
{
	const char *difference;

	if (old->state == VOLUME_TEARING_DOWN ||
	    (is_of_another_boot(x, old) && !is_same_source(x, old, old_device))) {
		if (unstage_known(x->m, old, old_device, x->answer) != EXIT_OK)
			return x->answer->exit;
		return stage_now(x, false);
	}
	difference = is_of_another_boot(x, old) ? NULL : first_difference(x, old, old_device);
	if (difference)
		return answer_fail(x->answer, EXIT_FAILED, "%s is staged with another %s", old->id,
				   difference);
	if (is_still_staged(x->m, old->id))
		return EXIT_OK;
	/* Begun, failed or gone: what is known of the device stays, and must be what is found. */
	free(x->vol->plugin_metadata);
	x->vol->plugin_metadata = take_ptr(&old->plugin_metadata);
	x->vol->created_at_ms = old->created_at_ms;
	return stage_now(x, true);
}

/* ---- what would be done ---- */

static enum proto_exit would_stage_now(struct staging *x)
{
	const struct device_request request = {
		.path = x->request->device,
		.fs_type = x->request->fs_type,
		.options = x->options,
		.format = x->request->format,
	};
	json_t *metadata = x->vol->plugin_metadata ? json_loads(x->vol->plugin_metadata, 0, NULL) :
						     json_object();
	struct building building =
		source_building(x->m, x->front, x->vol->id, x->spec->source, metadata);
	char text[ANSWER_TEXT_MAX / 2] = "", quoted[256];
	int r;

	building.b.read_only = x->vol->read_only;
	r = metadata ? x->plugin->probe_device(&building.b, &request, text, sizeof(text)) : -ENOMEM;
	json_decref(metadata);
	if (r < 0)
		return fail(x->answer, r, building.b.error);
	answer_would(x->answer, "%s", text);
	return answer_would(x->answer, "stage it as %s at %s", x->vol->id,
			    log_quote(x->device->staging_path, quoted, sizeof(quoted)));
}

static enum proto_exit would_stage(struct staging *x)
{
	AUTO(volume_record) *old = NULL;
	AUTO(device_record) *old_device = NULL;
	const char *difference;
	int r = store_volume_by_id(x->m->store, x->vol->id, &old);

	if (r == -ENOENT)
		return would_stage_now(x);
	if (r == 0)
		r = store_device_by_id(x->m->store, x->vol->id, &old_device);
	if (r == -ENOENT)
		return answer_fail(x->answer, EXIT_FAILED,
				   "volume id %s is that of a mounted volume", x->vol->id);
	if (r < 0)
		return store_failed(x->answer, r);
	if (old->state == VOLUME_TEARING_DOWN)
		return answer_would(x->answer, "finish its last unstage, and begin anew");
	difference = is_of_another_boot(x, old) ? NULL : first_difference(x, old, old_device);
	if (difference)
		return answer_fail(x->answer, EXIT_FAILED, "%s is staged with another %s", old->id,
				   difference);
	if (is_still_staged(x->m, old->id))
		return answer_would(x->answer, "do nothing: %s is staged so", old->id);
	x->vol->plugin_metadata = take_ptr(&old->plugin_metadata);
	return would_stage_now(x);
}

static enum proto_exit stage_locked(struct staging *x)
{
	AUTO(volume_record) *old = NULL;
	AUTO(device_record) *old_device = NULL;
	int r = store_volume_by_id(x->m->store, x->vol->id, &old);

	if (r == -ENOENT)
		return stage_now(x, false);
	if (r == 0)
		r = store_device_by_id(x->m->store, x->vol->id, &old_device);
	if (r == -ENOENT)
		return answer_fail(x->answer, EXIT_FAILED,
				   "volume id %s is that of a mounted volume", x->vol->id);
	return r < 0 ? store_failed(x->answer, r) : stage_known(x, old, old_device);
}

enum proto_exit manager_stage(struct manager *m, const struct stage_request *request,
			      struct answer *answer)
{
	AUTO(staging) *x = calloc(1, sizeof(*x));
	const char *id = NULL;

	if (!x)
		return fail(answer, -ENOMEM, NULL);
	x->m = m;
	x->request = request;
	x->answer = answer;
	if (staging_check(x) == EXIT_OK) {
		id = x->vol->id;
		if (key_lock(m, id) < 0)
			return fail(answer, -ENOMEM, NULL);
		if (request->dry_run)
			would_stage(x);
		else
			stage_locked(x);
		key_unlock(m, id);
	}
	if (request->dry_run)
		return answer->exit;
	manager_changed(m);
	if (answer->exit != EXIT_OK) {
		event(m, id, "stage-failed", "%s", answer->error);
		return answer->exit;
	}
	answer->result =
		json_pack("{s:s, s:s, s:s}", "id", id, "state", volume_state_name(VOLUME_STAGED),
			  "stagingPath", x->device->staging_path);
	return EXIT_OK;
}
