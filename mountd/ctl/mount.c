// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/client/words.h"
#include "mountd/ctl/file.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/proto.h"

/* Long options only; each is a row below. */
enum {
	OPT_PLUGIN = 256,
	OPT_SOURCE,
	OPT_SPEC,
	OPT_OBJECTS,
	OPT_POD,
	OPT_STAGED,
	OPT_TARGET,
	OPT_FSGROUP,
	OPT_POLICY,
	OPT_OWNERSHIP,
	OPT_EXCLUDE,
	OPT_KEEP_PRIVATE,
	OPT_READ_ONLY,
	OPT_CONVERGE_RATE,
	OPT_HANDOFF,
	OPT_SETTLE,
	OPT_CONFLICT,
	OPT_CONTEXT,
	OPT_COHERENCE,
	OPT_TRANSPORT,
	OPT_IDMAP,
	OPT_PERSIST,
	OPT_VOLUME_ID,
};

static const struct option longs[] = {
	{ "plugin", required_argument, NULL, OPT_PLUGIN },
	{ "source", required_argument, NULL, OPT_SOURCE },
	{ "spec", required_argument, NULL, OPT_SPEC },
	{ "objects", required_argument, NULL, OPT_OBJECTS },
	{ "pod", required_argument, NULL, OPT_POD },
	{ "staged", required_argument, NULL, OPT_STAGED },
	{ "target", required_argument, NULL, OPT_TARGET },
	{ "fsgroup", required_argument, NULL, OPT_FSGROUP },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "ownership", required_argument, NULL, OPT_OWNERSHIP },
	{ "exclude", required_argument, NULL, OPT_EXCLUDE },
	{ "keep-private", no_argument, NULL, OPT_KEEP_PRIVATE },
	{ "read-only", no_argument, NULL, OPT_READ_ONLY },
	{ "converge-rate", required_argument, NULL, OPT_CONVERGE_RATE },
	{ "handoff", required_argument, NULL, OPT_HANDOFF },
	{ "settle", required_argument, NULL, OPT_SETTLE },
	{ "conflict", required_argument, NULL, OPT_CONFLICT },
	{ "context", required_argument, NULL, OPT_CONTEXT },
	{ "coherence", required_argument, NULL, OPT_COHERENCE },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "idmap", required_argument, NULL, OPT_IDMAP },
	{ "persist", no_argument, NULL, OPT_PERSIST },
	{ "volume-id", required_argument, NULL, OPT_VOLUME_ID },
	{ 0 },
};

struct arguments {
	const struct ctl *ctl;
	json_t *request;
	const char *plugin, *source, *spec, *staged, *objects, *target;
};

static int fail(const struct arguments *a, int exit, const char *what, const char *value,
		const char *why)
{
	char quoted[256];

	return ctl_fail(a->ctl, exit, a->target, "%s %s: %s", what,
			log_quote(value, quoted, sizeof(quoted)), why);
}

static int say(const struct arguments *a, int exit, const char *why)
{
	return exit == EXIT_OK ? EXIT_OK : ctl_fail(a->ctl, exit, a->target, "%s", why);
}

static int set_text(struct arguments *a, const char *key, const char *value)
{
	char why[WORDS_ERROR_MAX];

	return say(a, words_set_text(a->request, key, value, why), why);
}

static const char *name_of(int option)
{
	const struct option *row = longs;

	while (row->name && row->val != option)
		row++;
	return row->name;
}

static int take_option(struct arguments *a, int option, const char *value)
{
	const char *name = name_of(option);
	char why[WORDS_ERROR_MAX];

	switch (option) {
	case OPT_SOURCE:
		a->source = value;
		return EXIT_OK;
	case OPT_SPEC:
		a->spec = value;
		return EXIT_OK;
	case OPT_TARGET:
		a->target = value;
		return EXIT_OK;
	case OPT_OBJECTS:
		a->objects = value;
		return EXIT_OK;
	case OPT_PLUGIN:
		a->plugin = value;
		break;
	case OPT_STAGED:
		a->staged = value;
		break;
	default:
		break;
	}
	if (!name)
		return EXIT_USAGE; /* getopt has said why */
	return say(a, words_set(a->request, name, value, why), why);
}

static int set_spec(struct arguments *a)
{
	AUTO_FREE char *text = NULL;
	json_t *value;
	int r = ctl_file_read(AT_FDCWD, a->spec, &text);

	if (r < 0)
		return fail(a, EXIT_FAILED, "spec", a->spec, strerror(-r));
	value = json_string(text);
	if (!value)
		return fail(a, EXIT_FAILED, "spec", a->spec, "not valid UTF-8");
	json_object_set_new(a->request, "spec", value);
	return EXIT_OK;
}

