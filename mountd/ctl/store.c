// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/store.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "mountd/ctl/progress.h"
#include "mountd/ctl/show.h"
#include "mountd/proto.h"

/* A request is no longer than this (interface.md); a dump that is makes no request. */
#define DUMP_MAX (16 << 20)

static const char *text_or(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : otherwise;
}

/* Returns EXIT_FAILED where a row says that its action came to nothing. */
static int show_rows(const json_t *rows, bool json, const char *column)
{
	char quoted[1024];
	int exit = EXIT_OK;
	const json_t *row;
	size_t i;

	if (json)
		show_json(rows, false);
	else if (json_array_size(rows) > 0)
		printf("%-34s %-17s %s\n", "VOLUME", "ACTION", column);
	json_array_foreach(rows, i, row) {
		const char *error = text_or(row, "error", NULL);

		if (error)
			exit = EXIT_FAILED;
		if (json)
			continue;
		printf("%-34s %-17s %s", text_or(row, "volume", "-"), text_or(row, "action", "-"),
		       log_quote(text_or(row, "found", ""), quoted, sizeof(quoted)));
		if (error)
			printf(" failed: %s", log_quote(error, quoted, sizeof(quoted)));
		putchar('\n');
	}
	return exit;
}

int ctl_reconstruct(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	json_t *rows = NULL;
	int exit;

	optind = 0;
	if (getopt_long(argc, argv, "", longs, NULL) != -1)
		return EXIT_USAGE;
	if (optind < argc)
		return ctl_usage(ctl, "an argument too many");
	exit = progress_call(ctl, NULL, json_pack("{s:s}", "command", ctl->command), true, &rows);
	if (exit == EXIT_OK && show_rows(rows, ctl->json, "FOUND") != EXIT_OK)
		exit = ctl_fail(ctl, EXIT_FAILED, NULL,
				"not everything could be done: see the rows");
	json_decref(rows);
	return exit;
}

static int store_check_or_dump(const struct ctl *ctl, const char *action)
{
	json_t *result = NULL, *fault;
	size_t i;
	int exit = ctl_call(ctl, action,
			    json_pack("{s:s, s:s}", "command", ctl->command, "action", action),
			    NULL, NULL, &result);

	if (exit != EXIT_OK)
		return exit;
	if (strcmp(action, "dump") == 0) {
		show_json(result, false);
	} else {
		if (ctl->json)
			show_json(result, false);
		json_array_foreach(json_object_get(result, "faults"), i, fault) {
			exit = EXIT_FAILED;
			if (!ctl->json)
				printf("%s: %s\n", text_or(fault, "volume", "?"),
				       text_or(fault, "fault", "?"));
		}
		if (exit == EXIT_OK && !ctl->json)
			printf("ok: schema %lld, %lld volumes\n",
			       (long long)json_integer_value(
				       json_object_get(result, "schemaVersion")),
			       (long long)json_integer_value(json_object_get(result, "volumes")));
		else if (exit != EXIT_OK)
			ctl_fail(ctl, exit, action, "not every record is whole: see above");
	}
	json_decref(result);
	return exit;
}

static int read_dump(const struct ctl *ctl, const char *path, json_t **ret_dump)
{
	AUTO_FD int fd =
		strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *text = malloc(DUMP_MAX);
	json_error_t error;
	ssize_t n;

	if (fd < 0 || !text)
		return ctl_fail(ctl, EXIT_FAILED, path, "%s", strerror(errno));
	n = io_read_all(fd, text, DUMP_MAX);
	if (n < 0)
		return ctl_fail(ctl, EXIT_FAILED, path, "%s", strerror((int)-n));
	if (n == DUMP_MAX)
		return ctl_fail(ctl, EXIT_FAILED, path, "longer than 16 MiB");
	*ret_dump = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
	if (!*ret_dump)
		return ctl_fail(ctl, EXIT_FAILED, path, "invalid JSON at line %d column %d",
				error.line, error.column);
	return EXIT_OK;
}

static int store_restore(const struct ctl *ctl, const char *path)
{
	json_t *dump = NULL, *rows = NULL;
	int exit = read_dump(ctl, path, &dump);

	if (exit != EXIT_OK)
		return exit;
	exit = ctl_call(ctl, path,
			json_pack("{s:s, s:s, s:o}", "command", ctl->command, "action", "restore",
				  "dump", dump),
			NULL, NULL, &rows);
	if (exit == EXIT_OK && show_rows(rows, ctl->json, "") != EXIT_OK)
		exit = ctl_fail(ctl, EXIT_FAILED, path,
				"not every volume was restored: see the rows");
	json_decref(rows);
	return exit;
}

int ctl_store(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	const char *action;
	int count;

	optind = 0;
	if (getopt_long(argc, argv, "", longs, NULL) != -1)
		return EXIT_USAGE;
	count = argc - optind;
	action = count > 0 ? argv[optind] : "";
	if (count == 1 && (strcmp(action, "check") == 0 || strcmp(action, "dump") == 0))
		return store_check_or_dump(ctl, action);
	if (count == 2 && strcmp(action, "restore") == 0)
		return store_restore(ctl, argv[optind + 1]);
	return ctl_usage(ctl, "store check, store dump, or store restore FILE");
}
