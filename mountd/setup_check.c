// SPDX-License-Identifier: Apache-2.0
#include "mountd/setup_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/gid_map.h"
#include "mountd/host.h"
#include "mountd/object_file.h"
#include "mountd/caller_place.h"
#include "mountd/object_list.h"

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
	return strcmp(text, a) == 0 || strcmp(text, b) == 0 || (c && strcmp(text, c) == 0);
}

static enum proto_exit check_words(const struct mount_request *q, struct answer *answer)
{
	char quoted[96];

	if (q->policy && !is_one_of(q->policy, "Always", "OnRootMismatch", "RootOnly"))
		return answer_fail(answer, EXIT_FAILED, "unknown policy %s",
				   log_quote(q->policy, quoted, 96));
	if (q->ownership && !is_one_of(q->ownership, "converge", "virtual", "none"))
		return answer_fail(answer, EXIT_FAILED, "unknown ownership %s",
				   log_quote(q->ownership, quoted, 96));
	if (q->conflict && !is_one_of(q->conflict, "refuse", "virtual", NULL))
		return answer_fail(answer, EXIT_FAILED, "unknown conflict mode %s",
				   log_quote(q->conflict, quoted, 96));
	if (q->coherence && !is_one_of(q->coherence, "exclusive", "shared", NULL))
		return answer_fail(answer, EXIT_FAILED, "unknown coherence %s",
				   log_quote(q->coherence, quoted, 96));
	if (q->transport && !is_one_of(q->transport, "dev", "io_uring", NULL))
		return answer_fail(answer, EXIT_FAILED, "unknown transport %s",
				   log_quote(q->transport, quoted, 96));
	if (q->volume_id && !volume_id_is_valid(q->volume_id))
		return answer_fail(answer, EXIT_FAILED,
				   "volume id %s: must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}",
				   log_quote(q->volume_id, quoted, 96));
	if (q->fs_group != GID_UNSET && !gid_is_mapped(q->fs_group))
		return answer_fail(answer, EXIT_FAILED,
				   "gid %u is not mapped in this user namespace",
				   (unsigned)q->fs_group);
	return EXIT_OK;
}

static enum proto_exit check_rules(struct mounting *x)
{
	const char *ownership =
		x->request->ownership ? x->request->ownership : x->front->default_ownership;

	if (!rules_plugin_is_allowed(x->front, x->spec->plugin))
		return answer_fail(
			x->answer, EXIT_FAILED,
			"plugin %s is not allowed here: no rule 'plugins' of mountd.conf names it",
			x->spec->plugin);
	/* Whatever the rules say: a driver that calls itself has no end. */
	if (x->request->front == FRONT_FLEXVOLUME && strcmp(x->spec->plugin, "flexVolume") == 0)
		return answer_fail(x->answer, EXIT_FAILED,
				   "plugin flexVolume is not allowed inside FlexVolume");
	/* They go to mount(2) as they are: "errors=panic" is one. */
	if (x->request->front == FRONT_FLEXVOLUME && x->spec->mount_options)
		return answer_fail(x->answer, EXIT_FAILED, "mountOptions are not taken here");
	if (x->request->fs_group != GID_UNSET && !rules_ownership_is_allowed(x->front, ownership))
		return answer_fail(
			x->answer, EXIT_FAILED,
			"ownership=%s is not allowed here: no rule 'ownership' of mountd.conf names it",
			ownership);
	return EXIT_OK;
}

/* What was asked for, else what the rules assume; where no mount can have a label none is mounted without it. */
static enum proto_exit check_context(struct mounting *x)
{
	struct mount_flags *flags = &x->mount_flags;
	bool assumed = !*flags->context && x->front->context;
	const char *why_not;

	if (assumed)
		(void)mount_flags_set_context(flags, x->front->context);
	why_not = selinux_label_is_foreign(flags->context, "") ? selinux_why_not("") : NULL;
	return why_not ? answer_fail(x->answer, EXIT_FAILED, "context=%s%s: %s", flags->context,
				     assumed ? " of mountd.conf" : "", why_not) :
			 EXIT_OK;
}

static char *dup_or(const char *asked, const char *assumed)
{
	return strdup(asked ? asked : assumed);
}

