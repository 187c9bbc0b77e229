// SPDX-License-Identifier: Apache-2.0
#include "plugins/downward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/quantity.h"

static int __attribute__((format(printf, 3, 4)))
fail(char *ret_error, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ret_error, DOWNWARD_ERROR_MAX, format, args);
	va_end(args);
	return error;
}

/* ---- quoting ---- */

/*
 * What Go's unicode.IsPrint refuses: controls, formats, surrogates, private use and separators (Unicode 15.0;
 * code points without a character are taken for printable, but for the noncharacters).
 */
static const struct {
	uint32_t first, last;
} unprintable[] = {
	{ 0x80, 0xa0 },	      { 0xad, 0xad },	    { 0x600, 0x605 },	  { 0x61c, 0x61c },
	{ 0x6dd, 0x6dd },     { 0x70f, 0x70f },	    { 0x890, 0x891 },	  { 0x8e2, 0x8e2 },
	{ 0x1680, 0x1680 },   { 0x180e, 0x180e },   { 0x2000, 0x200f },	  { 0x2028, 0x202f },
	{ 0x205f, 0x206f },   { 0x3000, 0x3000 },   { 0xd800, 0xf8ff },	  { 0xfdd0, 0xfdef },
	{ 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },   { 0xfffe, 0xffff },	  { 0x110bd, 0x110bd },
	{ 0x110cd, 0x110cd }, { 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
	{ 0x1fffe, 0x1ffff }, { 0x2fffe, 0x2ffff }, { 0x3fffe, 0xe00ff }, { 0xe01f0, 0x10ffff },
};

static bool is_printable(uint32_t c)
{
	if (c < 0x80)
		return c >= 0x20 && c < 0x7f;
	for (size_t i = 0; i < ARRAY_SIZE(unprintable); i++) {
		if (c >= unprintable[i].first && c <= unprintable[i].last)
			return false;
	}
	return true;
}

/* The character at @s, of valid UTF-8 (jansson has checked it). Returns its length. */
static size_t decode(const unsigned char *s, uint32_t *ret_c)
{
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	*ret_c = len == 1 ? s[0] : s[0] & (0xffU >> (len + 1));
	for (size_t i = 1; i < len; i++)
		*ret_c = *ret_c << 6 | (s[i] & 0x3f);
	return len;
}

static size_t put_quoted(uint32_t c, const unsigned char *s, size_t len, char *out)
{
	static const char controls[] = "\a\b\f\n\r\t\v", letters[] = "abfnrtv";
	const char *control = c < 0x20 && c ? strchr(controls, (int)c) : NULL;

	if (c == '"' || c == '\\')
		return (size_t)sprintf(out, "\\%c", (char)c);
	if (control)
		return (size_t)sprintf(out, "\\%c", letters[control - controls]);
	if (c < 0x20 || c == 0x7f)
		return (size_t)sprintf(out, "\\x%02" PRIx32, c);
	if (!is_printable(c))
		return (size_t)sprintf(out, c < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32, c);
	memcpy(out, s, len);
	return len;
}

/* The longest: a control byte as four, a character of four bytes as ten; two quotes and sprintf's NUL. */
static size_t quoted_size(const char *text)
{
	return 4 * strlen(text) + 16;
}

/* Returns the length, without the NUL. */
static size_t quote(const char *text, char *out)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t used = 0, len;

	out[used++] = '"';
	for (; *s; s += len) {
		uint32_t c = 0;

		len = decode(s, &c);
		used += put_quoted(c, s, len, out + used);
	}
	out[used++] = '"';
	out[used] = '\0';
	return used;
}

char *downward_quote(const char *text)
{
	char *out = malloc(quoted_size(text));

	if (out)
		quote(text, out);
	return out;
}

/* ---- fields ---- */

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The sorted keys of @map; the array is the caller's to free. */
static int sorted_keys(const json_t *map, const char ***ret_keys, size_t *ret_count)
{
	const char **keys = calloc(json_object_size(map) + 1, sizeof(*keys)), *key;
	size_t count = 0;
	json_t *value;

	if (!keys)
		return -ENOMEM;
	json_object_foreach((json_t *)map, key, value)
		keys[count++] = key;
	qsort(keys, count, sizeof(*keys), compare_keys);
	*ret_keys = keys;
	*ret_count = count;
	return 0;
}

/* Lines key="value", the last without its end. One buffer that never grows: no copy stays behind. */
static int format_map(const json_t *map, char **ret_text)
{
	AUTO_FREE const char **keys = NULL;
	size_t count = 0, size = 1, used = 0;
	char *text;
	int r = sorted_keys(map, &keys, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		size += strlen(keys[i]) + quoted_size(text_of(map, keys[i])) + 2;
	text = malloc(size);
	if (!text)
		return -ENOMEM;
	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		used += (size_t)sprintf(text + used, "%s%s=", i ? "\n" : "", keys[i]);
		used += quote(text_of(map, keys[i]), text + used);
	}
	*ret_text = text;
	return 0;
}

