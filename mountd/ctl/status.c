// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/status.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/show.h"
#include "mountd/ctl/volume.h"
#include "mountd/proto.h"

struct options {
	bool watch, follow;
	const char *argument; /* TARGET|ID, or NULL */
};

static const struct option watch_option = { "watch", no_argument, NULL, 'w' };
static const struct option follow_option = { "follow", no_argument, NULL, 'f' };

static int parse(const struct ctl *ctl, int argc, char **argv, const char *shorts,
		 const struct option *longs, struct options *o)
{
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		switch (c) {
		case 'w':
			o->watch = true;
			break;
		case 'f':
			o->follow = true;
			break;
		default:
			return EXIT_USAGE; /* getopt has said why */
		}
	}
	if (argc - optind > 1)
		return ctl_usage(ctl, "an argument too many");
	o->argument = argv[optind];
	return EXIT_OK;
}

/* ---- status ---- */

struct watch {
	bool json;
	struct text_terminal terminal;
	size_t lines; /* of the last frame, which the next one takes the place of */
};

/* Nothing more will come of itself. */
static bool is_final(const json_t *status)
{
	static const char *const final[] = { "native", "virtual", "failed", "absent" };
	const char *state = json_string_value(json_object_get(status, "state"));

	for (size_t i = 0; state && i < ARRAY_SIZE(final); i++) {
		if (strcmp(state, final[i]) == 0)
			return true;
	}
	return state && strcmp(state, "converged") == 0 &&
	       json_is_string(json_object_get(status, "reason"));
}

static void watch_list(struct watch *watch, const json_t *list)
{
	struct text_terminal terminal = text_terminal(STDOUT_FILENO); /* it may have been resized */

	if (terminal.is_terminal && watch->lines > 0)
		printf("\033[%zuA\033[J", watch->lines);
	/* The cursor's own line is below. */
	watch->lines = show_list(list, &terminal, terminal.lines > 1 ? terminal.lines - 1 : 0);
	fflush(stdout);
}

static bool watch_frame(void *arg, json_t *result)
{
	struct watch *watch = arg;

	if (watch->json)
		show_json(result, true);
	else if (json_is_array(result))
		watch_list(watch, result);
	else
		show_progress(result, &watch->terminal, stdout);
	return !json_is_object(result) || !is_final(result);
}

int ctl_status(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { watch_option, { 0 } };
	struct options o = { 0 };
	struct watch watch = { .json = ctl->json, .terminal = text_terminal(STDOUT_FILENO) };
	json_t *request, *result = NULL;
	int exit;

	if (parse(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	request = volume_request(ctl, o.argument);
	if (request && o.watch)
		json_object_set_new(request, "watch", json_true());
	exit = ctl_call(ctl, o.argument, request, o.watch ? watch_frame : NULL, &watch, &result);
	if (o.watch && o.argument && !ctl->json && watch.terminal.is_terminal)
		putchar('\n');
	if (result && ctl->json)
		show_json(result, false);
	else if (json_is_array(result))
		show_list(result, &watch.terminal, 0);
	else if (result)
		show_status(result, &watch.terminal);
	json_decref(result);
	return exit;
}

/* A command without options and arguments: its answer, or why it has none. */
static int ask(const struct ctl *ctl, int argc, char **argv, json_t **ret_result)
{
	const struct option longs[] = { { 0 } };
	struct options o = { 0 };

	if (parse(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (o.argument)
		return ctl_usage(ctl, "an argument too many");
	return ctl_call(ctl, NULL, volume_request(ctl, NULL), NULL, NULL, ret_result);
}

int ctl_list(const struct ctl *ctl, int argc, char **argv)
{
	const struct text_terminal terminal = text_terminal(STDOUT_FILENO);
	json_t *result = NULL;
	int exit = ask(ctl, argc, argv, &result);

	if (result && ctl->json)
		show_json(result, false);
	else if (result)
		show_list(result, &terminal, 0);
	json_decref(result);
	return exit;
}

/* ---- events ---- */

static bool events_frame(void *arg, json_t *result)
{
	const bool *json = arg;
	json_t *item;
	size_t i;

	json_array_foreach(result, i, item) {
		if (*json)
			show_json(item, true);
		else
			show_event(item);
	}
	fflush(stdout);
	return true;
}

int ctl_events(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { follow_option, { 0 } };
	struct options o = { 0 };
	bool json = ctl->json;
	json_t *request, *result = NULL;
	int exit;

	if (parse(ctl, argc, argv, "f", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (o.argument)
		return ctl_usage(ctl, "an argument too many");
	request = volume_request(ctl, NULL);
	if (request && o.follow)
		json_object_set_new(request, "follow", json_true());
	exit = ctl_call(ctl, NULL, request, events_frame, &json, &result);
	if (result)
		events_frame(&json, result);
	json_decref(result);
	return exit;
}

/* ---- metrics ---- */

int ctl_metrics(const struct ctl *ctl, int argc, char **argv)
{
	json_t *result = NULL;
	int exit = ask(ctl, argc, argv, &result);

	if (result && ctl->json)
		show_json(result, false);
	else if (json_is_string(result))
		fputs(json_string_value(result), stdout);
	json_decref(result);
	return exit;
}
