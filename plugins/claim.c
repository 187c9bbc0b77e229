// SPDX-License-Identifier: Apache-2.0
/*
 * claim: persistentVolumeClaim: from a claim to the PersistentVolume that it is bound to, and from there to
 * the plugin of that volume's source. Everything else is that plugin's.
 */
#include "plugins/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/objects.h"

/* What the claim leads to. */
static const char WRAPPED[] = "volume";

/* Metadata: what the claim was resolved to, and whether that takes a group. */
static const char KEY_NAMESPACE[] = "namespace", KEY_CLAIM[] = "claim", KEY_VOLUME[] = "volume",
		  KEY_UID[] = "claimUid", KEY_MANAGES[] = "managesOwnership";

struct claim {
	const char *namespace, *name, *uid, *volume;
	const struct volume_plugin *plugin;
	json_t *source;	     /* borrowed from the objects */
	char *mount_options; /* NULL: none */
	bool is_read_only;
};

static void claim_free(struct claim *claim)
{
	if (!claim)
		return;
	free(claim->mount_options);
	free(claim);
}
DEFINE_AUTO(claim)

/* "" where it is missing or not a string. */
static const char *text_at(json_t *object, const char *section, const char *key)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(object, section), key));

	return text ? text : "";
}

static int claim_name(struct volume_builder *b, const char **ret_name)
{
	int r = builder_source_text(b, "claimName", ret_name);

	if (r == 0 && !(*ret_name)[0])
		return builder_fail(b, -EINVAL, "claimName: missing");
	return r;
}

/* A claim that may be used, and the volume that it names. */
static int read_claim(struct volume_builder *b, json_t *object, struct claim *claim)
{
	const char *phase = text_at(object, "status", "phase");
	char quoted[160], quoted_phase[48];

	log_quote(claim->name, quoted, sizeof(quoted));
	claim->namespace = text_at(object, "metadata", "namespace");
	claim->uid = text_at(object, "metadata", "uid");
	claim->volume = text_at(object, "spec", "volumeName");
	if (strcmp(phase, "Bound") != 0)
		return builder_fail(b, -EAGAIN, "claim %s: its phase is %s, not Bound", quoted,
				    *phase ? log_quote(phase, quoted_phase, sizeof(quoted_phase)) :
					     "unknown");
	if (!claim->volume[0])
		return builder_fail(b, -EINVAL, "claim %s: names no volume (spec.volumeName)",
				    quoted);
	return 0;
}

static bool same(const char *a, const char *b)
{
	return *a && strcmp(a, b) == 0;
}

/* The volume must say that it is this claim's: a claim may name any volume. */
static int check_claim_ref(struct volume_builder *b, json_t *object, const struct claim *claim)
{
	json_t *ref = json_object_get(json_object_get(object, "spec"), "claimRef");
	const char *namespace = json_string_value(json_object_get(ref, "namespace"));
	const char *name = json_string_value(json_object_get(ref, "name"));
	const char *uid = json_string_value(json_object_get(ref, "uid"));
	const char *ours = claim->namespace[0] ? claim->namespace : "default";
	const char *field = !namespace || !same(ours, namespace) ? "namespace" :
			    !name || !same(claim->name, name)	 ? "name" :
			    !uid || !same(claim->uid, uid)	 ? "uid" :
								   NULL;
	char quoted[128], quoted_claim[128];

	if (!field)
		return 0;
	return builder_fail(b, -EPERM,
			    "PersistentVolume %s: is not bound to claim %s: another %s in claimRef",
			    log_quote(claim->volume, quoted, sizeof(quoted)),
			    log_quote(claim->name, quoted_claim, sizeof(quoted_claim)), field);
}

/* The one source of the volume that a plugin of ours is for. */
static int find_source(struct volume_builder *b, json_t *object, struct claim *claim)
{
	json_t *spec = json_object_get(object, "spec"), *value;
	char quoted[128];
	const char *key;

	log_quote(claim->volume, quoted, sizeof(quoted));
	json_object_foreach(spec, key, value) {
		const struct volume_plugin *plugin =
			json_is_object(value) ? plugin_find(key) : NULL;

		if (!plugin)
			continue;
		/* No PersistentVolume has one, and following it need not end. */
		if (plugin == &plugin_claim)
			return builder_fail(b, -ELOOP,
					    "PersistentVolume %s: leads to a persistentVolumeClaim",
					    quoted);
		if (claim->plugin)
			return builder_fail(b, -EINVAL,
					    "PersistentVolume %s: two sources: %s and %s", quoted,
					    claim->plugin->name, plugin->name);
		claim->plugin = plugin;
		claim->source = value;
	}
	if (!claim->plugin)
		return builder_fail(b, -EINVAL,
				    "PersistentVolume %s: has no source that a plugin is for",
				    quoted);
	return 0;
}

static int join_options(struct volume_builder *b, json_t *list, struct claim *claim)
{
	json_t *option;
	size_t i;

	json_array_foreach(list, i, option) {
		AUTO_FREE char *before = claim->mount_options;

		claim->mount_options = NULL;
		if (!json_is_string(option))
			return builder_fail(b, -EINVAL, "mountOptions: not a list of strings");
		if (asprintf(&claim->mount_options, "%s%s%s", before ? before : "",
			     before ? "," : "", json_string_value(option)) < 0) {
			claim->mount_options = NULL;
			return builder_fail(b, -ENOMEM, "out of memory");
		}
	}
	return 0;
}

