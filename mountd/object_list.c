// SPDX-License-Identifier: Apache-2.0
#include "mountd/object_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

static const char DEFAULT_NAMESPACE[] = "default";

/* Names of objects are DNS subdomains (source: Kubernetes, Object Names and IDs). */
#define NAME_MAX_BYTES 253

static int fail(char *ret_error, size_t index, const char *why)
{
	snprintf(ret_error, OBJECT_LIST_ERROR_MAX, "objects: number %zu %s", index + 1, why);
	return -EINVAL;
}

static bool is_text_or_absent(const json_t *value)
{
	return !value || json_is_null(value) || json_is_string(value);
}

static int check_object(const json_t *object, size_t index, char *ret_error)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));
	const json_t *metadata = json_object_get(object, "metadata");

	if (!json_is_object(object))
		return fail(ret_error, index, "is not an object");
	if (!kind || !*kind)
		return fail(ret_error, index, "has no kind");
	if (strcmp(kind, "List") == 0)
		return fail(ret_error, index, "is a List within a list");
	if (metadata && !json_is_null(metadata) && !json_is_object(metadata))
		return fail(ret_error, index, "has metadata that is not an object");
	if (!is_text_or_absent(json_object_get(metadata, "name")) ||
	    !is_text_or_absent(json_object_get(metadata, "namespace")))
		return fail(ret_error, index, "has a name or namespace that is not a string");
	return 0;
}

static bool is_pod(const json_t *object)
{
	return strcmp(json_string_value(json_object_get(object, "kind")), "Pod") == 0;
}

static const char *namespace_of(const json_t *object)
{
	const char *namespace = json_string_value(
		json_object_get(json_object_get(object, "metadata"), "namespace"));

	return namespace && *namespace ? namespace : DEFAULT_NAMESPACE;
}

static const char *name_of(const json_t *object)
{
	const char *name =
		json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));

	return name ? name : "";
}

/* @wanted: "NS/NAME", or NULL: every Pod. */
static bool is_wanted(const json_t *pod, const char *wanted)
{
	const char *namespace = namespace_of(pod);
	size_t len = strlen(namespace);

	return !wanted || (strncmp(wanted, namespace, len) == 0 && wanted[len] == '/' &&
			   strcmp(wanted + len + 1, name_of(pod)) == 0);
}

/* Keeps the objects of a volume's request; *ret_pod is borrowed from @list, NULL: there is none. */
static int select_objects(json_t *objects, const char *wanted, json_t *list, json_t **ret_pod,
			  char *ret_error)
{
	json_t *object, *found = NULL;
	size_t i;
	int r;

	json_array_foreach(objects, i, object) {
		r = check_object(object, i, ret_error);
		if (r < 0)
			return r;
		if (is_pod(object) && !is_wanted(object, wanted))
			continue;
		if (is_pod(object) && found && !json_equal(found, object)) {
			snprintf(ret_error, OBJECT_LIST_ERROR_MAX, "objects: %s",
				 wanted ? "two Pods of that name differ" :
					  "several Pods: --pod NS/NAME must select one");
			return -EINVAL;
		}
		if (is_pod(object))
			found = object;
		if (json_array_append(list, object) < 0)
			return -ENOMEM;
	}
	*ret_pod = found;
	return 0;
}

/* The namespace in "NS/NAME". */
static int parse_pod(const char *pod, char **ret_namespace, char *ret_error)
{
	const char *slash = strchr(pod, '/');
	char quoted[96];

	if (!slash || slash == pod || !slash[1] || strchr(slash + 1, '/') ||
	    slash - pod > NAME_MAX_BYTES || strlen(slash + 1) > NAME_MAX_BYTES) {
		snprintf(ret_error, OBJECT_LIST_ERROR_MAX, "pod %s: not of the form NS/NAME",
			 log_quote(pod, quoted, sizeof(quoted)));
		return -EINVAL;
	}
	*ret_namespace = strndup(pod, (size_t)(slash - pod));
	return *ret_namespace ? 0 : -ENOMEM;
}

int object_list_select(json_t *objects, const char *pod, json_t **ret_list, char **ret_namespace,
		       char *ret_error)
{
	AUTO_FREE char *namespace = NULL;
	json_t *found = NULL, *list = NULL;
	int r = 0;

	ret_error[0] = '\0';
	if (pod && (r = parse_pod(pod, &namespace, ret_error)) < 0)
		return r;
	if (objects) {
		if (!json_is_array(objects)) {
			snprintf(ret_error, OBJECT_LIST_ERROR_MAX, "objects: not an array");
			return -EINVAL;
		}
		list = json_array();
		r = list ? select_objects(objects, pod, list, &found, ret_error) : -ENOMEM;
	}
	if (r == 0 && !namespace) {
		namespace = strdup(found ? namespace_of(found) : DEFAULT_NAMESPACE);
		r = namespace ? 0 : -ENOMEM;
	}
	if (r < 0) {
		json_decref(list);
		return r;
	}
	*ret_list = list;
	*ret_namespace = take_ptr(&namespace);
	return 0;
}
