// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/log.h"

#define BAR_WIDTH 30

void show_json(const json_t *value, bool one_line)
{
	char *text =
		json_dumps(value, JSON_ENCODE_ANY | (one_line ? JSON_COMPACT : JSON_INDENT(2)));

	if (text)
		puts(text);
	fflush(stdout);
	free(text);
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

/* Spaces may stay in a reason of ours; what moves a cursor may not. */
static void print_text(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void show_entries(const json_t *status)
{
	const json_t *entries = json_object_get(status, "entries");
	const json_t *progress = json_object_get(status, "progress");

	printf("  entries     %lld seen, %lld changed, %lld right already, %lld excluded, %lld failed\n",
	       number_of(entries, "seen"), number_of(entries, "changed"),
	       number_of(entries, "correct"), number_of(entries, "excluded"),
	       number_of(entries, "failed"));
	if (json_is_number(progress))
		printf("  progress    %d%%\n", (int)(json_number_value(progress) * 100));
}

static void show_failures(const json_t *status)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(status, "failures"), i, item)
		printf("  failure     %s: %s\n", text_of(item, "path"), text_of(item, "message"));
}

static void show_device(const json_t *device)
{
	char quoted[4096];

	printf("  device      %s\n", log_quote(text_of(device, "path"), quoted, sizeof(quoted)));
	printf("  staged at   %s\n",
	       log_quote(text_of(device, "stagingPath"), quoted, sizeof(quoted)));
	printf("  identity    %s\n",
	       log_quote(text_of(device, "identity"), quoted, sizeof(quoted)));
	printf("  consumers   %zu\n", json_array_size(json_object_get(device, "consumers")));
}

void show_status(const json_t *status)
{
	const json_t *gid = json_object_get(status, "fsGroup");
	const json_t *server = json_object_get(status, "server");
	char quoted[4096];

	printf("%s\n  state       %s", text_of(status, "id"), text_of(status, "state"));
	if (json_is_string(json_object_get(status, "reason"))) {
		printf(" (");
		print_text(text_of(status, "reason"));
		printf(")");
	}
	printf("\n  plugin      %s\n", text_of(status, "plugin"));
	printf("  target      %s\n", log_quote(text_of(status, "target"), quoted, sizeof(quoted)));
	if (json_is_integer(gid))
		printf("  fsGroup     %lld (policy %s, ownership %s%s)\n",
		       (long long)json_integer_value(gid), text_of(status, "policy"),
		       text_of(status, "ownership"),
		       json_is_true(json_object_get(status, "readOnly")) ? ", read-only" : "");
	else
		printf("  fsGroup     unset%s\n",
		       json_is_true(json_object_get(status, "readOnly")) ? " (read-only)" : "");
	if (json_is_object(json_object_get(status, "device")))
		show_device(json_object_get(status, "device"));
	if (json_is_integer(gid))
		show_entries(status);
	if (json_is_object(server))
		printf("  server      pid %lld, %lld restarts, data %s\n", number_of(server, "pid"),
		       number_of(server, "restarts"), text_of(server, "dataPath"));
	show_failures(status);
}

void show_list(const json_t *list)
{
	const json_t *item;
	char quoted[4096];
	size_t i;

	printf("%-34s %-10s %-12s %s\n", "ID", "PLUGIN", "STATE", "TARGET");
	json_array_foreach(list, i, item)
		printf("%-34s %-10s %-12s %s\n", text_of(item, "id"), text_of(item, "plugin"),
		       text_of(item, "state"),
		       log_quote(text_of(item, "target"), quoted, sizeof(quoted)));
}

static void draw_bar(double part)
{
	int full = (int)(part * BAR_WIDTH);

	putchar('[');
	for (int i = 0; i < BAR_WIDTH; i++)
		putchar(i < full ? '#' : '-');
	printf("] %3d%%  ", (int)(part * 100));
}

void show_progress(const json_t *status, bool is_terminal)
{
	const json_t *progress = json_object_get(status, "progress");
	const json_t *eta = json_object_get(status, "etaSeconds");

	if (is_terminal)
		printf("\r\033[K");
	if (json_is_number(progress) && is_terminal)
		draw_bar(json_number_value(progress));
	else if (json_is_number(progress))
		printf("%d%% ", (int)(json_number_value(progress) * 100));
	printf("%s, %lld entries", text_of(status, "state"),
	       number_of(json_object_get(status, "entries"), "seen"));
	if (number_of(status, "ratePerSecond") > 0)
		printf(", %lld/s", number_of(status, "ratePerSecond"));
	if (json_is_integer(eta))
		printf(", %lld s left", (long long)json_integer_value(eta));
	if (json_is_string(json_object_get(status, "reason"))) {
		printf(" (");
		print_text(text_of(status, "reason"));
		printf(")");
	}
	if (!is_terminal)
		putchar('\n');
	fflush(stdout);
}

void show_event(const json_t *event)
{
	printf("%s %s %s ", text_of(event, "at"), text_of(event, "volume"), text_of(event, "kind"));
	print_text(text_of(event, "message"));
	putchar('\n');
}
