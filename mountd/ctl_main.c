// SPDX-License-Identifier: Apache-2.0
/*
 * fsgroupctl: the command line of the volume manager (interface.md). Each command is a row of a table;
 * it makes one request and shows what comes back.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/ctl_call.h"
#include "mountd/ctl_file.h"
#include "mountd/ctl_install.h"
#include "mountd/ctl_mount.h"
#include "mountd/ctl_show.h"
#include "mountd/ctl_stage.h"
#include "mountd/ctl_store.h"
#include "mountd/path.h"
#include "mountd/proto.h"

static int help(void)
{
	puts("usage: fsgroupctl [--root DIR] COMMAND\n"
	     "  mount    --plugin NAME [--source S] | --spec FILE | --staged ID\n"
	     "           [--objects FILE|DIR] [--pod NS/NAME]\n"
	     "           --target DIR [--fsgroup GID]\n"
	     "           [--policy Always|OnRootMismatch|RootOnly] [--ownership converge|virtual|none]\n"
	     "           [--exclude PATTERN]... [--keep-private] [--read-only] [--converge-rate N]\n"
	     "           [--handoff yes|no|namespaces] [--settle MS] [--conflict refuse|virtual]\n"
	     "           [--coherence exclusive|shared] [--persist] [--volume-id ID]\n"
	     "  unmount  TARGET|ID [--lazy] | --all\n"
	     "  stage    --spec FILE --device PATH [--format] [--fs-type T] [--mount-options O]\n"
	     "           [--staging DIR] [--volume-id ID]\n"
	     "  unstage  ID|DIR\n"
	     "  refresh  TARGET|ID [--objects FILE|DIR] [--pod NS/NAME]\n"
	     "  update   TARGET|ID [--fsgroup GID] [--policy P] [--exclude PATTERN]... [--converge-rate N]\n"
	     "           [--spec FILE]\n"
	     "  status   [TARGET|ID] [--json] [--watch]\n"
	     "  list     [--json]\n"
	     "  wait     TARGET|ID --for presented|converged|native [--timeout SECONDS]\n"
	     "  pause    TARGET|ID\n"
	     "  resume   TARGET|ID\n"
	     "  recover  TARGET|ID\n"
	     "  converge TARGET|ID [--rate N|max]\n"
	     "  events   [-f] [--json]\n"
	     "  install-flexvolume DIR\n"
	     "  reconstruct [--dry-run] [--json]\n"
	     "  store    check | dump | restore FILE\n"
	     "A TARGET has a '/' in it; what has none is an ID.");
	return EXIT_OK;
}

/* One line, and where to read more. */
static int usage(const struct ctl *ctl, const char *what)
{
	return ctl_fail(ctl, EXIT_USAGE, NULL, "%s (fsgroupctl --help says more)", what);
}

/* A volume as it is named in a request: a target made absolute, or an id. NULL: no memory. */
static char *volume_name(const char *argument)
{
	char *absolute = NULL;

	if (!strchr(argument, '/'))
		return strdup(argument);
	return path_absolute(argument, &absolute) < 0 ? NULL : absolute;
}

static json_t *request_new(const struct ctl *ctl, const char *argument)
{
	AUTO_FREE char *name = argument ? volume_name(argument) : NULL;
	json_t *request = json_pack("{s:s}", "command", ctl->command);

	if (name && json_object_set_new(request, "volume", json_string(name)) < 0) {
		json_decref(request);
		return NULL;
	}
	return request;
}

/* The options of the small commands; each command says which it takes. */
struct small_options {
	bool json, watch, follow, lazy, all;
	const char *state, *timeout, *rate, *objects, *pod;
	const char *argument; /* TARGET|ID, or NULL */
};

static const struct option json_option = { "json", no_argument, NULL, 'j' };
static const struct option watch_option = { "watch", no_argument, NULL, 'w' };
static const struct option lazy_option = { "lazy", no_argument, NULL, 'l' };
static const struct option all_option = { "all", no_argument, NULL, 'a' };
static const struct option follow_option = { "follow", no_argument, NULL, 'f' };
static const struct option for_option = { "for", required_argument, NULL, 's' };
static const struct option timeout_option = { "timeout", required_argument, NULL, 't' };
static const struct option rate_option = { "rate", required_argument, NULL, 'r' };
static const struct option objects_option = { "objects", required_argument, NULL, 'o' };
static const struct option pod_option = { "pod", required_argument, NULL, 'p' };