static int read_volume(struct volume_builder *b, json_t *object, struct claim *claim)
{
	json_t *spec = json_object_get(object, "spec");
	const char *mode = text_at(object, "spec", "volumeMode");
	char quoted[128];
	int r = check_claim_ref(b, object, claim);

	if (r < 0)
		return r;
	if (strcmp(mode, "Block") == 0)
		return builder_fail(
			b, -EINVAL,
			"PersistentVolume %s: volumeMode Block: a raw device has no files to own",
			log_quote(claim->volume, quoted, sizeof(quoted)));
	r = find_source(b, object, claim);
	if (r < 0)
		return r;
	claim->is_read_only = json_is_true(json_object_get(claim->source, "readOnly"));
	return join_options(b, json_object_get(spec, "mountOptions"), claim);
}

static int resolve(struct volume_builder *b, struct claim **ret_claim)
{
	AUTO(claim) *claim = calloc(1, sizeof(*claim));
	json_t *object = NULL;
	int r;

	if (!claim)
		return builder_fail(b, -ENOMEM, "out of memory");
	if ((r = claim_name(b, &claim->name)) < 0 ||
	    (r = objects_find(b, "PersistentVolumeClaim", NULL, claim->name, &object)) < 0 ||
	    (r = read_claim(b, object, claim)) < 0 ||
	    (r = objects_find(b, "PersistentVolume", "", claim->volume, &object)) < 0 ||
	    (r = read_volume(b, object, claim)) < 0)
		return r;
	*ret_claim = take_ptr(&claim);
	return 0;
}

/* Once it is set up a claim needs no objects; what they say when they are there must be right. */
static int claim_check(struct volume_builder *b)
{
	AUTO(claim) *claim = NULL;
	const char *name;
	int r = claim_name(b, &name);

	if (r < 0 || !b->objects)
		return r;
	r = resolve(b, &claim);
	if (r == 0)
		b->read_only |= claim->is_read_only;
	return r;
}

static char *claim_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	const char *name = "";
	char *text;

	claim_name(&copy, &name);
	if (asprintf(&text, "claim=%s", name) < 0)
		return NULL;
	return text;
}

static bool claim_is_shared(const struct volume_builder *b)
{
	struct volume_builder copy = *b;
	AUTO(claim) *claim = NULL;

	/* What is not known may be anything. */
	if (resolve(&copy, &claim) < 0)
		return true;
	if (!claim->plugin->is_shared)
		return claim->plugin->attributes.shared;
	copy.source = claim->source;
	return claim->plugin->is_shared(&copy);
}

static bool claim_manages(const struct volume_builder *b)
{
	return json_is_true(json_object_get(b->metadata, KEY_MANAGES));
}

/* A claim that is deleted and made again may lead elsewhere; what is set up stays what it was. */
static int check_recorded(struct volume_builder *b, const struct claim *claim)
{
	const char *volume = json_string_value(json_object_get(b->metadata, KEY_VOLUME));
	const char *uid = json_string_value(json_object_get(b->metadata, KEY_UID));
	char quoted[128], before[128];

	if (!volume || (strcmp(volume, claim->volume) == 0 && uid && strcmp(uid, claim->uid) == 0))
		return 0;
	return builder_fail(
		b, -EEXIST,
		"claim %s: was set up with PersistentVolume %s and is another claim now",
		log_quote(claim->name, quoted, sizeof(quoted)),
		log_quote(volume, before, sizeof(before)));
}

static int record(struct volume_builder *b, const struct claim *claim)
{
	if (json_object_set_new(b->metadata, KEY_NAMESPACE, json_string(claim->namespace)) < 0 ||
	    json_object_set_new(b->metadata, KEY_CLAIM, json_string(claim->name)) < 0 ||
	    json_object_set_new(b->metadata, KEY_UID, json_string(claim->uid)) < 0 ||
	    json_object_set_new(b->metadata, KEY_VOLUME, json_string(claim->volume)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

static int claim_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	AUTO(claim) *claim = NULL;
	const char *options_before = b->mount_options;
	bool read_only_before = b->read_only, ran;
	int r = resolve(b, &claim);

	if (r < 0 || (r = check_recorded(b, claim)) < 0 || (r = record(b, claim)) < 0)
		return r;
	b->mount_options = claim->mount_options;
	b->read_only |= claim->is_read_only;
	r = b->host->set_up(b, WRAPPED, claim->plugin->name, claim->source, gid, ret_lower,
			    ret_ownership, &ran);
	b->mount_options = options_before;
	b->read_only = read_only_before;
	if (r == 0 && json_object_set_new(b->metadata, KEY_MANAGES,
					  json_boolean(*ret_ownership != OWNERSHIP_IGNORED)) < 0) {
		cleanup_fd(ret_lower);
		return builder_fail(b, -ENOMEM, "out of memory");
	}
	return r;
}

static int claim_open_lower(struct volume_builder *b, int *ret_lower)
{
	return b->host->open_lower(b, WRAPPED, ret_lower);
}

/*
 * As what it leads to is: that one's strategy is asked. What that one does with the fsGroup is known only once
 * our own set-up has come to its end.
 */
static bool claim_is_set_up(struct volume_builder *b)
{
	AUTO_FD int lower = -1;

	return json_is_boolean(json_object_get(b->metadata, KEY_MANAGES)) &&
	       b->host->open_lower(b, WRAPPED, &lower) == 0;
}

static int claim_tear_down(struct volume_builder *b)
{
	int r = b->host->tear_down(b, WRAPPED);

	if (r == 0)
		json_object_clear(b->metadata);
	return r;
}

const struct volume_plugin plugin_claim = {
	.name = "persistentVolumeClaim",
	.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,
			.manages_ownership = true,
			.shared = true,
			.needs_objects = true },
	.check = claim_check,
	.identity = claim_identity,
	.set_up = claim_set_up,
	.is_set_up = claim_is_set_up,
	.is_shared = claim_is_shared,
	.manages = claim_manages,
	.open_lower = claim_open_lower,
	.tear_down = claim_tear_down,
};
