// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_upgrade.h"

#include <getopt.h>
#include <stdio.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl_progress.h"
#include "mountd/ctl_show.h"
#include "mountd/ctl_volume.h"
#include "mountd/proto.h"

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "-";
}

/* Returns how many could not be followed. */
static size_t show_servers(const struct ctl *ctl, const json_t *servers)
{
	const json_t *row;
	size_t i, failed = 0;

	json_array_foreach(servers, i, row) {
		const char *error = json_string_value(json_object_get(row, "error"));

		failed += error != NULL;
		if (ctl->json)
			continue;
		if (error)
			printf("%s: server %s stays: %s\n", text_of(row, "volume"),
			       text_of(row, "from"), error);
		else
			printf("%s: server %s, now %s\n", text_of(row, "volume"),
			       text_of(row, "from"), text_of(row, "to"));
	}
	return failed;
}

static int upgrade(const struct ctl *ctl, const char *volume)
{
	json_t *request = volume_request(ctl, volume), *result = NULL;
	struct progress *progress = progress_start(ctl, NULL, ctl->command);
	size_t failed;
	int exit;

	if (request && !volume)
		json_object_set_new(request, "all", json_true());
	exit = ctl_call(ctl, volume, request, NULL, NULL, &result);
	progress_stop(progress);
	if (exit != EXIT_OK)
		return exit;
	if (ctl->json)
		show_json(result, false);
	failed = show_servers(ctl, json_object_get(result, "servers"));
	json_decref(result);
	return failed == 0 ?
		       EXIT_OK :
		       ctl_fail(ctl, EXIT_FAILED, volume,
				"%zu of the servers could not be followed: see the rows", failed);
}

int ctl_upgrade(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { "volume", required_argument, NULL, 'v' },
					       { "all", no_argument, NULL, 'a' },
					       { 0 } };
	const char *volume = NULL;
	bool all = false;
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'v')
			volume = optarg;
		else if (c == 'a')
			all = true;
		else
			return EXIT_USAGE;
	}
	if (optind < argc)
		return ctl_usage(ctl, "an argument too many");
	if (!volume == !all)
		return ctl_usage(ctl, "either --volume ID or --all is needed");
	return upgrade(ctl, volume);
}
