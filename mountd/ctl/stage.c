// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/stage.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/ctl/file.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/proto.h"

/* Long options only; those with a value are texts of the request, as they are or made absolute. */
enum { OPT_SPEC = 256, OPT_DEVICE, OPT_FORMAT, OPT_FS_TYPE, OPT_OPTIONS, OPT_STAGING, OPT_ID };

static const struct option longs[] = {
	{ "spec", required_argument, NULL, OPT_SPEC },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "format", no_argument, NULL, OPT_FORMAT },
	{ "fs-type", required_argument, NULL, OPT_FS_TYPE },
	{ "mount-options", required_argument, NULL, OPT_OPTIONS },
	{ "staging", required_argument, NULL, OPT_STAGING },
	{ "volume-id", required_argument, NULL, OPT_ID },
	{ 0 },
};

static int set_text(const struct ctl *ctl, json_t *request, const char *key, const char *value)
{
	json_t *text = json_string(value);

	if (!text)
		return ctl_fail(ctl, EXIT_FAILED, NULL, "%s: not valid UTF-8", key);
	json_object_set_new(request, key, text);
	return EXIT_OK;
}

/* A person names a path from where they stand; the daemon stands elsewhere. */
static int set_path(const struct ctl *ctl, json_t *request, const char *key, const char *value)
{
	AUTO_FREE char *absolute = NULL;
	int r = path_absolute(value, &absolute);

	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, NULL, "%s: %s", key, strerror(-r));
	return set_text(ctl, request, key, absolute);
}

static int set_spec(const struct ctl *ctl, json_t *request, const char *path)
{
	AUTO_FREE char *text = NULL;
	char quoted[256];
	int r = ctl_file_read(AT_FDCWD, path, &text);

	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, NULL, "spec %s: %s",
				log_quote(path, quoted, sizeof(quoted)), strerror(-r));
	return set_text(ctl, request, "spec", text);
}

static int take_option(const struct ctl *ctl, json_t *request, int option, const char *value)
{
	switch (option) {
	case OPT_SPEC:
		return set_spec(ctl, request, value);
	case OPT_DEVICE:
		return set_path(ctl, request, "device", value);
	case OPT_STAGING:
		return set_path(ctl, request, "staging", value);
	case OPT_FS_TYPE:
		return set_text(ctl, request, "fsType", value);
	case OPT_OPTIONS:
		return set_text(ctl, request, "mountOptions", value);
	case OPT_ID:
		return set_text(ctl, request, "volumeId", value);
	case OPT_FORMAT:
		json_object_set_new(request, "format", json_true());
		return EXIT_OK;
	default:
		return EXIT_USAGE; /* getopt has said why */
	}
}

/* Takes @request. The id is printed: it is what mount --staged and unstage want. */
static int call(const struct ctl *ctl, json_t *request)
{
	AUTO_FREE char *device = NULL;
	json_t *result = NULL;
	const char *text = json_string_value(json_object_get(request, "device"));
	int exit;

	device = text ? strdup(text) : NULL;
	exit = progress_call(ctl, device, request, false, &result);
	text = json_string_value(json_object_get(result, "id"));
	if (exit == EXIT_OK && !ctl_show_plan(ctl, result)) {
		if (ctl->json)
			show_json(result, false);
		else if (text)
			puts(text);
	}
	json_decref(result);
	return exit;
}

int ctl_stage(const struct ctl *ctl, int argc, char **argv)
{
	json_t *request = json_pack("{s:s}", "command", "stage");
	int exit = EXIT_OK, c;

	optind = 0;
	while (exit == EXIT_OK && (c = getopt_long(argc, argv, "+", longs, NULL)) != -1)
		exit = take_option(ctl, request, c, optarg);
	if (exit == EXIT_OK && optind != argc)
		exit = ctl_usage(ctl, "an argument too many");
	else if (exit == EXIT_OK && !json_object_get(request, "spec"))
		exit = ctl_usage(ctl, "--spec is missing");
	else if (exit == EXIT_OK && !json_object_get(request, "device"))
		exit = ctl_usage(ctl, "--device is missing");
	if (exit == EXIT_OK)
		return call(ctl, request);
	json_decref(request);
	return exit;
}

int ctl_unstage(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option none[] = { { 0 } };
	json_t *request;
	int exit;

	optind = 0;
	if (getopt_long(argc, argv, "+", none, NULL) != -1)
		return EXIT_USAGE;
	if (argc - optind != 1)
		return ctl_usage(ctl, "an ID or the staging path is needed");
	request = json_pack("{s:s}", "command", "unstage");
	if (strchr(argv[optind], '/'))
		exit = set_path(ctl, request, "volume", argv[optind]);
	else
		exit = set_text(ctl, request, "volume", argv[optind]);
	if (exit == EXIT_OK)
		return ctl_call_plainly(ctl, argv[optind], request, false);
	json_decref(request);
	return exit;
}
