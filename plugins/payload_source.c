// SPDX-License-Identifier: Apache-2.0
#include "plugins/payload_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "plugins/base64.h"
#include "plugins/builder.h"
#include "plugins/downward.h"
#include "plugins/objects.h"

enum { MODE_DEFAULT = 0644, MODE_MAX = 0777, TOKEN_MODE = 0640, ORIGIN_MAX = 320 };

/* ---- fields ---- */

static bool is_absent(const json_t *value)
{
	return !value || json_is_null(value);
}

/* The string @key of @object: "" when it is absent. @at: before the key in an error. */
static int get_text(struct payload_request *q, const json_t *object, const char *at,
		    const char *key, const char **ret_text)
{
	const json_t *value = json_object_get(object, key);

	if (!is_absent(value) && !json_is_string(value))
		return builder_fail(q->b, -EINVAL, "%s%s%s: not a string", q->where, at, key);
	*ret_text = is_absent(value) ? "" : json_string_value(value);
	return 0;
}

static int need_text(struct payload_request *q, const json_t *object, const char *at,
		     const char *key, const char **ret_text)
{
	int r = get_text(q, object, at, key, ret_text);

	if (r == 0 && !**ret_text)
		return builder_fail(q->b, -EINVAL, "%s%s%s: missing", q->where, at, key);
	return r;
}

static int get_bool(struct payload_request *q, const json_t *object, const char *key,
		    bool *ret_value)
{
	const json_t *value = json_object_get(object, key);

	if (!is_absent(value) && !json_is_boolean(value))
		return builder_fail(q->b, -EINVAL, "%s%s: not a boolean", q->where, key);
	*ret_value = json_is_true(value);
	return 0;
}

static int get_mode(struct volume_builder *b, const json_t *object, const char *where,
		    const char *key, mode_t absent, mode_t *ret_mode)
{
	const json_t *value = json_object_get(object, key);

	if (is_absent(value)) {
		*ret_mode = absent;
		return 0;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > MODE_MAX)
		return builder_fail(b, -EINVAL, "%s%s: not an integer from 0 to 511 (octal 0777)",
				    where, key);
	*ret_mode = (mode_t)json_integer_value(value);
	return 0;
}

int payload_source_mode(struct volume_builder *b, mode_t *ret_mode)
{
	return get_mode(b, b->source, "", "defaultMode", MODE_DEFAULT, ret_mode);
}

/* The array "items", or NULL; each is an object. */
static int get_items(struct payload_request *q, const json_t *source, const json_t **ret_items)
{
	const json_t *items = json_object_get(source, "items"), *item;
	size_t i;

	*ret_items = NULL;
	if (is_absent(items))
		return 0;
	if (!json_is_array(items))
		return builder_fail(q->b, -EINVAL, "%sitems: not an array", q->where);
	json_array_foreach(items, i, item) {
		if (!json_is_object(item))
			return builder_fail(q->b, -EINVAL, "%sitems[%zu]: not an object", q->where,
					    i);
	}
	/* An empty list asks for every key, as in Kubernetes. */
	*ret_items = json_array_size(items) > 0 ? items : NULL;
	return 0;
}

/* What each item has: a path, and a mode of its own. @at gets "items[I].". */
static int get_place(struct payload_request *q, const json_t *item, size_t index, char at[32],
		     const char **ret_path, mode_t *ret_mode)
{
	char where[160];
	int r;

	snprintf(at, 32, "items[%zu].", index);
	snprintf(where, sizeof(where), "%s%s", q->where, at);
	r = need_text(q, item, at, "path", ret_path);
	return r < 0 ? r : get_mode(q->b, item, where, "mode", q->default_mode, ret_mode);
}

static int add(struct payload_request *q, const char *path, const void *bytes, size_t len,
	       mode_t mode, const char *origin)
{
	return payload_add(q->payload, path, bytes, len, mode, origin, q->b->error,
			   sizeof(q->b->error));
}

/* ---- Secret and ConfigMap ---- */

/* A kind that holds values by key, in two fields. */
struct keyed_kind {
	const char *name;
	struct {
		const char *field;
		bool is_base64;
	} maps[2];	   /* the first has precedence, or */
	bool is_exclusive; /* a key may be in one of them only */
};

static const struct keyed_kind secret_kind = {
	.name = "Secret",
	.maps = { { "stringData", false }, { "data", true } },
};
static const struct keyed_kind config_map_kind = {
	.name = "ConfigMap",
	.maps = { { "data", false }, { "binaryData", true } },
	.is_exclusive = true,
};

/* One of them, being projected. */
struct keyed {
	struct payload_request *q;
	const struct keyed_kind *kind;
	const json_t *object; /* NULL: there is none, which is allowed */
	bool is_optional;
	char origin[ORIGIN_MAX]; /* "Secret ns/name" */
};