/* The patterns as a JSON text: what was asked, else what the rules assume. */
static char *excludes_text(const struct mounting *x)
{
	json_t *list = x->request->excludes ? json_incref(x->request->excludes) : json_array();
	char *text;

	for (size_t i = 0; !x->request->excludes && x->front->exclude && x->front->exclude[i]; i++)
		json_array_append_new(list, json_string(x->front->exclude[i]));
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

/* The record that the request amounts to. */
static int fill_record(struct mounting *x)
{
	const struct mount_request *q = x->request;
	struct volume_record *vol = volume_record_new();
	char id[TARGET_ID_SIZE];

	x->vol = vol;
	if (!vol)
		return -ENOMEM;
	target_id(x->target->given, id);
	vol->id = dup_or(q->volume_id, id);
	vol->plugin = strdup(x->spec->plugin);
	vol->source = spec_record(x->spec);
	vol->target = strdup(x->target->given);
	vol->target_resolved = strdup(x->target->resolved);
	vol->fs_group = q->fs_group;
	vol->policy = dup_or(q->policy, x->front->policy);
	vol->ownership = dup_or(q->ownership, x->front->default_ownership);
	vol->excludes = excludes_text(x);
	vol->coherence =
		dup_or(q->coherence, x->plugin->attributes.shared ? "shared" : "exclusive");
	vol->transport = strdup(q->transport ? q->transport : "dev");
	vol->keep_private = q->keep_private;
	vol->read_only = q->read_only || x->spec->read_only || x->plugin->attributes.is_read_only;
	vol->handoff = q->handoff;
	vol->handoff_in_namespaces = q->handoff && q->handoff_in_namespaces;
	vol->idmap = q->has_idmap ? q->idmap : x->front->idmap;
	vol->persist = q->persist;
	if (mount_flags_text(&x->mount_flags, &vol->mount_options) < 0)
		return -ENOMEM;
	vol->converge_rate = q->has_rate ? q->converge_rate : x->front->converge_rate;
	vol->state = VOLUME_SETTING_UP;
	vol->boot_id = strdup(x->m->boot_id);
	if (!vol->id || !vol->plugin || !vol->source || !vol->target || !vol->target_resolved ||
	    !vol->policy || !vol->ownership || !vol->excludes || !vol->coherence ||
	    !vol->transport || !vol->boot_id)
		return -ENOMEM;
	return 0;
}

struct building source_building(struct manager *m, const struct front_rules *front, const char *id,
				json_t *source, json_t *metadata)
{
	return (struct building){
		.b = {
			.id = id,
			.host = &host_table,
			.source = source,
			.dir_fd = -1,
			.dir_path = m->volumes_path,
			.metadata = metadata,
		},
		.root = m->layout->root,
		.front = front,
		.boot_id = m->boot_id,
		.manager = m,
		.name = "",
	};
}

/* A consumer is known by its device, not by what the device is made from. */
static char *identity_of(const struct mounting *x, const struct volume_builder *b)
{
	return x->staged ? store_device_consumer(x->staged) : x->plugin->identity(b);
}

/* Whether the front end may use the device that was staged: perhaps another one staged it. */
static bool device_is_allowed(const struct mounting *x, const char *id)
{
	AUTO(device_record) *device = NULL;
	const char *path, *rest;
	json_t *arguments;
	bool allowed;

	if (!x->front->sources)
		return true;
	if (store_device_by_id(x->m->store, id, &device) < 0)
		return false;
	arguments = json_loads(device->arguments, 0, NULL);
	path = json_string_value(json_object_get(arguments, "device"));
	allowed = path && rules_source_prefix(x->front, path, &rest);
	json_decref(arguments);
	return allowed;
}

/*
 * A source that has to be staged is what the device was staged for: found by it where the caller has no id, as
 * kubelet has none. The device's record has no target.
 */
static int find_staged(struct mounting *x, struct volume_builder *b)
{
	AUTO_FREE char *identity = x->plugin->identity(b);
	struct volume_record **list = NULL;
	int n = identity ? store_volume_list(x->m->store, &list) : -ENOMEM;

	for (int i = 0; i < n && !x->staged; i++) {
		if (!list[i]->target && strcmp(list[i]->plugin, x->plugin->name) == 0 &&
		    strcmp(list[i]->source_identity, identity) == 0 &&
		    device_is_allowed(x, list[i]->id)) {
			x->staged = strdup(list[i]->id);
			if (!x->staged)
				break;
		}
	}
	if (n > 0)
		store_volume_list_free(list, (size_t)n);
	if (n < 0)
		return n;
	return x->staged ?
		       0 :
		       host_fail(
			       b, -ENOENT,
			       "no device of this source is staged: a block device is staged first");
}

/* The plugin's word on the source, before anything is recorded or done. */
static enum proto_exit check_source(struct mounting *x)
{
	json_t *metadata = json_object();
	struct building building =
		source_building(x->m, x->front, x->vol->id, x->spec->source, metadata);
	int r;

	building.b.read_only = x->vol->read_only;
	building.b.keep_private = x->vol->keep_private;
	building.b.objects = x->objects;
	building.b.pod_namespace = x->pod_namespace;
	r = metadata ? x->plugin->check(&building.b) : -ENOMEM;
	x->vol->read_only = building.b.read_only;
	if (r == 0 && x->plugin->attributes.attachable && !x->staged)
		r = find_staged(x, &building.b);
	if (r == 0) {
		x->vol->source_identity = identity_of(x, &building.b);
		r = x->vol->source_identity ? 0 : -ENOMEM;
	}
	if (r == 0 && !x->request->coherence && x->plugin->is_shared) {
		free(x->vol->coherence);
		x->vol->coherence =
			strdup(x->plugin->is_shared(&building.b) ? "shared" : "exclusive");
		r = x->vol->coherence ? 0 : -ENOMEM;
	}
	json_decref(metadata);
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s",
				   building.b.error[0] ? building.b.error : strerror(-r));
	return EXIT_OK;
}

