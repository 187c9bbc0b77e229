// SPDX-License-Identifier: Apache-2.0
#include "plugins/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "plugins/builder.h"

/* What Kubernetes takes where a namespaced object or a call names no namespace. */
static const char DEFAULT_NAMESPACE[] = "default";

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static bool is_of_kind(const json_t *object, const char *kind)
{
	const char *found = text_of(object, "kind");

	return found && strcmp(found, kind) == 0;
}

/* @namespace "": of a cluster-wide kind. */
static bool is_named(const json_t *object, const char *namespace, const char *name)
{
	const json_t *metadata = json_object_get(object, "metadata");
	const char *found_name = text_of(metadata, "name");
	const char *found_namespace = text_of(metadata, "namespace");

	if (!found_namespace || !*found_namespace)
		found_namespace = *namespace ? DEFAULT_NAMESPACE : "";
	return found_name && strcmp(found_name, name) == 0 &&
	       strcmp(found_namespace, namespace) == 0;
}

/* "kind namespace/name" or "kind name", quoted. */
static const char *describe(const char *kind, const char *namespace, const char *name,
			    char *ret_text, size_t size)
{
	char quoted_namespace[96], quoted_name[128];

	log_quote(namespace, quoted_namespace, sizeof(quoted_namespace));
	log_quote(name, quoted_name, sizeof(quoted_name));
	snprintf(ret_text, size, "%s %s%s%s", kind, quoted_namespace, *namespace ? "/" : "",
		 quoted_name);
	return ret_text;
}

int objects_find(struct volume_builder *b, const char *kind, const char *namespace,
		 const char *name, json_t **ret_object)
{
	json_t *object, *found = NULL;
	char what[320];
	size_t i;

	if (!namespace)
	namespace = b->pod_namespace ? b->pod_namespace : DEFAULT_NAMESPACE;
	describe(kind, namespace, name, what, sizeof(what));
	if (!b->objects)
		return builder_fail(b, -ENOENT, "%s: the call brought no objects", what);
	json_array_foreach(b->objects, i, object) {
		if (!is_of_kind(object, kind) || !is_named(object, namespace, name))
			continue;
		if (found && !json_equal(found, object))
			return builder_fail(b, -ENOTUNIQ,
					    "%s: two that differ are among the objects", what);
		found = object;
	}
	if (!found)
		return builder_fail(b, -ENOENT, "%s: not among the objects", what);
	*ret_object = found;
	return 0;
}

int objects_find_pod(struct volume_builder *b, json_t **ret_pod)
{
	json_t *object, *found = NULL;
	size_t i;

	if (!b->objects)
		return builder_fail(b, -ENOENT, "Pod: the call brought no objects");
	json_array_foreach(b->objects, i, object) {
		if (!is_of_kind(object, "Pod"))
			continue;
		if (found && !json_equal(found, object))
			return builder_fail(
				b, -ENOTUNIQ,
				"Pod: there are several among the objects; --pod NS/NAME selects one");
		found = object;
	}
	if (!found)
		return builder_fail(b, -ENOENT, "Pod: none is among the objects");
	*ret_pod = found;
	return 0;
}
