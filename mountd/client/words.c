// SPDX-License-Identifier: Apache-2.0
#include "mountd/client/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/base/selinux.h"
#include "mountd/path.h"
#include "mountd/proto.h"

static int fail(int exit, const char *what, const char *value, const char *why, char *ret_error)
{
	char quoted[256];

	snprintf(ret_error, WORDS_ERROR_MAX, "%.100s %s: %s", what,
		 log_quote(value, quoted, sizeof(quoted)), why);
	return exit;
}

int words_set_text(json_t *request, const char *key, const char *value,
		   char ret_error[WORDS_ERROR_MAX])
{
	json_t *text = json_string(value);

	if (!text)
		return fail(EXIT_FAILED, key, value, "not valid UTF-8", ret_error);
	json_object_set_new(request, key, text);
	return EXIT_OK;
}

int words_set_path(json_t *request, const char *key, const char *path,
		   char ret_error[WORDS_ERROR_MAX])
{
	AUTO_FREE char *absolute = NULL;
	int r = path_absolute(path, &absolute);

	if (r < 0)
		return fail(EXIT_FAILED, key, path, strerror(-r), ret_error);
	return words_set_text(request, key, absolute, ret_error);
}

int words_set_source(json_t *request, const char *plugin, const char *source,
		     char ret_error[WORDS_ERROR_MAX])
{
	bool is_path = plugin &&
		       (strcmp(plugin, "local") == 0 || strcmp(plugin, "hostPath") == 0) &&
		       source[0] != '{';

	return is_path ? words_set_path(request, "source", source, ret_error) :
			 words_set_text(request, "source", source, ret_error);
}

/* ---- the table ---- */

static int set_number(json_t *request, const char *key, uint64_t value)
{
	json_object_set_new(request, key,
			    json_integer((json_int_t)(value > INT64_MAX ? INT64_MAX : value)));
	return EXIT_OK;
}

static int set_gid(json_t *request, const char *key, const char *value, char *ret_error)
{
	gid_t gid = GID_UNSET;
	int r = parse_gid(value, &gid);

	if (r < 0)
		return fail(EXIT_USAGE, "gid", value,
			    r == -ERANGE ? "out of range (0 to 4294967294)" : "not a decimal gid",
			    ret_error);
	return set_number(request, key, gid);
}

static int set_rate(json_t *request, const char *key, const char *value, char *ret_error)
{
	uint64_t rate = 0;

	if (parse_u64(value, &rate) < 0)
		return fail(EXIT_USAGE, "converge-rate", value, "not a number of files a second",
			    ret_error);
	return set_number(request, key, rate);
}

static int set_settle(json_t *request, const char *key, const char *value, char *ret_error)
{
	uint64_t ms = 0;

	if (parse_duration(value, 1, &ms) < 0)
		return fail(EXIT_USAGE, "settle", value, "not a time", ret_error);
	return set_number(request, key, ms);
}

static int set_handoff(json_t *request, const char *key, const char *value, char *ret_error)
{
	bool yes = true;

	if (strcmp(value, "namespaces") == 0)
		json_object_set_new(request, "handoffInNamespaces", json_true());
	else if (parse_bool(value, &yes) < 0)
		return fail(EXIT_USAGE, "handoff", value, "neither yes, no nor namespaces",
			    ret_error);
	json_object_set_new(request, key, json_boolean(yes));
	return EXIT_OK;
}

static int set_idmap(json_t *request, const char *key, const char *value, char *ret_error)
{
	bool yes;

	if (parse_bool(value, &yes) < 0)
		return fail(EXIT_USAGE, "idmap", value, "neither yes nor no", ret_error);
	json_object_set_new(request, key, json_boolean(yes));
	return EXIT_OK;
}

static int add_exclude(json_t *request, const char *key, const char *value, char *ret_error)
{
	json_t *list = json_object_get(request, key), *text = json_string(value);

	if (!text || !*value) {
		json_decref(text);
		return fail(EXIT_USAGE, "exclude", value, "not a pattern", ret_error);
	}
	if (!list) {
		list = json_array();
		json_object_set_new(request, key, list);
	}
	json_array_append_new(list, text);
	return EXIT_OK;
}

static int set_context(json_t *request, const char *key, const char *value, char *ret_error)
{
	char option[SELINUX_LABEL_MAX + 16];

	if (!selinux_label_is_valid(value))
		return fail(EXIT_USAGE, "context", value, "not a label of SELinux", ret_error);
	snprintf(option, sizeof(option), "context=\"%s\"", value);
	return words_set_text(request, key, option, ret_error);
}

static int set_flag(json_t *request, const char *key, const char *value, char *ret_error)
{
	(void)value;
	(void)ret_error;
	json_object_set_new(request, key, json_true());
	return EXIT_OK;
}

static const struct {
	const char *name, *key;
	int (*set)(json_t *request, const char *key, const char *value, char *ret_error);
} rows[] = {
	{ "fsgroup", "fsGroup", set_gid },
	{ "policy", "policy", words_set_text },
	{ "ownership", "ownership", words_set_text },
	{ "exclude", "excludes", add_exclude },
	{ "keep-private", "keepPrivate", set_flag },
	{ "read-only", "readOnly", set_flag },
	{ "converge-rate", "convergeRate", set_rate },
	{ "handoff", "handoff", set_handoff },
	{ "settle", "settleMs", set_settle },
	{ "conflict", "conflict", words_set_text },
	{ "context", "mountOptions", set_context },
	{ "coherence", "coherence", words_set_text },
	{ "transport", "transport", words_set_text },
	{ "idmap", "idmap", set_idmap },
	{ "persist", "persist", set_flag },
	{ "volume-id", "volumeId", words_set_text },
	{ "plugin", "plugin", words_set_text },
	{ "pod", "pod", words_set_text },
	{ "staged", "staged", words_set_text },
};

static bool is_name(const char *row, const char *name)
{
	for (; *row && (*row == *name || (*row == '-' && *name == '_')); row++)
		name++;
	return *row == '\0' && *name == '\0';
}

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(rows) && !is_name(rows[i].name, name))
		i++;
	return i;
}

bool words_find(const char *name, bool *ret_is_flag)
{
	size_t i = find(name);

	if (i == ARRAY_SIZE(rows))
		return false;
	*ret_is_flag = rows[i].set == set_flag;
	return true;
}

int words_set(json_t *request, const char *name, const char *value, char ret_error[WORDS_ERROR_MAX])
{
	size_t i = find(name);

	if (i == ARRAY_SIZE(rows))
		return fail(EXIT_USAGE, "option", name, "unknown", ret_error);
	return rows[i].set(request, rows[i].key, value, ret_error);
}