static int set_objects(struct arguments *a)
{
	json_t *objects = NULL;
	int exit = ctl_objects_load(a->ctl, a->target, a->objects, &objects);

	if (exit == EXIT_OK)
		json_object_set_new(a->request, "objects", objects);
	return exit;
}

static int complete(struct arguments *a)
{
	char why[WORDS_ERROR_MAX];
	int exit = EXIT_OK;

	if (!a->target)
		return ctl_usage(a->ctl, "--target is missing");
	if (!a->plugin && !a->spec && !a->staged)
		return ctl_usage(a->ctl, "--plugin, --spec or --staged is missing");
	if (a->source && a->spec)
		return ctl_fail(a->ctl, EXIT_FAILED, a->target,
				"two conflicting sources: --source and --spec");
	if (a->source && !a->plugin)
		return ctl_usage(a->ctl, "--source needs --plugin");
	if (a->spec && a->objects && strcmp(a->spec, "-") == 0 && strcmp(a->objects, "-") == 0)
		return ctl_usage(a->ctl, "--spec and --objects cannot both be standard input");
	if (a->spec)
		exit = set_spec(a);
	if (exit == EXIT_OK && a->source)
		exit = say(a, words_set_source(a->request, a->plugin, a->source, why), why);
	if (exit == EXIT_OK && a->objects)
		exit = set_objects(a);
	if (exit == EXIT_OK)
		exit = say(a, words_set_path(a->request, "target", a->target, why), why);
	return exit;
}

int ctl_mount(const struct ctl *ctl, int argc, char **argv)
{
	struct arguments a = { .ctl = ctl, .request = json_pack("{s:s}", "command", "mount") };
	int exit = EXIT_OK, c;

	/* The target first: it names the volume in every message. */
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--target") == 0)
			a.target = argv[i + 1];
	}
	optind = 0;
	while (exit == EXIT_OK && (c = getopt_long(argc, argv, "+", longs, NULL)) != -1)
		exit = take_option(&a, c, optarg);
	if (exit == EXIT_OK && optind != argc)
		exit = ctl_usage(ctl, "an argument too many");
	if (exit == EXIT_OK)
		exit = complete(&a);
	if (exit == EXIT_OK)
		return ctl_call_plainly(ctl, a.target, a.request, false);
	json_decref(a.request);
	return exit;
}

/* An empty pattern stands for none: that is how the last exclude is taken away. */
static int take_update_option(struct arguments *a, int option, const char *value)
{
	if (option != OPT_EXCLUDE || *value)
		return take_option(a, option, value);
	json_object_set_new(a->request, "excludes", json_array());
	return EXIT_OK;
}

/* The volume, and what is read or made absolute here; the daemon says what cannot change. */
static int complete_update(struct arguments *a, const char *volume)
{
	AUTO_FREE char *absolute = NULL;
	int r = strchr(volume, '/') ? path_absolute(volume, &absolute) : 0;

	if (r < 0)
		return fail(a, EXIT_FAILED, "volume", volume, strerror(-r));
	if (a->source)
		set_text(a, "source", a->source);
	if (a->target)
		set_text(a, "target", a->target);
	a->target = volume;
	if (set_text(a, "volume", absolute ? absolute : volume) != EXIT_OK)
		return EXIT_FAILED;
	return a->spec ? set_spec(a) : EXIT_OK;
}

int ctl_update(const struct ctl *ctl, int argc, char **argv)
{
	struct arguments a = { .ctl = ctl, .request = json_pack("{s:s}", "command", "update") };
	json_t *result = NULL, *name;
	int exit = EXIT_OK, c;
	size_t i;

	optind = 0;
	while (exit == EXIT_OK && (c = getopt_long(argc, argv, "", longs, NULL)) != -1)
		exit = take_update_option(&a, c, optarg);
	if (exit == EXIT_OK && optind != argc - 1)
		exit = ctl_usage(ctl,
				 optind == argc ? "TARGET|ID is missing" : "an argument too many");
	if (exit == EXIT_OK)
		exit = complete_update(&a, argv[optind]);
	if (exit != EXIT_OK) {
		json_decref(a.request);
		return exit;
	}
	exit = progress_call(ctl, argv[optind], a.request, false, &result);
	if (exit == EXIT_OK && ctl->json && !ctl->dry_run) {
		show_json(result, false);
	} else if (exit == EXIT_OK && !ctl_show_plan(ctl, result)) {
		json_t *changed = json_object_get(result, "changed");

		fputs(json_array_size(changed) > 0 ? "changed:" : "unchanged", stdout);
		json_array_foreach(changed, i, name)
			printf(" %s", json_string_value(name));
		putchar('\n');
	}
	json_decref(result);
	return exit;
}
