// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/proto.h"
#include "mountd/spec.h"

static const char *const modes[] = { "converge", "virtual", "none" };
static const char *const levels[] = { "error", "warning", "info", "debug" };

/* ---- the rules as JSON ---- */

/* NULL: not restricted. */
static json_t *words_json(char *const *words)
{
	json_t *list = words ? json_array() : json_null();

	for (size_t i = 0; words && words[i]; i++)
		json_array_append_new(list, json_string(words[i]));
	return list;
}

static json_t *refused_plugins(const struct front_rules *front)
{
	json_t *list = json_array();
	const char *name;

	for (size_t i = 0; (name = spec_plugin_at(i)) != NULL; i++) {
		if (!rules_plugin_is_allowed(front, name))
			json_array_append_new(list, json_string(name));
	}
	return list;
}

static json_t *refused_modes(const struct front_rules *front)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!rules_ownership_is_allowed(front, modes[i]))
			json_array_append_new(list, json_string(modes[i]));
	}
	return list;
}

static json_t *front_json(const struct front_rules *front, const char *name)
{
	return json_pack(
		"{s:s, s:o, s:o, s:o, s:o, s:b, s:s, s:s, s:o, s:I, s:I, s:s, s:s?, s:b, s:{s:o, s:o, s:b, s:b}}",
		"name", name, "plugins", words_json(front->plugins), "sources",
		words_json(front->sources), "objects",
		words_json(front->objects ? front->objects : front->sources), "ownership",
		words_json(front->ownership), "format", front->format, "policy", front->policy,
		"defaultOwnership", front->default_ownership, "exclude",
		front->exclude ? words_json(front->exclude) : json_array(), "convergeRate",
		(json_int_t)front->converge_rate, "settleMs", (json_int_t)front->settle_ms,
		"conflict", front->conflict, "context", front->context, "idmap", front->idmap,
		"refused", "plugins", refused_plugins(front), "ownership", refused_modes(front),
		"format", !front->format, "sources", front->sources && !front->sources[0]);
}

static void add_problem(json_t *list, const char *section, const char *key, const char *what,
			const char *name)
{
	char quoted[128], text[256];

	snprintf(text, sizeof(text), "%s %s", log_quote(name, quoted, sizeof(quoted)), what);
	json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "section", section, "key", key,
					      "message", text));
}

json_t *config_problems(const struct rules *rules)
{
	json_t *list = json_array();

	for (int f = 0; list && f < FRONT_END_COUNT; f++) {
		const struct front_rules *front = &rules->front[f];
		const char *section = rules_front_end_name((enum front_end)f);

		for (size_t i = 0; front->plugins && front->plugins[i]; i++) {
			if (!spec_plugin_is_named(front->plugins[i]))
				add_problem(list, section, "plugins", "is no plugin",
					    front->plugins[i]);
		}
		if (!rules_ownership_is_allowed(front, front->default_ownership))
			add_problem(list, section, "default-ownership",
				    "is assumed where nothing is said, and not allowed",
				    front->default_ownership);
	}
	return list;
}

static json_t *rules_json(const struct rules *rules, const char *path, bool exists)
{
	json_t *fronts = json_array();

	for (int f = 0; f < FRONT_END_COUNT; f++)
		json_array_append_new(fronts, front_json(&rules->front[f],
							 rules_front_end_name((enum front_end)f)));
	return json_pack(
		"{s:s, s:b, s:o, s:o, s:{s:s?, s:I, s:s, s:I, s:I}, s:{s:s}, s:{s:s?, s:o}}",
		"path", path, "exists", exists, "problems", config_problems(rules), "frontEnds",
		fronts, "plugins", "flexvolumeDir", rules->settings.flexvolume_dir,
		"flexvolumeTimeoutMs", (json_int_t)rules->settings.flexvolume_timeout_ms, "gitUser",
		rules->settings.git_user, "gitTimeoutMs",
		(json_int_t)rules->settings.git_timeout_ms, "gitSizeBytes",
		(json_int_t)rules->settings.git_size_bytes, "log", "level",
		levels[rules->log_level], "daemon", "statusGroup", rules->status_group,
		"cpuLatencyUs",
		rules->cpu_latency_us < 0 ? json_null() :
					    json_integer((json_int_t)rules->cpu_latency_us));
}

/* ---- for people ---- */

static void show_words(const char *title, const json_t *words, const char *none)
{
	const json_t *item;
	char shown[1024];
	size_t i;

	printf("    %-20s", title);
	if (!json_is_array(words))
		fputs("anything", stdout);
	else if (json_array_size(words) == 0)
		fputs(none, stdout);
	json_array_foreach(words, i, item)
		printf("%s%s", i ? " " : "",
		       text_show(json_string_value(item), shown, sizeof(shown)));
	putchar('\n');
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "-";
}

