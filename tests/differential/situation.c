// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/situation.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/process.h"

enum { DEPTH_MAX = 4, FILE_BYTES = 8192 };

static void print_lines(FILE *out, const char *before, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (len > 0)
			fprintf(out, "# %s%.*s\n", before, (int)len, text);
		text += len + (text[len] == '\n');
	}
}

void situation_print_text(FILE *out, const char *text)
{
	print_lines(out, "", text);
}

static void print_file(FILE *out, pid_t pid, pid_t tid, const char *name)
{
	char text[FILE_BYTES], before[64];

	snprintf(before, sizeof(before), "  %d/%d %s: ", (int)pid, (int)tid, name);
	if (process_read(pid, tid, name, text, sizeof(text)))
		print_lines(out, before, text);
}

static void print_thread(FILE *out, pid_t pid, pid_t tid)
{
	static const char *const names[] = { "syscall", "wchan", "stack" };
	char name[64];

	if (!process_read(pid, tid, "comm", name, sizeof(name)))
		return;
	name[strcspn(name, "\n")] = '\0';
	fprintf(out, "# %d/%d %s: %c%s\n", (int)pid, (int)tid, name, process_state(pid, tid),
		pid == tid && process_is_killed(pid) ? ", killed" : "");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		print_file(out, pid, tid, names[i]);
}

static void print_below(FILE *out, pid_t pid, int depth);

/* Whose parent is the thread. */
static void print_children(FILE *out, pid_t pid, pid_t tid, int depth)
{
	char text[FILE_BYTES], *at = text, *end;

	if (depth >= DEPTH_MAX || !process_read(pid, tid, "children", text, sizeof(text)))
		return;
	for (long child; (child = strtol(at, &end, 10)) > 0; at = end)
		print_below(out, (pid_t)child, depth + 1);
}

static void print_below(FILE *out, pid_t pid, int depth)
{
	char path[64];
	struct dirent *entry;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		print_thread(out, pid, tid);
		print_children(out, pid, tid, depth);
	}
	if (threads)
		closedir(threads);
}

void situation_print(FILE *out, pid_t pid)
{
	print_below(out, pid, 0);
}