/* EXIT_OK, or EXIT_USAGE after the usage text. Options may stand after the argument. */
static int parse_small(const struct ctl *ctl, int argc, char **argv, const char *shorts,
		       const struct option *longs, struct small_options *o)
{
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		switch (c) {
		case 'j':
			o->json = true;
			break;
		case 'w':
			o->watch = true;
			break;
		case 'f':
			o->follow = true;
			break;
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
		return usage(ctl, "an argument too many");
	o->argument = argv[optind];
	return EXIT_OK;
}

static int run_unmount(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { lazy_option, all_option, { 0 } };
	struct small_options o = { 0 };
	json_t *request;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument == !o.all)
		return usage(ctl, "either TARGET|ID or --all");
	request = request_new(ctl, o.argument);
	if (request && o.lazy)
		json_object_set_new(request, "lazy", json_true());
	if (request && o.all)
		json_object_set_new(request, "all", json_true());
	return ctl_call(ctl, o.argument ? o.argument : "--all", request, NULL, NULL, NULL);
}

struct watch {
	bool json, is_terminal;
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

static bool watch_frame(void *arg, json_t *result)
{
	const struct watch *watch = arg;

	if (watch->json)
		show_json(result, true);
	else if (json_is_array(result))
		show_list(result);
	else
		show_progress(result, watch->is_terminal);
	return !json_is_object(result) || !is_final(result);
}

static int run_status(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { json_option, watch_option, { 0 } };
	struct small_options o = { 0 };
	struct watch watch = { .is_terminal = isatty(STDOUT_FILENO) };
	json_t *request, *result = NULL;
	int exit;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	request = request_new(ctl, o.argument);
	watch.json = o.json;
	if (request && o.watch)
		json_object_set_new(request, "watch", json_true());
	exit = ctl_call(ctl, o.argument, request, o.watch ? watch_frame : NULL, &watch, &result);
	if (o.watch && !o.json && watch.is_terminal)
		putchar('\n');
	if (result && o.json)
		show_json(result, false);
	else if (json_is_array(result))
		show_list(result);
	else if (result)
		show_status(result);
	json_decref(result);
	return exit;
}

static int run_list(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { json_option, { 0 } };
	struct small_options o = { 0 };
	json_t *result = NULL;
	int exit;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (o.argument)
		return usage(ctl, "an argument too many");
	exit = ctl_call(ctl, NULL, request_new(ctl, NULL), NULL, NULL, &result);
	if (result && o.json)
		show_json(result, false);
	else if (result)
		show_list(result);
	json_decref(result);
	return exit;
}

static int run_wait(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { for_option, timeout_option, { 0 } };
	struct small_options o = { 0 };
	uint64_t timeout_ms = 0;
	json_t *request;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument || !o.state)
		return usage(ctl, "TARGET|ID and --for are needed");
	if (o.timeout && parse_duration(o.timeout, 1000, &timeout_ms) < 0)
		return usage(ctl, "the time-out is not a time");
	request = request_new(ctl, o.argument);
	if (request)
		json_object_set_new(request, "for", json_string(o.state));
	if (request && o.timeout)
		json_object_set_new(
			request, "timeoutMs",
			json_integer(
				(json_int_t)(timeout_ms > INT64_MAX ? INT64_MAX : timeout_ms)));
	return ctl_call(ctl, o.argument, request, NULL, NULL, NULL);
}

/* pause, resume and recover */
static int run_named(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { { 0 } };
	struct small_options o = { 0 };

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return usage(ctl, "TARGET|ID is missing");
	return ctl_call(ctl, o.argument, request_new(ctl, o.argument), NULL, NULL, NULL);
}