static long long number_of(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static void show_front(const json_t *front)
{
	const json_t *refused = json_object_get(front, "refused");

	printf("[%s]\n  allowed\n", text_of(front, "name"));
	show_words("plugins", json_object_get(front, "plugins"), "none");
	show_words("sources below", json_object_get(front, "sources"), "nothing");
	show_words("objects below", json_object_get(front, "objects"), "nothing");
	show_words("ownership", json_object_get(front, "ownership"), "none");
	printf("    %-20s%s\n  assumed\n", "format",
	       json_is_true(json_object_get(front, "format")) ? "yes" : "no");
	printf("    %-20s%s\n    %-20s%s\n    %-20s%s\n    %-20s%lld ms\n", "policy",
	       text_of(front, "policy"), "ownership", text_of(front, "defaultOwnership"),
	       "conflict", text_of(front, "conflict"), "settle", number_of(front, "settleMs"));
	if (number_of(front, "convergeRate") > 0)
		printf("    %-20s%lld files a second\n", "converge-rate",
		       number_of(front, "convergeRate"));
	else
		printf("    %-20sno limit\n", "converge-rate");
	show_words("exclude", json_object_get(front, "exclude"), "nothing");
	printf("    %-20s%s\n", "context",
	       json_is_null(json_object_get(front, "context")) ? "of the source" :
								 text_of(front, "context"));
	printf("    %-20s%s\n", "idmap",
	       json_is_true(json_object_get(front, "idmap")) ? "yes" : "no");
	puts("  refused");
	show_words("plugins", json_object_get(refused, "plugins"), "none");
	show_words("ownership", json_object_get(refused, "ownership"), "none");
	printf("    %-20s%s\n", "other",
	       json_is_true(json_object_get(refused, "format")) ?
		       json_is_true(json_object_get(refused, "sources")) ?
		       "formatting, every source path" :
		       "formatting" :
	       json_is_true(json_object_get(refused, "sources")) ? "every source path" :
								   "nothing");
}

static void show_rules(const json_t *rules)
{
	const json_t *plugins = json_object_get(rules, "plugins");
	const json_t *daemon = json_object_get(rules, "daemon"), *item;
	char shown[4096];
	size_t i;

	printf("%s%s\n", text_show(text_of(rules, "path"), shown, sizeof(shown)),
	       json_is_true(json_object_get(rules, "exists")) ? "" :
								" is not there: what is built in");
	json_array_foreach(json_object_get(rules, "frontEnds"), i, item)
		show_front(item);
	printf("[plugins]\n    %-20s%s\n    %-20s%lld ms\n    %-20s%s\n    %-20s%lld ms\n    %-20s%lld bytes\n",
	       "flexvolume-dir", text_of(plugins, "flexvolumeDir"), "flexvolume-timeout",
	       number_of(plugins, "flexvolumeTimeoutMs"), "git-user", text_of(plugins, "gitUser"),
	       "git-timeout", number_of(plugins, "gitTimeoutMs"), "git-size",
	       number_of(plugins, "gitSizeBytes"));
	printf("[log]\n    %-20s%s\n[daemon]\n    %-20s%s\n", "level",
	       text_of(json_object_get(rules, "log"), "level"), "status-group",
	       text_of(daemon, "statusGroup"));
	if (json_is_null(json_object_get(daemon, "cpuLatencyUs")))
		printf("    %-20sas it is\n", "cpu-latency");
	else
		printf("    %-20s%lld us\n", "cpu-latency", number_of(daemon, "cpuLatencyUs"));
}

/* ---- the command ---- */

static int check(const struct ctl *ctl, const char *path, bool must_exist)
{
	AUTO(rules) *rules = NULL;
	char why[RULES_ERROR_MAX];
	bool exists = access(path, F_OK) == 0;
	int exit = EXIT_OK, r;
	json_t *json, *item;
	size_t i;

	if (must_exist && !exists)
		return ctl_fail(ctl, EXIT_FAILED, path, "%s", strerror(errno));
	r = rules_load(path, &rules, why);
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, "check", "%s", why[0] ? why : strerror(-r));
	json = rules_json(rules, path, exists);
	if (ctl->json)
		show_json(json, false);
	else
		show_rules(json);
	json_array_foreach(json_object_get(json, "problems"), i, item)
		exit = ctl_fail(ctl, EXIT_FAILED, "check", "%s: [%s] %s: %s", path,
				text_of(item, "section"), text_of(item, "key"),
				text_of(item, "message"));
	json_decref(json);
	return exit;
}

int ctl_config(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	AUTO_FREE char *root = NULL, *path = NULL;

	optind = 0;
	if (getopt_long(argc, argv, "", longs, NULL) != -1)
		return EXIT_USAGE;
	if (argc - optind < 1 || argc - optind > 2 || strcmp(argv[optind], "check") != 0)
		return ctl_usage(ctl, "config check [FILE]");
	if (argc - optind == 2)
		return check(ctl, argv[optind + 1], true);
	/* Not by the directories, which only root may look into: the file is everybody's to read. */
	if (path_absolute(ctl->root, &root) == 0)
		path = path_join(strcmp(root, "/") == 0 ? "" : root, PATH_CONFIG);
	return path ? check(ctl, path, false) : ctl_fail(ctl, EXIT_FAILED, ctl->root, "no memory");
}
