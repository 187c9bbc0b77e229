// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/volume.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "mountd/ctl/file.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/proto.h"

/* A volume as it is named in a request: a target made absolute, or an id. NULL: no memory. */
static char *volume_name(const char *argument)
{
	char *absolute = NULL;

	if (!strchr(argument, '/'))
		return strdup(argument);
	return path_absolute(argument, &absolute) < 0 ? NULL : absolute;
}

json_t *volume_request(const struct ctl *ctl, const char *argument)
{
	AUTO_FREE char *name = argument ? volume_name(argument) : NULL;
	json_t *request = json_pack("{s:s}", "command", ctl->command);

	if (name && json_object_set_new(request, "volume", json_string(name)) < 0) {
		json_decref(request);
		return NULL;
	}
	return request;
}

/* The options of these commands; each command says which it takes. */
struct options {
	bool lazy, all;
	const char *state, *timeout, *rate, *objects, *pod;
	const char *argument; /* TARGET|ID, or NULL */
};

static const struct option lazy_option = { "lazy", no_argument, NULL, 'l' };
static const struct option all_option = { "all", no_argument, NULL, 'a' };
static const struct option for_option = { "for", required_argument, NULL, 's' };
static const struct option timeout_option = { "timeout", required_argument, NULL, 't' };
static const struct option rate_option = { "rate", required_argument, NULL, 'r' };
static const struct option objects_option = { "objects", required_argument, NULL, 'o' };
static const struct option pod_option = { "pod", required_argument, NULL, 'p' };

/* EXIT_OK, or EXIT_USAGE after the usage text. Options may stand after the argument. */
static int parse(const struct ctl *ctl, int argc, char **argv, const struct option *longs,
		 struct options *o)
{
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'l':
			o->lazy = true;
			break;
		case 'a':
			o->all = true;
			break;
		case 's':
			o->state = optarg;
			break;
		case 't':
			o->timeout = optarg;
			break;
		case 'r':
			o->rate = optarg;
			break;
		case 'o':
			o->objects = optarg;
			break;
		case 'p':
			o->pod = optarg;
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

/* ---- unmount ---- */

struct drain {
	const struct ctl *ctl;
	struct text_terminal terminal; /* of standard error */
	json_t *rows;
	bool is_drawn;
};

static void drain_clear(struct drain *drain)
{
	if (drain->is_drawn)
		fputs("\r\033[K", stderr);
	drain->is_drawn = false;
}

/* One volume is done: {"volume", "target", "error", "done", "total"}. */
static bool drain_frame(void *arg, json_t *row)
{
	struct drain *drain = arg;
	const char *error = json_string_value(json_object_get(row, "error"));
	const char *id = json_string_value(json_object_get(row, "volume"));
	const char *target = json_string_value(json_object_get(row, "target"));
	json_int_t done = json_integer_value(json_object_get(row, "done"));
	json_int_t total = json_integer_value(json_object_get(row, "total"));
	char shown[512];

	drain_clear(drain);
	if (error && id)
		ctl_fail(drain->ctl, EXIT_FAILED, id, "%s: %s",
			 text_show(target ? target : "-", shown, sizeof(shown)), error);
	json_object_del(row, "done");
	json_object_del(row, "total");
	json_array_append(drain->rows, row);
	if (drain->terminal.is_terminal && total > 1 && done < total) {
		show_bar(total > 0 ? (double)done / (double)total : 1.0, stderr);
		fprintf(stderr, "%lld of %lld volumes", (long long)done, (long long)total);
		fflush(stderr);
		drain->is_drawn = true;
	}
	return true;
}

static int unmount_all(const struct ctl *ctl, json_t *request)
{
	struct drain drain = { .ctl = ctl,
			       .terminal = text_terminal(STDERR_FILENO),
			       .rows = json_array() };
	int exit = ctl_call(ctl, "--all", request, drain_frame, &drain, NULL);

	drain_clear(&drain);
	if (ctl->json)
		show_json(drain.rows, false);
	json_decref(drain.rows);
	return exit;
}

int ctl_unmount(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { lazy_option, all_option, { 0 } };
	struct options o = { 0 };
	json_t *request;

	if (parse(ctl, argc, argv, longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument == !o.all)
		return ctl_usage(ctl, "either TARGET|ID or --all");
	if (o.all && ctl->dry_run)
		return ctl_usage(ctl, "--dry-run is of one volume");
	request = volume_request(ctl, o.argument);
	if (request && o.lazy)
		json_object_set_new(request, "lazy", json_true());
	if (o.argument)
		return ctl_call_plainly(ctl, o.argument, request, !ctl->dry_run);
	if (request)
		json_object_set_new(request, "all", json_true());
	return unmount_all(ctl, request);
}

/* ---- the others ---- */

int ctl_wait(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { for_option, timeout_option, { 0 } };
	struct options o = { 0 };
	uint64_t timeout_ms = 0;
	json_t *request;

	if (parse(ctl, argc, argv, longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument || !o.state)
		return ctl_usage(ctl, "TARGET|ID and --for are needed");
	if (o.timeout && parse_duration(o.timeout, 1000, &timeout_ms) < 0)
		return ctl_usage(ctl, "the time-out is not a time");
	request = volume_request(ctl, o.argument);
	if (request)
		json_object_set_new(request, "for", json_string(o.state));
	if (request && o.timeout)
		json_object_set_new(
			request, "timeoutMs",
			json_integer(
				(json_int_t)(timeout_ms > INT64_MAX ? INT64_MAX : timeout_ms)));
	return ctl_call_plainly(ctl, o.argument, request, true);
}

int ctl_steer(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { { 0 } };
	struct options o = { 0 };

	if (parse(ctl, argc, argv, longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return ctl_usage(ctl, "TARGET|ID is missing");
	return ctl_call_plainly(ctl, o.argument, volume_request(ctl, o.argument), false);
}

int ctl_refresh(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { objects_option, pod_option, { 0 } };
	struct options o = { 0 };
	json_t *request, *objects = NULL, *result = NULL;
	int exit;

	if (parse(ctl, argc, argv, longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return ctl_usage(ctl, "TARGET|ID is missing");
	if (o.objects) {
		exit = ctl_objects_load(ctl, o.argument, o.objects, &objects);
		if (exit != EXIT_OK)
			return exit;
	}
	request = volume_request(ctl, o.argument);
	if (request && objects)
		json_object_set(request, "objects", objects);
	if (request && o.pod)
		json_object_set_new(request, "pod", json_string(o.pod));
	json_decref(objects);
	exit = progress_call(ctl, o.argument, request, false, &result);
	if (exit == EXIT_OK && !ctl_show_plan(ctl, result)) {
		if (ctl->json)
			show_json(result, false);
		else
			puts(json_is_true(json_object_get(result, "changed")) ? "changed" :
										"unchanged");
	}
	json_decref(result);
	return exit;
}

int ctl_converge(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { rate_option, { 0 } };
	struct options o = { 0 };
	uint64_t rate = 0;
	json_t *request;

	if (parse(ctl, argc, argv, longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return ctl_usage(ctl, "TARGET|ID is missing");
	if (o.rate && strcmp(o.rate, "max") != 0 &&
	    (parse_u64(o.rate, &rate) < 0 || rate > INT64_MAX))
		return ctl_usage(ctl, "the rate is neither a number nor max");
	request = volume_request(ctl, o.argument);
	if (request && o.rate)
		json_object_set_new(request, "rate", json_integer((json_int_t)rate));
	return ctl_call_plainly(ctl, o.argument, request, false);
}
