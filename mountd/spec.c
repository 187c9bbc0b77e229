// SPDX-License-Identifier: Apache-2.0
#include "mountd/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/log.h"

#define SECRET_PREFIX "kubernetes.io/secret/"

/* Plugins of interface.md. */
static const char *const named_plugins[] = {
	"emptyDir",
	"hostPath",
	"local",
	"secret",
	"configMap",
	"downwardAPI",
	"projected",
	"gitRepo",
	"persistentVolumeClaim",
	"nfs",
	"flexVolume",
	"gcePersistentDisk",
	"awsElasticBlockStore",
	"azureDisk",
	"cinder",
	"iscsi",
	"fc",
};

/* Fields of a PersistentVolume's spec that are no source (source: Kubernetes core/v1 PersistentVolumeSpec). */
static const char *const pv_fields[] = {
	"accessModes",	    "capacity",
	"claimRef",	    "mountOptions",
	"nodeAffinity",	    "persistentVolumeReclaimPolicy",
	"storageClassName", "volumeAttributesClassName",
	"volumeMode",
};

static bool is_listed(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name, list[i]) == 0)
			return true;
	}
	return false;
}

bool spec_plugin_is_named(const char *plugin)
{
	return is_listed(plugin, named_plugins, ARRAY_SIZE(named_plugins));
}

const char *spec_plugin_at(size_t index)
{
	return index < ARRAY_SIZE(named_plugins) ? named_plugins[index] : NULL;
}

/* User text in messages is quoted, and short. */
static int fail(char *ret_error, const char *before, const char *name, const char *after)
{
	char quoted[96];

	snprintf(ret_error, SPEC_ERROR_MAX, "%s%s%s", before,
		 log_quote(name, quoted, sizeof(quoted)), after);
	return -EINVAL;
}

static int load_object(const char *what, const char *text, json_t **ret_object, char *ret_error)
{
	json_error_t error;
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!object) {
		/* jansson's own message may quote the text, which may hold a secret. */
		snprintf(ret_error, SPEC_ERROR_MAX, "invalid JSON in the %s at line %d column %d",
			 what, error.line, error.column);
		return -EINVAL;
	}
	if (!json_is_object(object)) {
		json_decref(object);
		snprintf(ret_error, SPEC_ERROR_MAX, "the %s is not a JSON object", what);
		return -EINVAL;
	}
	*ret_object = object;
	return 0;
}

/* Secrets of FlexVolume options leave before a record, log or error can be formed. */
static void drop_secrets(json_t *value)
{
	const char *key;
	json_t *item;
	void *next;
	size_t i;

	json_object_foreach_safe(value, next, key, item) {
		if (strncmp(key, SECRET_PREFIX, strlen(SECRET_PREFIX)) == 0)
			json_object_del(value, key);
		else
			drop_secrets(item);
	}
	json_array_foreach(value, i, item)
		drop_secrets(item);
}

/*
 * The one source among the fields of @object. @skip are fields that are known to be none. A field
 * that holds an object and is no known source is taken for one where that is all there is.
 */
static int find_source(json_t *object, const char *const *skip, size_t skip_count,
		       const char **ret_plugin, char *ret_error)
{
	const char *key, *found = NULL, *unknown = NULL;
	char a[96], b[96];
	json_t *item;

	json_object_foreach(object, key, item) {
		if (is_listed(key, skip, skip_count))
			continue;
		if (!spec_plugin_is_named(key)) {
			if (json_is_object(item))
				unknown = key;
			continue;
		}
		if (json_is_null(item))
			continue;
		if (!json_is_object(item))
			return fail(ret_error, "the source ", key, " is not an object");
		if (found) {
			snprintf(ret_error, SPEC_ERROR_MAX, "two conflicting sources: %s and %s",
				 log_quote(found, a, sizeof(a)), log_quote(key, b, sizeof(b)));
			return -EINVAL;
		}
		found = key;
	}
	if (found && unknown && skip != pv_fields) {
		/* In a Volume every further object is a source; in a PersistentVolume it is a field to come. */
		snprintf(ret_error, SPEC_ERROR_MAX,
			 "two conflicting sources: %s and unknown source %s",
			 log_quote(found, a, sizeof(a)), log_quote(unknown, b, sizeof(b)));
		return -EINVAL;
	}
	if (!found && unknown)
		return fail(ret_error, "unknown source ", unknown, "");
	if (!found) {
		snprintf(ret_error, SPEC_ERROR_MAX, "the spec has no volume source");
		return -EINVAL;
	}
	*ret_plugin = found;
	return 0;
}

/* spec.mountOptions of a PersistentVolume as one text. */
static int join_mount_options(struct spec *spec, json_t *list, char *ret_error)
{
	json_t *item;
	size_t i;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return fail(ret_error, "the field ", "mountOptions", " is not an array");
	json_array_foreach(list, i, item) {
		const char *before = spec->mount_options;
		char *joined = NULL;

		if (!json_is_string(item) || !json_string_length(item))
			return fail(ret_error, "the field ", "mountOptions",
				    " is not an array of options");
		if (asprintf(&joined, "%s%s%s", before ? before : "", before ? "," : "",
			     json_string_value(item)) < 0)
			return -ENOMEM;
		free(spec->mount_options);
		spec->mount_options = joined;
	}
	return 0;
}