static int run_refresh(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { objects_option, pod_option, { 0 } };
	struct small_options o = { 0 };
	json_t *request, *objects = NULL, *result = NULL;
	int exit;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return usage(ctl, "TARGET|ID is missing");
	if (o.objects) {
		exit = ctl_objects_load(ctl, o.argument, o.objects, &objects);
		if (exit != EXIT_OK)
			return exit;
	}
	request = request_new(ctl, o.argument);
	if (request && objects)
		json_object_set(request, "objects", objects);
	if (request && o.pod)
		json_object_set_new(request, "pod", json_string(o.pod));
	json_decref(objects);
	exit = ctl_call(ctl, o.argument, request, NULL, NULL, &result);
	if (exit == EXIT_OK)
		puts(json_is_true(json_object_get(result, "changed")) ? "changed" : "unchanged");
	json_decref(result);
	return exit;
}

static int run_converge(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { rate_option, { 0 } };
	struct small_options o = { 0 };
	uint64_t rate = 0;
	json_t *request;

	if (parse_small(ctl, argc, argv, "", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (!o.argument)
		return usage(ctl, "TARGET|ID is missing");
	if (o.rate && strcmp(o.rate, "max") != 0 &&
	    (parse_u64(o.rate, &rate) < 0 || rate > INT64_MAX))
		return usage(ctl, "the rate is neither a number nor max");
	request = request_new(ctl, o.argument);
	if (request && o.rate)
		json_object_set_new(request, "rate", json_integer((json_int_t)rate));
	return ctl_call(ctl, o.argument, request, NULL, NULL, NULL);
}

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

static int run_events(const struct ctl *ctl, int argc, char **argv)
{
	const struct option longs[] = { json_option, follow_option, { 0 } };
	struct small_options o = { 0 };
	json_t *request, *result = NULL;
	int exit;

	if (parse_small(ctl, argc, argv, "f", longs, &o) != EXIT_OK)
		return EXIT_USAGE;
	if (o.argument)
		return usage(ctl, "an argument too many");
	request = request_new(ctl, NULL);
	if (request && o.follow)
		json_object_set_new(request, "follow", json_true());
	exit = ctl_call(ctl, NULL, request, events_frame, &o.json, &result);
	if (result)
		events_frame(&o.json, result);
	json_decref(result);
	return exit;
}

static const struct {
	const char *name;
	int (*run)(const struct ctl *ctl, int argc, char **argv); /* NULL: not built yet */
} commands[] = {
	/* clang-format off */
	{ "mount", ctl_mount },
	{ "unmount", run_unmount },
	{ "status", run_status },
	{ "list", run_list },
	{ "wait", run_wait },
	{ "pause", run_named },
	{ "resume", run_named },
	{ "converge", run_converge },
	{ "events", run_events },
	{ "stage", ctl_stage },
	{ "unstage", ctl_unstage },
	{ "refresh", run_refresh },
	{ "update", ctl_update },
	{ "explain", NULL },
	{ "doctor", NULL },
	{ "config", NULL },
	{ "metrics", NULL },
	{ "install-flexvolume", ctl_install_flexvolume },
	{ "reconstruct", ctl_reconstruct },
	{ "store", ctl_store },
	{ "recover", run_named },
	{ "upgrade", NULL },
	/* clang-format on */
};

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	char name[64], quoted[64];

	ctl->command = argv[0];
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[0], commands[i].name) != 0)
			continue;
		if (!commands[i].run)
			return ctl_fail(ctl, EXIT_FAILED, NULL, "not built yet");
		/* What getopt begins its own messages with. */
		snprintf(name, sizeof(name), "fsgroupctl: %s", commands[i].name);
		argv[0] = name;
		return commands[i].run(ctl, argc, argv);
	}
	ctl->command = log_quote(argv[0], quoted, sizeof(quoted));
	return usage(ctl, "unknown command");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct ctl ctl = { .root = getenv("FSGROUPFS_ROOT") };
	int c;

	proto_wipe_json();
	signal(SIGPIPE, SIG_DFL);
	if (!ctl.root || !*ctl.root)
		ctl.root = "/";
	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) != -1) {
		switch (c) {
		case 'r':
			ctl.root = optarg;
			break;
		case 'h':
			return help();
		default:
			return EXIT_USAGE;
		}
	}
	if (optind == argc) {
		fputs("fsgroupctl: a command is missing (fsgroupctl --help lists them)\n", stderr);
		return EXIT_USAGE;
	}
	return run_command(&ctl, argc - optind, argv + optind);
}
