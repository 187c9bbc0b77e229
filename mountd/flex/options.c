// SPDX-License-Identifier: Apache-2.0
#include "mountd/flex/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/flex/answer.h"

#define SECRET_PREFIX "kubernetes.io/secret/"

struct options {
	enum flex_driver driver;
	enum flex_purpose purpose;
	json_t *request;
	bool is_used;	       /* whether the option that is looked at is one for this purpose */
	const char *group_key; /* under which the fsGroup came first, or NULL */
	gid_t gid;
	const char *policy;	     /* as the first of two options has it, or NULL */
	const char *namespace, *pod; /* of the pod; borrowed from the options; NULL: not said */
	bool has_plugin, has_source, has_volume, has_device;
	char *error; /* FLEX_MESSAGE_MAX bytes */
};

static int __attribute__((format(printf, 2, 3))) fail(struct options *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(o->error, FLEX_MESSAGE_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

static int fail_value(struct options *o, const char *key, const char *value, const char *why)
{
	char quoted[128];

	return fail(o, "option %s: %s %s", key, log_quote(value, quoted, sizeof(quoted)), why);
}

static int put(struct options *o, const char *key, json_t *value)
{
	if (!o->is_used) {
		json_decref(value);
		return 0;
	}
	return json_object_set_new(o->request, key, value) < 0 ? -ENOMEM : 0;
}

/* ---- the options, each 0 or -errno ---- */

static int take_nothing(struct options *o, const char *key, const char *value)
{
	(void)o;
	(void)key;
	(void)value;
	return 0;
}

/* Under both its names: kubelet renamed it in 1.15 and its document has the old one. */
static int take_group(struct options *o, const char *key, const char *value)
{
	gid_t gid = GID_UNSET;

	if (!*value)
		return 0;
	if (parse_gid(value, &gid) < 0)
		return fail_value(o, key, value, "is no group id");
	if (o->group_key && o->gid != gid)
		return fail(o, "options %s and %s name different groups", o->group_key, key);
	o->group_key = key;
	o->gid = gid;
	return put(o, "fsGroup", json_integer(gid));
}

static int take_access(struct options *o, const char *key, const char *value)
{
	if (strcmp(value, "ro") == 0)
		return put(o, "readOnly", json_true());
	if (strcmp(value, "rw") == 0 || !*value)
		return 0;
	return fail_value(o, key, value, "is neither rw nor ro");
}

static int take_text(struct options *o, const char *key, const char *value)
{
	return put(o, key, json_string(value));
}

static int take_fs_type(struct options *o, const char *key, const char *value)
{
	(void)key;
	return *value ? put(o, "fsType", json_string(value)) : 0;
}

static int take_name(struct options *o, const char *key, const char *value)
{
	(void)key;
	return *value ? put(o, "name", json_string(value)) : 0;
}

static int take_namespace(struct options *o, const char *key, const char *value)
{
	(void)key;
	o->namespace = *value ? value : NULL;
	return 0;
}

static int take_pod(struct options *o, const char *key, const char *value)
{
	(void)key;
	o->pod = *value ? value : NULL;
	return 0;
}

static int take_plugin(struct options *o, const char *key, const char *value)
{
	o->has_plugin = true;
	return put(o, key, json_string(value));
}

static int take_source(struct options *o, const char *key, const char *value)
{
	o->has_source = true;
	return put(o, key, json_string(value));
}

/* A Kubernetes Volume, or a bare source for the plugin that `plugin` names. */
static int take_volume(struct options *o, const char *key, const char *value)
{
	(void)key;
	o->has_volume = true;
	return put(o, "spec", json_string(value));
}

/* What kubelet gives to other calls as an argument is said here first. */
static int take_device(struct options *o, const char *key, const char *value)
{
	if (value[0] != '/')
		return fail_value(o, key, value, "is not an absolute path");
	o->has_device = true;
	return put(o, key, json_string(value));
}

/* Read by the daemon, which knows what is allowed. */
static int take_objects(struct options *o, const char *key, const char *value)
{
	if (value[0] != '/')
		return fail_value(o, key, value, "is not an absolute path");
	return put(o, "objectsPath", json_string(value));
}

static int take_policy(struct options *o, const char *key, const char *value)
{
	if (o->policy && strcmp(o->policy, value) != 0)
		return fail(o, "options policy and fsGroupNoRecurse contradict each other");
	o->policy = value;
	return put(o, key, json_string(value));
}

static int take_bool(struct options *o, const char *key, const char *value, bool *ret_value)
{
	if (parse_bool(value, ret_value) < 0)
		return fail_value(o, key, value, "is neither true nor false");
	return 0;
}

static int take_no_recurse(struct options *o, const char *key, const char *value)
{
	bool yes = false;
	int r = take_bool(o, key, value, &yes);

	return r < 0 || !yes ? r : take_policy(o, "policy", "RootOnly");
}

static int take_yes_or_no(struct options *o, const char *key, const char *value)
{
	bool yes = false;
	int r = take_bool(o, key, value, &yes);

	return r < 0 ? r : put(o, key, json_boolean(yes));
}

static int take_rate(struct options *o, const char *key, const char *value)
{
	uint64_t rate = 0;

	if (parse_u64(value, &rate) < 0 || rate > INT64_MAX)
		return fail_value(o, key, value, "is no number of files a second");
	return put(o, key, json_integer((json_int_t)rate));
}

/* One pattern a line: a pattern may hold anything else. */
static int take_excludes(struct options *o, const char *key, const char *value)
{
	json_t *list = json_array();

	(void)key;
	for (const char *line = value; list && *line;) {
		size_t len = strcspn(line, "\n");

		if (len > 0 && json_array_append_new(list, json_stringn(line, len)) < 0) {
			json_decref(list);
			return -ENOMEM;
		}
		line += len + (line[len] == '\n');
	}
	return put(o, "excludes", list);
}

#define BOTH (FLEX_VOLUME | FLEX_DEVICE)
#define ALL (FLEX_MOUNT | FLEX_STAGE)

static const struct {
	const char *key;
	unsigned drivers;  /* that know it; for others it is an unknown option */
	unsigned purposes; /* for which it says something */
	int (*take)(struct options *o, const char *key, const char *value);
} rows[] = {
	/* kubelet's */
	{ "kubernetes.io/fsType", BOTH, FLEX_STAGE, take_fs_type },
	{ "kubernetes.io/readwrite", BOTH, ALL, take_access },
	{ "kubernetes.io/pvOrVolumeName", BOTH, FLEX_LOOK, take_name },
	{ "kubernetes.io/mounterArgs.FsGroup", BOTH, FLEX_MOUNT, take_group },
	{ "kubernetes.io/fsGroup", BOTH, FLEX_MOUNT, take_group },
	{ "kubernetes.io/pod.name", BOTH, FLEX_MOUNT, take_pod },
	{ "kubernetes.io/pod.namespace", BOTH, FLEX_MOUNT, take_namespace },
	{ "kubernetes.io/pod.uid", BOTH, 0, take_nothing },
	{ "kubernetes.io/serviceAccount.name", BOTH, 0, take_nothing },
	/* the author's */
	{ "plugin", BOTH, ALL, take_plugin },
	{ "source", BOTH, ALL, take_source },
	{ "volume", BOTH, ALL, take_volume },
	{ "objects", FLEX_VOLUME, FLEX_MOUNT, take_objects },
	{ "policy", BOTH, FLEX_MOUNT, take_policy },
	{ "fsGroupNoRecurse", BOTH, FLEX_MOUNT, take_no_recurse },
	{ "ownership", BOTH, FLEX_MOUNT, take_text },
	{ "exclude", BOTH, FLEX_MOUNT, take_excludes },
	{ "keepPrivate", BOTH, FLEX_MOUNT, take_yes_or_no },
	{ "convergeRate", BOTH, FLEX_MOUNT, take_rate },
	{ "device", FLEX_DEVICE, FLEX_LOOK, take_device },
	{ "format", FLEX_DEVICE, FLEX_STAGE, take_yes_or_no },
};

/* RFC 4648 with padding, as kubelet writes it. */
static bool is_base64(const char *text)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789+/";
	size_t len = strlen(text), body = strspn(text, alphabet);

	return len % 4 == 0 && len - body <= 2 && strspn(text + body, "=") == len - body;
}

/* Whether the key's domain, the part before the slash, is Kubernetes' own. */
static bool is_reserved(const char *key)
{
	static const char *const domains[] = { "kubernetes.io", "k8s.io" };
	size_t domain = strcspn(key, "/");

	for (size_t i = 0; i < ARRAY_SIZE(domains); i++) {
		size_t len = strlen(domains[i]);

		if (domain >= len && strncasecmp(key + domain - len, domains[i], len) == 0 &&
		    (domain == len || key[domain - len - 1] == '.'))
			return true;
	}
	return false;
}

static int take_option(struct options *o, const char *key, const char *value)
{
	char quoted[128];

	if (strncmp(key, SECRET_PREFIX, strlen(SECRET_PREFIX)) == 0)
		return is_base64(value) ? 0 :
					  fail(o, "option %s: not base64",
					       log_quote(key, quoted, sizeof(quoted)));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(key, rows[i].key) != 0 || !(rows[i].drivers & o->driver))
			continue;
		o->is_used = rows[i].purposes & o->purpose;
		return rows[i].take(o, rows[i].key, value);
	}
	log_quote(key, quoted, sizeof(quoted));
	if (is_reserved(key))
		return fail(o, "option %s: reserved for Kubernetes, and not one that it sends",
			    quoted);
	return fail(o, "option %s: unknown", quoted);
}

