// SPDX-License-Identifier: Apache-2.0
/*
 * fsgroupctl: the command line of the volume manager (interface.md). Each command is a row of a table;
 * it makes one request and shows what comes back.
 */
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/ctl/call.h"
#include "mountd/ctl/complete.h"
#include "mountd/ctl/config.h"
#include "mountd/ctl/doctor.h"
#include "mountd/ctl/explain.h"
#include "mountd/ctl/help.h"
#include "mountd/ctl/install.h"
#include "mountd/ctl/mount.h"
#include "mountd/ctl/stage.h"
#include "mountd/ctl/status.h"
#include "mountd/ctl/store.h"
#include "mountd/ctl/upgrade.h"
#include "mountd/ctl/volume.h"
#include "mountd/proto.h"

static int run_help(const struct ctl *ctl, int argc, char **argv)
{
	const struct command_help *help = argc > 1 ? help_find(argv[1]) : NULL;

	if (argc > 2)
		return ctl_usage(ctl, "an argument too many");
	if (argc > 1 && !help)
		return ctl_usage(ctl, "no such command");
	if (help)
		help_command(help);
	else
		help_all();
	return EXIT_OK;
}

static const struct {
	const char *name;
	int (*run)(const struct ctl *ctl, int argc, char **argv);
} commands[] = {
	/* clang-format off */
	{ "mount", ctl_mount },
	{ "unmount", ctl_unmount },
	{ "status", ctl_status },
	{ "list", ctl_list },
	{ "wait", ctl_wait },
	{ "pause", ctl_steer },
	{ "resume", ctl_steer },
	{ "converge", ctl_converge },
	{ "events", ctl_events },
	{ "stage", ctl_stage },
	{ "unstage", ctl_unstage },
	{ "refresh", ctl_refresh },
	{ "update", ctl_update },
	{ "explain", ctl_explain },
	{ "doctor", ctl_doctor },
	{ "config", ctl_config },
	{ "metrics", ctl_metrics },
	{ "install-flexvolume", ctl_install_flexvolume },
	{ "reconstruct", ctl_reconstruct },
	{ "store", ctl_store },
	{ "recover", ctl_steer },
	{ "upgrade", ctl_upgrade },
	{ "completion", ctl_completion },
	{ "help", run_help },
	/* clang-format on */
};

/*
 * Takes the options that mean the same to every command that has them out of its arguments. Returns whether help is
 * asked for instead.
 */
static bool take_common(struct ctl *ctl, const char *usage, int *io_argc, char **argv)
{
	int kept = 1;

	for (int i = 1; i < *io_argc; i++) {
		bool is_value = complete_takes_value(usage, argv[i - 1]);

		if (!is_value && strcmp(argv[i], "--") == 0) {
			while (i < *io_argc)
				argv[kept++] = argv[i++];
			break;
		}
		if (!is_value && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
			return true;
		if (!is_value && strcmp(argv[i], "--json") == 0 &&
		    complete_has_option(usage, argv[i]))
			ctl->json = true;
		else if (!is_value && strcmp(argv[i], "--dry-run") == 0 &&
			 complete_has_option(usage, argv[i]))
			ctl->dry_run = true;
		else
			argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	*io_argc = kept;
	return false;
}

static int run_command(struct ctl *ctl, int argc, char **argv)
{
	const struct command_help *help = help_find(argv[0]);
	char name[64], quoted[64];

	ctl->command = argv[0];
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[0], commands[i].name) != 0)
			continue;
		if (help && take_common(ctl, help->usage, &argc, argv)) {
			help_command(help);
			return EXIT_OK;
		}
		/* What getopt begins its own messages with. */
		snprintf(name, sizeof(name), "fsgroupctl: %s", commands[i].name);
		argv[0] = name;
		return commands[i].run(ctl, argc, argv);
	}
	ctl->command = log_quote(argv[0], quoted, sizeof(quoted));
	return ctl_usage(ctl, "unknown command");
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
	setlocale(LC_CTYPE, "");
	if (!ctl.root || !*ctl.root)
		ctl.root = "/";
	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) != -1) {
		switch (c) {
		case 'r':
			ctl.root = optarg;
			break;
		case 'h':
			help_all();
			return EXIT_OK;
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