static int keyed_fail(const struct keyed *k, int error, const char *key, const char *why)
{
	char quoted[128];

	return builder_fail(k->q->b, error, "%s: key %s: %s", k->origin,
			    log_quote(key, quoted, sizeof(quoted)), why);
}

/* Adds the value as a file. */
static int add_value(const struct keyed *k, const char *key, const json_t *value, bool is_base64,
		     const char *path, mode_t mode)
{
	AUTO_FREE unsigned char *bytes = NULL;
	size_t len = 0;
	int r;

	if (!json_is_string(value))
		return keyed_fail(k, -EINVAL, key, "its value is not a string");
	if (!is_base64)
		return add(k->q, path, json_string_value(value), json_string_length(value), mode,
			   k->origin);
	r = base64_decode(json_string_value(value), &bytes, &len);
	if (r < 0)
		return keyed_fail(k, r, key,
				  r == -EINVAL ? "its value is not base64" : strerror(-r));
	r = add(k->q, path, bytes, len, mode, k->origin);
	explicit_bzero(bytes, len);
	return r;
}

static const json_t *map_of(const struct keyed *k, size_t i)
{
	return json_object_get(k->object, k->kind->maps[i].field);
}

/* How many bytes a value makes, whatever is wrong with it. */
static size_t value_len(const json_t *value, bool is_base64)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value), padding = 0;

	while (is_base64 && padding < len && text[len - padding - 1] == '=')
		padding++;
	return is_base64 ? len / 4 * 3 - (padding < 3 ? padding : 0) : len;
}

/* The maps are objects, no key is in both where that is wrong, and the values are not too much. */
static int check_object(const struct keyed *k)
{
	size_t total = 0;

	for (size_t i = 0; i < ARRAY_SIZE(k->kind->maps); i++) {
		json_t *map = (json_t *)map_of(k, i), *value;
		const char *key;

		if (!is_absent(map) && !json_is_object(map))
			return builder_fail(k->q->b, -EINVAL, "%s: %s is not an object", k->origin,
					    k->kind->maps[i].field);
		json_object_foreach(map, key, value) {
			if (!payload_key_is_valid(key))
				return keyed_fail(k, -EINVAL, key, "not a valid key");
			if (i == 1 && k->kind->is_exclusive && json_object_get(map_of(k, 0), key))
				return keyed_fail(k, -EINVAL, key, "is in data and in binaryData");
			total += value_len(value, k->kind->maps[i].is_base64);
		}
	}
	if (total > PAYLOAD_SOURCE_MAX)
		return builder_fail(k->q->b, -E2BIG, "%s: its values are more than 1 MiB",
				    k->origin);
	return 0;
}