static int check_all(struct options *o)
{
	if (!o->has_plugin && !o->has_volume)
		return fail(o, "option plugin or volume is missing");
	if (o->has_source && o->has_volume)
		return fail(o, "options source and volume: only one of them can say what to mount");
	if (o->driver == FLEX_DEVICE && !o->has_device)
		return fail(o, "option device is missing");
	return 0;
}

/* Objects are those of the pod's namespace, whatever else is in the file. */
static int put_pod(struct options *o)
{
	char pod[512];
	int n;

	if (!json_object_get(o->request, "objectsPath"))
		return 0;
	if (!o->namespace || !o->pod)
		return fail(o, "option objects: kubelet has not said which pod it is for");
	n = snprintf(pod, sizeof(pod), "%s/%s", o->namespace, o->pod);
	if (n < 0 || (size_t)n >= sizeof(pod))
		return fail(
			o,
			"options kubernetes.io/pod.namespace and kubernetes.io/pod.name: too long");
	o->is_used = true;
	return put(o, "pod", json_string(pod));
}

int flex_options_apply(const char *text, enum flex_driver driver, enum flex_purpose purpose,
		       json_t *io_request, char *ret_error)
{
	struct options o = {
		.driver = driver,
		.purpose = purpose,
		.request = io_request,
		.error = ret_error,
	};
	json_error_t where;
	json_t *object, *value;
	const char *key;
	int r = 0;

	if (strnlen(text, FLEX_OPTIONS_MAX + 1) > FLEX_OPTIONS_MAX)
		return fail(&o, "the options are longer than %u bytes", FLEX_OPTIONS_MAX);
	object = json_loads(text, JSON_REJECT_DUPLICATES, &where);
	if (!object)
		return fail(&o, "the options are not JSON (line %d, column %d)", where.line,
			    where.column);
	if (!json_is_object(object))
		r = fail(&o, "the options are no JSON object");
	json_object_foreach(object, key, value) {
		char quoted[128];

		if (r < 0)
			break;
		if (!json_is_string(value))
			r = fail(&o, "option %s: not a text", log_quote(key, quoted, 128));
		else if (strlen(json_string_value(value)) != json_string_length(value))
			r = fail(&o, "option %s: holds a null byte", log_quote(key, quoted, 128));
		else
			r = take_option(&o, key, json_string_value(value));
	}
	if (r == 0)
		r = check_all(&o);
	if (r == 0)
		r = put_pod(&o);
	json_decref(object);
	return r;
}