/* A field path: metadata.NAME or metadata.NAME['KEY']. */
struct field {
	const char *name; /* of the table */
	bool is_map;
	char key[512]; /* "": the whole */
};

static const struct {
	const char *name;
	bool is_map;
} fields[] = {
	{ "name", false },  { "namespace", false },  { "uid", false },
	{ "labels", true }, { "annotations", true },
};

/* ['KEY'] */
static bool parse_subscript(const char *text, char *ret_key, size_t size)
{
	size_t len = strlen(text);

	if (len < 5 || len - 4 >= size || strncmp(text, "['", 2) != 0 ||
	    strcmp(text + len - 2, "']") != 0)
		return false;
	memcpy(ret_key, text + 2, len - 4);
	ret_key[len - 4] = '\0';
	return !strpbrk(ret_key, "'[]");
}

static int parse_field(const char *path, struct field *ret_field, char *ret_error)
{
	static const char metadata[] = "metadata.";
	char quoted[128];

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		size_t len = strlen(fields[i].name);
		const char *rest = path + strlen(metadata);

		if (strncmp(path, metadata, strlen(metadata)) != 0 ||
		    strncmp(rest, fields[i].name, len) != 0)
			continue;
		*ret_field = (struct field){ fields[i].name, fields[i].is_map, "" };
		rest += len;
		if (!*rest)
			return 0;
		if (fields[i].is_map &&
		    parse_subscript(rest, ret_field->key, sizeof(ret_field->key)))
			return 0;
	}
	return fail(ret_error, -EINVAL, "fieldPath %s is not one that a volume can show",
		    log_quote(path, quoted, sizeof(quoted)));
}

int downward_field_check(const char *path, char *ret_error)
{
	struct field field;

	return parse_field(path, &field, ret_error);
}

static const json_t *metadata_of(const json_t *pod)
{
	return json_object_get(pod, "metadata");
}

int downward_field(const json_t *pod, const char *path, char **ret_text, char *ret_error)
{
	const json_t *value;
	struct field field;
	int r = parse_field(path, &field, ret_error);

	if (r < 0)
		return r;
	value = json_object_get(metadata_of(pod), field.name);
	if (field.is_map && !field.key[0]) {
		r = format_map(value, ret_text);
	} else {
		const char *text = field.is_map ? text_of(value, field.key) :
						  text_of(metadata_of(pod), field.name);

		/* As the API server fills it in. */
		if (!*text && strcmp(field.name, "namespace") == 0)
			text = "default";
		*ret_text = strdup(text);
		r = *ret_text ? 0 : -ENOMEM;
	}
	return r < 0 ? fail(ret_error, r, "out of memory") : 0;
}

/* ---- resources ---- */

/* "limits.cpu": whether it is a limit, and the name in the list. */
struct resource {
	bool is_limit;
	bool is_cpu;	     /* counted in thousandths */
	bool is_of_node_too; /* a limit that is not set is the Node's allocatable */
	const char *name;
};

static int parse_resource(const char *text, struct resource *ret_resource, char *ret_error)
{
	static const char limits[] = "limits.", requests[] = "requests.", huge[] = "hugepages-";
	struct resource r = { .is_limit = strncmp(text, limits, strlen(limits)) == 0 };
	char quoted[96];

	r.name = text + (r.is_limit ? strlen(limits) : strlen(requests));
	if (r.is_limit || strncmp(text, requests, strlen(requests)) == 0) {
		r.is_cpu = strcmp(r.name, "cpu") == 0;
		r.is_of_node_too = r.is_limit && (r.is_cpu || strcmp(r.name, "memory") == 0 ||
						  strcmp(r.name, "ephemeral-storage") == 0);
		if (r.is_cpu || strcmp(r.name, "memory") == 0 ||
		    strcmp(r.name, "ephemeral-storage") == 0 ||
		    (strncmp(r.name, huge, strlen(huge)) == 0 && r.name[strlen(huge)])) {
			*ret_resource = r;
			return 0;
		}
	}
	return fail(ret_error, -EINVAL, "resource %s is not one that a volume can show",
		    log_quote(text, quoted, sizeof(quoted)));
}

/* The divisors that Kubernetes takes (source: core/validation, validateContainerResourceDivisor). */
static bool divisor_is_allowed(const struct resource *resource, const char *text)
{
	static const char *const cpu[] = { "0", "1m", "1" };
	static const char *const bytes[] = { "0",  "1",	  "1k",	 "1M",	"1G",  "1T",  "1P",
					     "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei" };
	const char *const *list = resource->is_cpu ? cpu : bytes;
	size_t count = resource->is_cpu ? ARRAY_SIZE(cpu) : ARRAY_SIZE(bytes);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(text, list[i]) == 0)
			return true;
	}
	return false;
}