static int add_every_key(const struct keyed *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->kind->maps); i++) {
		json_t *map = (json_t *)map_of(k, i), *value;
		const char *key;

		json_object_foreach(map, key, value) {
			int r = 0;

			if (i == 0 || !json_object_get(map_of(k, 0), key))
				r = add_value(k, key, value, k->kind->maps[i].is_base64, key,
					      k->q->default_mode);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int add_item(const struct keyed *k, const char *key, const char *path, mode_t mode)
{
	if (k->q->is_check)
		return add(k->q, path, "", 0, mode, k->origin);
	for (size_t i = 0; i < ARRAY_SIZE(k->kind->maps); i++) {
		const json_t *value = json_object_get(map_of(k, i), key);

		if (value)
			return add_value(k, key, value, k->kind->maps[i].is_base64, path, mode);
	}
	return k->is_optional ? 0 : keyed_fail(k, -ENOENT, key, "is not in it");
}

static int add_items(const struct keyed *k, const json_t *items)
{
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		const char *key = NULL, *path = NULL;
		char at[32];
		mode_t mode;
		int r = get_place(k->q, item, i, at, &path, &mode);

		if (r == 0)
			r = need_text(k->q, item, at, "key", &key);
		if (r == 0 && !payload_key_is_valid(key))
			r = builder_fail(k->q->b, -EINVAL, "%s%skey: not a valid key", k->q->where,
					 at);
		if (r == 0)
			r = add_item(k, key, path, mode);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Finds the object, unless it need not be there. */
static int find_object(struct keyed *k, const char *name)
{
	struct volume_builder *b = k->q->b;
	json_t *object = NULL;
	int r = objects_find(b, k->kind->name, NULL, name, &object);

	if (r == -ENOENT && k->is_optional && b->objects) {
		b->error[0] = '\0';
		return 0;
	}
	k->object = object;
	return r;
}

static int add_keyed(struct payload_request *q, const struct keyed_kind *kind, const json_t *source,
		     const char *name_key)
{
	struct keyed k = { .q = q, .kind = kind };
	const json_t *items = NULL;
	const char *name = NULL;
	char quoted[256];
	int r = need_text(q, source, "", name_key, &name);

	if (r == 0)
		r = get_bool(q, source, "optional", &k.is_optional);
	if (r == 0)
		r = get_items(q, source, &items);
	if (r < 0)
		return r;
	snprintf(k.origin, sizeof(k.origin), "%s %s", kind->name,
		 log_quote(name, quoted, sizeof(quoted)));
	if (!q->is_check)
		r = find_object(&k, name);
	if (r == 0)
		r = check_object(&k);
	if (r < 0)
		return r;
	return items ? add_items(&k, items) : add_every_key(&k);
}

int payload_from_secret(struct payload_request *q, const json_t *source, const char *name_key)
{
	return add_keyed(q, &secret_kind, source, name_key);
}

int payload_from_config_map(struct payload_request *q, const json_t *source)
{
	return add_keyed(q, &config_map_kind, source, "name");
}

/* ---- downwardAPI ---- */

static int downward_fail(struct payload_request *q, int error, const char *at, const char *why)
{
	return builder_fail(q->b, error, "%s%s %s", q->where, at, why);
}

static int field_text(struct payload_request *q, const json_t *ref, const char *at, json_t *pod,
		      char **ret_text)
{
	char why[DOWNWARD_ERROR_MAX];
	const char *path = NULL;
	int r = need_text(q, ref, at, "fieldPath", &path);

	if (r < 0)
		return r;
	r = q->is_check ? downward_field_check(path, why) :
			  downward_field(pod, path, ret_text, why);
	return r < 0 ? downward_fail(q, r, at, why) : 0;
}

static int resource_text(struct payload_request *q, const json_t *ref, const char *at, json_t *pod,
			 char **ret_text)
{
	struct downward_resource want = { .divisor = json_object_get(ref, "divisor") };
	char why[DOWNWARD_ERROR_MAX];
	json_t *node = NULL;
	int r = need_text(q, ref, at, "containerName", &want.container);

	if (r == 0)
		r = need_text(q, ref, at, "resource", &want.resource);
	if (r < 0)
		return r;
	if (q->is_check) {
		r = downward_resource_check(&want, why);
	} else {
		if (downward_needs_node(pod, &want) &&
		    (r = objects_find_node(q->b, pod, &node)) < 0)
			return r;
		r = downward_resource(pod, node, &want, ret_text, why);
	}
	return r < 0 ? downward_fail(q, r, at, why) : 0;
}

static int add_downward_item(struct payload_request *q, const json_t *item, size_t index,
			     json_t *pod)
{
	const json_t *field = json_object_get(item, "fieldRef");
	const json_t *resource = json_object_get(item, "resourceFieldRef");
	AUTO_FREE char *text = NULL;
	const char *path = NULL;
	char at[32];
	mode_t mode;
	int r = get_place(q, item, index, at, &path, &mode);

	if (r < 0)
		return r;
	if (is_absent(field) == is_absent(resource))
		return downward_fail(q, -EINVAL, at,
				     "must have either fieldRef or resourceFieldRef");
	r = is_absent(field) ? resource_text(q, resource, at, pod, &text) :
			       field_text(q, field, at, pod, &text);
	if (r < 0)
		return r;
	r = add(q, path, text ? text : "", text ? strlen(text) : 0, mode, "downwardAPI");
	if (text)
		explicit_bzero(text, strlen(text));
	return r;
}

int payload_from_downward(struct payload_request *q, const json_t *source)
{
	const json_t *items = NULL, *item;
	json_t *pod = NULL;
	size_t i;
	int r = get_items(q, source, &items);

	if (r == 0 && !q->is_check)
		r = objects_find_pod(q->b, &pod);
	if (r < 0)
		return r;
	json_array_foreach(items, i, item) {
		r = add_downward_item(q, item, i, pod);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- serviceAccountToken ---- */

int payload_from_token(struct payload_request *q, const json_t *source)
{
	/* Kubelet (pkg/volume/projected): 0600 where there is a fsGroup, which adds 0440 then. */
	mode_t mode = q->gid == GID_UNSET ? q->default_mode : TOKEN_MODE;
	const char *path = NULL, *audience = NULL, *token = "";
	json_t *request = NULL;
	char quoted[96];
	int r = need_text(q, source, "", "path", &path);

	if (r == 0)
		r = get_text(q, source, "", "audience", &audience);
	if (r == 0 && !q->is_check)
		r = objects_find_token(q->b, audience, &request);
	if (r < 0)
		return r;
	if (request) {
		token = json_string_value(
			json_object_get(json_object_get(request, "status"), "token"));
		if (!token || !*token)
			return builder_fail(q->b, -ENOENT,
					    "TokenRequest for audience \"%s\": has no status.token",
					    log_quote(audience, quoted, sizeof(quoted)));
	}
	return add(q, path, token, strlen(token), mode, "serviceAccountToken");
}