/* What a staged device was made from is on its record. */
static enum proto_exit take_staged_spec(struct mounting *x)
{
	const struct mount_request *q = x->request;
	AUTO(volume_record) *vol = NULL;
	char quoted[VOLUME_ID_MAX];
	int r;

	if (q->plugin || q->source || q->spec)
		return answer_fail(x->answer, EXIT_FAILED,
				   "two conflicting sources: a staged device and another");
	if (q->volume_id && strcmp(q->volume_id, q->staged) == 0)
		return answer_fail(x->answer, EXIT_FAILED,
				   "volume id %s: is that of the staged device",
				   log_quote(q->volume_id, quoted, sizeof(quoted)));
	x->staged = strdup(q->staged);
	r = x->staged ? store_volume_by_id(x->m->store, q->staged, &vol) : -ENOMEM;
	if (r == -ENOENT || (r == 0 && vol->target))
		return answer_fail(x->answer, EXIT_NO_VOLUME, "no device %s is staged",
				   log_quote(q->staged, quoted, sizeof(quoted)));
	if (r == 0)
		r = spec_restore(vol->plugin, vol->source, &x->spec);
	return r < 0 ? answer_fail(x->answer, EXIT_FAILED, "the record of the staged device: %s",
				   strerror(-r)) :
		       EXIT_OK;
}

static enum proto_exit take_spec(struct mounting *x)
{
	const struct mount_request *q = x->request;
	char why[SPEC_ERROR_MAX] = "";
	int r;

	if (q->staged)
		return take_staged_spec(x);
	r = spec_parse(q->plugin, q->source, q->spec, &x->spec, why);
	return r < 0 ? answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r)) :
		       EXIT_OK;
}

static int read_objects(struct mounting *x, json_t **ret_objects, char *ret_error)
{
	const char *path = x->request->objects_path, *rest = NULL, *prefix = NULL;
	char quoted[256];

	if (path[0] == '/')
		prefix = rules_objects_prefix(x->front, path, &rest);
	if (!prefix) {
		snprintf(
			ret_error, ANSWER_TEXT_MAX,
			"objects %s: beneath no prefix that mountd.conf allows (objects, else sources)",
			log_quote(path, quoted, sizeof(quoted)));
		return -EACCES;
	}
	if (*prefix)
		return object_file_read_beneath(prefix, rest, path, ret_objects, ret_error);
	return object_file_read_beneath("/", path + strspn(path, "/"), path, ret_objects,
					ret_error);
}

/* Those that the request has, or those that it says where to read. */
static enum proto_exit take_objects(struct mounting *x)
{
	const struct mount_request *q = x->request;
	json_t *given = json_incref(q->objects);
	char why[ANSWER_TEXT_MAX] = "";
	int r = 0;

	/* What the request brings itself is there already. */
	if (q->objects_path && !given)
		r = read_objects(x, &given, why);
	if (r == 0)
		r = object_list_select(given, q->pod, &x->objects, &x->pod_namespace, why);
	json_decref(given);
	return r < 0 ? answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r)) :
		       EXIT_OK;
}

enum proto_exit mounting_check(struct mounting *x)
{
	const struct mount_request *q = x->request;
	char why[ANSWER_TEXT_MAX] = "";
	int r = rules_load(x->m->layout->config_path, &x->rules, why);

	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	x->front = &x->rules->front[q->front];
	if (take_spec(x) != EXIT_OK)
		return x->answer->exit;
	if (check_words(q, x->answer) != EXIT_OK || check_rules(x) != EXIT_OK)
		return x->answer->exit;
	x->plugin = plugin_find(x->spec->plugin);
	if (!x->plugin)
		return answer_fail(x->answer, EXIT_FAILED, "plugin %s is not built yet",
				   x->spec->plugin);
	if (take_objects(x) != EXIT_OK)
		return x->answer->exit;
	r = mount_flags_parse(q->mount_options, &x->mount_flags, why, sizeof(why));
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", why);
	if (check_context(x) != EXIT_OK)
		return x->answer->exit;
	r = target_open(q->target, &x->target, why);
	if (r == 0 && q->place)
		r = caller_place_check(x->target, q->place, why);
	if (r < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
	if (fill_record(x) < 0)
		return answer_fail(x->answer, EXIT_FAILED, "%s", strerror(ENOMEM));
	return check_source(x);
}