/* 0 stands for 1, as when there is none. */
static int parse_divisor(const struct resource *resource, const json_t *divisor,
			 uint64_t *ret_divisor, char *ret_error)
{
	unsigned per_unit = resource->is_cpu ? 1000 : 1;
	char number[32];
	const char *text = json_string_value(divisor);

	if (json_is_integer(divisor)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(divisor));
		text = number;
	}
	if (!divisor || json_is_null(divisor))
		text = "1";
	if (!text || !divisor_is_allowed(resource, text) ||
	    quantity_parse(text, per_unit, ret_divisor) < 0)
		return fail(ret_error, -EINVAL, "divisor is not one that Kubernetes takes for %s",
			    resource->name);
	if (*ret_divisor == 0)
		*ret_divisor = per_unit;
	return 0;
}

int downward_resource_check(const struct downward_resource *want, char *ret_error)
{
	struct resource resource;
	uint64_t divisor;
	int r = parse_resource(want->resource, &resource, ret_error);

	return r < 0 ? r : parse_divisor(&resource, want->divisor, &divisor, ret_error);
}

static const json_t *find_container(const json_t *pod, const char *name)
{
	static const char *const lists[] = { "containers", "initContainers",
					     "ephemeralContainers" };
	const json_t *spec = json_object_get(pod, "spec"), *container;
	size_t index;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		json_array_foreach(json_object_get(spec, lists[i]), index, container) {
			if (strcmp(text_of(container, "name"), name) == 0)
				return container;
		}
	}
	return NULL;
}

static const json_t *set_of(const json_t *container, const char *list, const char *name)
{
	const json_t *resources = json_object_get(container, "resources");
	const json_t *value = json_object_get(json_object_get(resources, list), name);

	return json_is_null(value) ? NULL : value;
}

/* *ret_value stays where nothing is set. */
static int read_quantity(const json_t *value, const struct resource *resource, const char *where,
			 uint64_t *ret_value, char *ret_error)
{
	if (!value || json_is_null(value))
		return 0;
	if (quantity_of_json(value, resource->is_cpu ? 1000 : 1, ret_value) < 0)
		return fail(ret_error, -EINVAL, "%s.%s is not a quantity", where, resource->name);
	return 0;
}

/* What the container itself says; 0: nothing. */
static int own_value(const json_t *container, const struct resource *resource, uint64_t *ret_value,
		     char *ret_error)
{
	const json_t *limit = set_of(container, "limits", resource->name);
	const json_t *request = set_of(container, "requests", resource->name);

	*ret_value = 0;
	/* The API server sets a request that is missing to the limit. */
	if (!resource->is_limit && request)
		return read_quantity(request, resource, "requests", ret_value, ret_error);
	return read_quantity(limit, resource, "limits", ret_value, ret_error);
}

bool downward_needs_node(const json_t *pod, const struct downward_resource *want)
{
	const json_t *container = find_container(pod, want->container);
	char ignored[DOWNWARD_ERROR_MAX];
	struct resource resource;
	uint64_t value = 0;

	return container && parse_resource(want->resource, &resource, ignored) == 0 &&
	       resource.is_of_node_too && own_value(container, &resource, &value, ignored) == 0 &&
	       value == 0;
}

int downward_resource(const json_t *pod, const json_t *node, const struct downward_resource *want,
		      char **ret_text, char *ret_error)
{
	const json_t *container = find_container(pod, want->container);
	uint64_t value = 0, divisor = 1;
	struct resource resource;
	char quoted[96];
	int r = parse_resource(want->resource, &resource, ret_error);

	if (r == 0)
		r = parse_divisor(&resource, want->divisor, &divisor, ret_error);
	if (r < 0)
		return r;
	log_quote(want->container, quoted, sizeof(quoted));
	if (!container)
		return fail(ret_error, -ENOENT, "the Pod has no container %s", quoted);
	r = own_value(container, &resource, &value, ret_error);
	if (r == 0 && value == 0 && resource.is_of_node_too) {
		const json_t *allocatable =
			json_object_get(json_object_get(node, "status"), "allocatable");

		if (!node)
			return fail(ret_error, -ENOENT,
				    "container %s has no limit of %s, and there is no Node", quoted,
				    resource.name);
		r = read_quantity(json_object_get(allocatable, resource.name), &resource,
				  "the Node's allocatable", &value, ret_error);
	}
	if (r < 0)
		return r;
	value = value / divisor + (value % divisor != 0);
	if (asprintf(ret_text, "%" PRIu64, value) < 0)
		return fail(ret_error, -ENOMEM, "out of memory");
	return 0;
}
