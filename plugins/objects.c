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

/* The only object of @kind; @hint: what to do about several. */
static int find_only(struct volume_builder *b, const char *kind, const char *hint,
		     json_t **ret_object)
{
	json_t *object, *found = NULL;
	size_t i;

	if (!b->objects)
		return builder_fail(b, -ENOENT, "%s: the call brought no objects", kind);
	json_array_foreach(b->objects, i, object) {
		if (!is_of_kind(object, kind))
			continue;
		if (found && !json_equal(found, object))
			return builder_fail(b, -ENOTUNIQ,
					    "%s: there are several among the objects%s", kind,
					    hint);
		found = object;
	}
	if (!found)
		return builder_fail(b, -ENOENT, "%s: none is among the objects", kind);
	*ret_object = found;
	return 0;
}

int objects_find_pod(struct volume_builder *b, json_t **ret_pod)
{
	return find_only(b, "Pod", "; --pod NS/NAME selects one", ret_pod);
}

int objects_find_node(struct volume_builder *b, const json_t *pod, json_t **ret_node)
{
	const char *name = text_of(json_object_get(pod, "spec"), "nodeName");

	return name && *name ? objects_find(b, "Node", "", name, ret_node) :
			       find_only(b, "Node", "", ret_node);
}

/* An empty audience is the API server's own, which it fills in: the request that names none is preferred. */
static bool is_for_audience(const json_t *request, const char *audience)
{
	const json_t *list = json_object_get(json_object_get(request, "spec"), "audiences");
	const json_t *item;
	size_t i;

	if (!*audience && json_array_size(list) == 0)
		return true;
	json_array_foreach(list, i, item) {
		const char *text = json_string_value(item);

		if (text && strcmp(text, audience) == 0)
			return true;
	}
	return false;
}

static bool is_in_namespace(const struct volume_builder *b, const json_t *object)
{
	const char *found = text_of(json_object_get(object, "metadata"), "namespace");

	return !found || !*found ||
	       strcmp(found, b->pod_namespace ? b->pod_namespace : DEFAULT_NAMESPACE) == 0;
}

int objects_find_token(struct volume_builder *b, const char *audience, json_t **ret_request)
{
	json_t *object, *found = NULL, *any = NULL;
	char quoted[128];
	size_t i, all = 0;

	log_quote(audience, quoted, sizeof(quoted));
	if (!b->objects)
		return builder_fail(b, -ENOENT, "TokenRequest: the call brought no objects");
	json_array_foreach(b->objects, i, object) {
		if (!is_of_kind(object, "TokenRequest") || !is_in_namespace(b, object))
			continue;
		all++;
		any = object;
		if (!is_for_audience(object, audience))
			continue;
		if (found && !json_equal(found, object))
			return builder_fail(b, -ENOTUNIQ,
					    "TokenRequest: two that differ are for audience \"%s\"",
					    quoted);
		found = object;
	}
	if (!found && !*audience && all == 1)
		found = any;
	if (!found)
		return builder_fail(b, -ENOENT,
				    "TokenRequest: none among the objects is for audience \"%s\"",
				    quoted);
	*ret_request = found;
	return 0;
}