/* The object that holds the source field, and the spec's kind. */
static int locate(struct spec *spec, const char *plugin, char *ret_error)
{
	static const char *const volume_fields[] = { "name", "kind", "apiVersion" };
	const char *found = NULL;
	json_t *kind = json_object_get(spec->object, "kind");
	json_t *holder = spec->object, *read_only;
	const char *const *skip = volume_fields;
	const char *mode;
	size_t skip_count = ARRAY_SIZE(volume_fields);
	int r;

	if (kind && !json_is_string(kind))
		return fail(ret_error, "the field ", "kind", " is not a string");
	if (kind && strcmp(json_string_value(kind), "PersistentVolume") == 0) {
		holder = json_object_get(spec->object, "spec");
		if (!json_is_object(holder))
			return fail(ret_error, "the PersistentVolume has no object ", "spec", "");
		spec->kind = strdup("PersistentVolume");
		skip = pv_fields;
		skip_count = ARRAY_SIZE(pv_fields);
	} else if (kind && strcmp(json_string_value(kind), "Volume") != 0) {
		return fail(ret_error, "kind ", json_string_value(kind),
			    " is neither PersistentVolume nor Volume");
	} else {
		json_t *name = json_object_get(spec->object, "name");

		if (name && !json_is_string(name) && !json_is_object(name))
			return fail(ret_error, "the field ", "name", " is not a string");
		spec->kind = strdup(json_is_string(name) ? "Volume" : "VolumeSource");
	}
	if (!spec->kind)
		return -ENOMEM;
	r = find_source(holder, skip, skip_count, &found, ret_error);
	if (r < 0)
		return r;
	if (plugin && strcmp(plugin, found) != 0) {
		char a[96], b[96];

		snprintf(ret_error, SPEC_ERROR_MAX,
			 "two conflicting sources: plugin %s and the spec's %s",
			 log_quote(plugin, a, sizeof(a)), log_quote(found, b, sizeof(b)));
		return -EINVAL;
	}
	spec->source = json_object_get(holder, found);
	spec->plugin = strdup(found);
	if (!spec->plugin)
		return -ENOMEM;
	read_only = json_object_get(spec->source, "readOnly");
	if (read_only && !json_is_boolean(read_only))
		return fail(ret_error, "the field ", "readOnly", " is not a boolean");
	spec->read_only = json_is_true(read_only);
	if (skip != pv_fields)
		return 0;
	mode = json_string_value(json_object_get(holder, "volumeMode"));
	if (mode && strcmp(mode, "Block") == 0)
		return fail(ret_error, "volumeMode ", mode,
			    ": a raw device has no files to own, and is not touched");
	return join_mount_options(spec, json_object_get(holder, "mountOptions"), ret_error);
}

/* {"<plugin>": <source>}: what --plugin and --source stand for. */
static int object_of_source(const char *plugin, const char *source, json_t **ret_object,
			    char *ret_error)
{
	json_t *inner = NULL;
	int r;

	if (source && source[0] == '{') {
		r = load_object("source", source, &inner, ret_error);
		if (r < 0)
			return r;
	} else if (strcmp(plugin, "local") == 0 || strcmp(plugin, "hostPath") == 0) {
		if (!source)
			return fail(ret_error, "", plugin, " needs a source");
		inner = json_pack("{s:s}", "path", source);
		if (!inner)
			return fail(ret_error, "the source ", source,
				    " is not valid UTF-8: give it as a spec");
	} else if (source) {
		return fail(ret_error, "a source of plugin ", plugin, " is a JSON object");
	} else {
		inner = json_object();
	}
	*ret_object = json_pack("{s:o}", plugin, inner);
	return *ret_object ? 0 : -ENOMEM;
}

int spec_parse(const char *plugin, const char *source, const char *text, struct spec **ret_spec,
	       char *ret_error)
{
	AUTO(spec) *spec = calloc(1, sizeof(*spec));
	int r;

	ret_error[0] = '\0';
	if (!spec)
		return -ENOMEM;
	if (plugin && !spec_plugin_is_named(plugin))
		return fail(ret_error, "unknown plugin ", plugin, "");
	if (text && source)
		return fail(ret_error, "two conflicting sources: ", source, " and a spec");
	if (text)
		r = load_object("spec", text, &spec->object, ret_error);
	else if (plugin)
		r = object_of_source(plugin, source, &spec->object, ret_error);
	else
		r = fail(ret_error, "neither a plugin nor a spec is given", "", "");
	if (r < 0)
		return r;
	drop_secrets(spec->object);
	r = locate(spec, plugin, ret_error);
	if (r < 0)
		return r;
	*ret_spec = take_ptr(&spec);
	return 0;
}

void spec_free(struct spec *spec)
{
	if (!spec)
		return;
	free(spec->plugin);
	free(spec->kind);
	free(spec->mount_options);
	json_decref(spec->object);
	free(spec);
}

char *spec_record(const struct spec *spec)
{
	json_t *record = json_pack("{s:s, s:i, s:O}", "kind", spec->kind, "schemaVersion",
				   SPEC_SCHEMA_VERSION, "object", spec->object);
	char *text = record ? json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(record);
	return text;
}

int spec_restore(const char *plugin, const char *record, struct spec **ret_spec)
{
	AUTO(spec) *spec = calloc(1, sizeof(*spec));
	char error[SPEC_ERROR_MAX];
	json_t *root, *version;
	int r;

	if (!spec)
		return -ENOMEM;
	root = json_loads(record, JSON_REJECT_DUPLICATES, NULL);
	version = json_object_get(root, "schemaVersion");
	spec->object = json_incref(json_object_get(root, "object"));
	if (!json_is_integer(version) || !json_is_object(spec->object)) {
		json_decref(root);
		return -EINVAL;
	}
	r = json_integer_value(version) > SPEC_SCHEMA_VERSION ? -ENOTSUP : 0;
	json_decref(root);
	if (r == 0)
		r = locate(spec, plugin, error);
	if (r == 0)
		*ret_spec = take_ptr(&spec);
	return r;
}
