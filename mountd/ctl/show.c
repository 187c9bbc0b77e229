// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/table.h"

#define BAR_WIDTH 30
#define BAR_COLUMNS (BAR_WIDTH + 10) /* with what is around it, and one column to spare */

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

static const char *shown_of(const json_t *object, const char *key, char *ret_text, size_t size)
{
	return text_show(text_of(object, key), ret_text, size);
}

void show_line(const char *before, const char *text)
{
	char shown[4096];

	printf("%s%s\n", before, text_show(text ? text : "-", shown, sizeof(shown)));
}

/* What a state means for whoever looks: all is well, on its way, or it wants somebody. */
static unsigned colour_of(const char *state)
{
	static const struct {
		const char *state;
		unsigned colour;
	} colours[] = {
		/* clang-format off */
		{ "native", 32 },
		{ "virtual", 32 },
		{ "staged", 32 },
		{ "converged", 36 },
		{ "converging", 36 },
		{ "presented", 36 },
		{ "setting-up", 33 },
		{ "tearing-down", 33 },
		{ "absent", 31 },
		{ "failed", 31 },
		/* clang-format on */
	};

	for (size_t i = 0; i < ARRAY_SIZE(colours); i++) {
		if (strcmp(state, colours[i].state) == 0)
			return colours[i].colour;
	}
	return 0;
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
	char path[4096], message[256];
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(status, "failures"), i, item)
		printf("  failure     %s: %s\n", shown_of(item, "path", path, sizeof(path)),
		       shown_of(item, "message", message, sizeof(message)));
}

static void show_device(const json_t *device)
{
	char text[4096];

	printf("  device      %s\n", shown_of(device, "path", text, sizeof(text)));
	printf("  staged at   %s\n", shown_of(device, "stagingPath", text, sizeof(text)));
	printf("  identity    %s\n", shown_of(device, "identity", text, sizeof(text)));
	printf("  consumers   %zu\n", json_array_size(json_object_get(device, "consumers")));
}

static void show_server(const json_t *server)
{
	const char *no_failover = json_string_value(json_object_get(server, "noFailover"));

	printf("  server      pid %lld, version %s, %lld restarts, data %s%s\n",
	       number_of(server, "pid"), text_of(server, "version"), number_of(server, "restarts"),
	       text_of(server, "dataPath"),
	       strcmp(text_of(server, "transport"), "io_uring") == 0 ? ", over io_uring" : "");
	if (no_failover)
		printf("              its death ends the mount: %s\n", no_failover);
}

void show_status(const json_t *status, const struct text_terminal *terminal)
{
	const json_t *gid = json_object_get(status, "fsGroup");
	const json_t *server = json_object_get(status, "server");
	const char *state = text_of(status, "state");
	unsigned colour = terminal->has_colours ? colour_of(state) : 0;
	char text[4096];

	printf("%s\n  state       ", text_of(status, "id"));
	if (colour)
		printf("\033[%um%s\033[0m", colour, state);
	else
		fputs(state, stdout);
	if (json_is_string(json_object_get(status, "reason")))
		printf(" (%s)", shown_of(status, "reason", text, sizeof(text)));
	printf("\n  plugin      %s\n", text_of(status, "plugin"));
	printf("  target      %s\n", shown_of(status, "target", text, sizeof(text)));
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
		show_server(server);
	show_failures(status);
}

static int add_volume(struct table *table, const json_t *status)
{
	enum { ID, PLUGIN, GROUP, STATE, DONE, TARGET, REASON, COUNT };
	const json_t *gid = json_object_get(status, "fsGroup");
	const json_t *progress = json_object_get(status, "progress");
	const char *texts[COUNT] = { 0 };
	char group[24] = "-", done[8] = "-";

	if (json_is_integer(gid))
		snprintf(group, sizeof(group), "%lld", (long long)json_integer_value(gid));
	if (json_is_number(progress))
		snprintf(done, sizeof(done), "%d%%", (int)(json_number_value(progress) * 100));
	texts[ID] = text_of(status, "id");
	texts[PLUGIN] = text_of(status, "plugin");
	texts[GROUP] = group;
	texts[STATE] = text_of(status, "state");
	texts[DONE] = done;
	texts[TARGET] = text_of(status, "target");
	texts[REASON] = json_string_value(json_object_get(status, "reason"));
	if (!texts[REASON])
		texts[REASON] = "";
	return table_add(table, texts, STATE, colour_of(texts[STATE]));
}

size_t show_list(const json_t *list, const struct text_terminal *terminal, size_t lines)
{
	static const struct table_column columns[] = {
		/* clang-format off */
		{ "ID", 8 },
		{ "PLUGIN", 6 },
		{ "GROUP", 0 },
		{ "STATE", 0 },
		{ "DONE", 0 },
		{ "TARGET", 12 },
		{ "REASON", 6 },
		{ NULL, 0 },
		/* clang-format on */
	};
	AUTO(table) *table = table_new(columns);
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		if (!table || add_volume(table, item) < 0) {
			fputs("fsgroupctl: no memory\n", stderr);
			return 0;
		}
	}
	return table_print(table, terminal->columns, lines, terminal->has_colours, stdout);
}

void show_bar(double part, FILE *out)
{
	int full = (int)(part * BAR_WIDTH);

	putc('[', out);
	for (int i = 0; i < BAR_WIDTH; i++)
		putc(i < full ? '#' : '-', out);
	fprintf(out, "] %3d%%  ", (int)(part * 100));
}

void show_progress(const json_t *status, const struct text_terminal *terminal, FILE *out)
{
	const json_t *progress = json_object_get(status, "progress");
	const json_t *eta = json_object_get(status, "etaSeconds");
	bool is_terminal = terminal->is_terminal;
	char text[1024] = "", reason[512];
	int used;

	used = snprintf(text, sizeof(text), "%s, %lld entries", text_of(status, "state"),
			number_of(json_object_get(status, "entries"), "seen"));
	if (number_of(status, "ratePerSecond") > 0)
		used += snprintf(text + used, sizeof(text) - (size_t)used, ", %lld/s",
				 number_of(status, "ratePerSecond"));
	if (json_is_integer(eta))
		used += snprintf(text + used, sizeof(text) - (size_t)used, ", %lld s left",
				 (long long)json_integer_value(eta));
	if (json_is_string(json_object_get(status, "reason")))
		snprintf(text + used, sizeof(text) - (size_t)used, " (%s)",
			 shown_of(status, "reason", reason, sizeof(reason)));
	if (is_terminal)
		fputs("\r\033[K", out);
	if (json_is_number(progress) && is_terminal)
		show_bar(json_number_value(progress), out);
	else if (json_is_number(progress))
		fprintf(out, "%d%% ", (int)(json_number_value(progress) * 100));
	/* A line that wraps could not be drawn over. */
	if (is_terminal && terminal->columns > BAR_COLUMNS)
		text_fit(text, terminal->columns - BAR_COLUMNS);
	fputs(text, out);
	if (!is_terminal)
		putc('\n', out);
	fflush(out);
}

void show_event(const json_t *event)
{
	char message[4096];

	printf("%s %s %s %s\n", text_of(event, "at"), text_of(event, "volume"),
	       text_of(event, "kind"), shown_of(event, "message", message, sizeof(message)));
}
