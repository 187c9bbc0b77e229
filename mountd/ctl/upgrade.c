// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/upgrade.h"

#include <getopt.h>
#include <poll.h>
#include <stdio.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
#include "mountd/ctl/volume.h"
#include "mountd/proto.h"

#define SUCCESSOR_MS 30000
#define SUCCESSOR_LOOK_MS 10

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

/* Of the daemon that answers: when it was made; 0: none does. */
static json_int_t started_ms(const struct ctl *ctl)
{
	json_t *result = NULL;
	json_int_t started = 0;

	if (ctl_ask_running(ctl, json_pack("{s:s}", "command", "ping"), &result))
		started = json_integer_value(json_object_get(result, "startedMs"));
	json_decref(result);
	return started;
}

/* Until another daemon answers than the one that was made at @before. */
static bool await_successor(const struct ctl *ctl, json_int_t before)
{
	uint64_t start = clock_now_ms();

	while (clock_now_ms() - start < SUCCESSOR_MS) {
		json_int_t now = started_ms(ctl);

		if (now != 0 && now != before)
			return true;
		/* The old one may answer once more; it has no event for us but its end. */
		poll(NULL, 0, SUCCESSOR_LOOK_MS);
	}
	return false;
}

/* Returns an exit status. */
static int show_daemon(const struct ctl *ctl, const json_t *daemon, json_int_t before)
{
	const char *error = json_string_value(json_object_get(daemon, "error"));

	if (!json_is_object(daemon))
		return EXIT_OK;
	if (error)
		return ctl_fail(ctl, EXIT_FAILED, NULL, "daemon %s stays: %s",
				text_of(daemon, "from"), error);
	if (!await_successor(ctl, before))
		return ctl_fail(ctl, EXIT_FAILED, NULL, "the new daemon does not answer");
	if (!ctl->json)
		printf("daemon %s, now %s\n", text_of(daemon, "from"), text_of(daemon, "to"));
	return EXIT_OK;
}

static int upgrade(const struct ctl *ctl, const char *volume)
{
	json_t *request = volume_request(ctl, volume), *result = NULL;
	struct progress *progress = progress_start(ctl, NULL, ctl->command);
	json_int_t before;
	size_t failed;
	int exit;

	if (request && !volume)
		json_object_set_new(request, "all", json_true());
	/* Starts a daemon where there is none. */
	exit = ctl_call(ctl, volume, json_pack("{s:s}", "command", "ping"), NULL, NULL, &result);
	before = json_integer_value(json_object_get(result, "startedMs"));
	json_decref(result);
	if (exit == EXIT_OK)
		exit = ctl_call(ctl, volume, request, NULL, NULL, &result);
	else
		json_decref(request);
	progress_stop(progress);
	if (exit != EXIT_OK)
		return exit;
	if (ctl->json)
		show_json(result, false);
	failed = show_servers(ctl, json_object_get(result, "servers"));
	exit = show_daemon(ctl, json_object_get(result, "daemon"), before);
	json_decref(result);
	if (failed > 0)
		return ctl_fail(ctl, EXIT_FAILED, volume,
				"%zu of the servers could not be followed: see the rows", failed);
	return exit;
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
