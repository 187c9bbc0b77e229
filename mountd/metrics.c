// SPDX-License-Identifier: Apache-2.0
/* metrics: the figures of the volumes and of the daemon itself, as text for Prometheus (meters.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "mountd/manager_impl.h"
#include "mountd/meters.h"
#include "mountd/path.h"

/* A volume, and what its overlay says of it. */
struct figures {
	const struct volume_record *vol;
	struct overlay_status status;
	struct run_counters counters;
	bool has_overlay;
};

/* ---- families with a figure a volume ---- */

static uint64_t seen_of(const struct figures *f)
{
	return f->counters.seen;
}

static uint64_t changed_of(const struct figures *f)
{
	return f->counters.changed;
}

static uint64_t correct_of(const struct figures *f)
{
	return f->counters.correct;
}

static uint64_t excluded_of(const struct figures *f)
{
	return f->counters.excluded;
}

static uint64_t failed_of(const struct figures *f)
{
	return f->counters.failed;
}

static const struct {
	const char *kind;
	uint64_t (*get)(const struct figures *f);
} entry_kinds[] = {
	{ "seen", seen_of },	     { "changed", changed_of }, { "correct", correct_of },
	{ "excluded", excluded_of }, { "failed", failed_of },
};

static uint64_t rate_of(const struct figures *f)
{
	return f->vol->state == VOLUME_CONVERGING ? f->status.rate : 0;
}

static uint64_t total_of(const struct figures *f)
{
	return f->status.total;
}

static uint64_t restarts_of(const struct figures *f)
{
	return f->status.restarts;
}

static uint64_t passthrough_of(const struct figures *f)
{
	return f->status.passthrough;
}

static uint64_t failures_of(const struct figures *f)
{
	return f->status.failures_total;
}

/* Of volumes that have an overlay. */
static const struct {
	const char *name, *type, *help;
	uint64_t (*get)(const struct figures *f);
} overlay_families[] = {
	{ "fsgroupfs_volume_entries_expected", "gauge",
	  "Entries that the walk will see; 0: unknown", total_of },
	{ "fsgroupfs_volume_entries_per_second", "gauge", "What the walk does now", rate_of },
	{ "fsgroupfs_volume_failures", "gauge", "Entries that cannot be changed", failures_of },
	{ "fsgroupfs_volume_server_restarts_total", "counter",
	  "Servers that took over from one that died (failovers)", restarts_of },
	{ "fsgroupfs_volume_passthrough", "gauge", "1: file data bypasses the overlay",
	  passthrough_of },
};

static void write_volumes(const struct figures *list, size_t count, FILE *out)
{
	metric_begin(out, "fsgroupfs_volume_entries", "gauge", "What the walk has met so far");
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(entry_kinds); k++) {
			fputs("fsgroupfs_volume_entries", out);
			metric_labels(out, "volume", list[i].vol->id, "kind", entry_kinds[k].kind,
				      NULL);
			fprintf(out, " %llu\n", (unsigned long long)entry_kinds[k].get(&list[i]));
		}
	}
	for (size_t f = 0; f < ARRAY_SIZE(overlay_families); f++) {
		metric_begin(out, overlay_families[f].name, overlay_families[f].type,
			     overlay_families[f].help);
		for (size_t i = 0; i < count; i++) {
			if (!list[i].has_overlay)
				continue;
			fputs(overlay_families[f].name, out);
			metric_labels(out, "volume", list[i].vol->id, NULL);
			fprintf(out, " %llu\n",
				(unsigned long long)overlay_families[f].get(&list[i]));
		}
	}
}

/* ---- the others ---- */

static void write_states(struct volume_record *const *list, size_t count, FILE *out)
{
	metric_begin(out, "fsgroupfs_volumes", "gauge", "Volumes on record, by state");
	for (int state = VOLUME_SETTING_UP; state <= VOLUME_TEARING_DOWN; state++) {
		size_t n = 0;

		for (size_t i = 0; i < count; i++)
			n += list[i]->state == (enum volume_state)state;
		fputs("fsgroupfs_volumes", out);
		metric_labels(out, "state", volume_state_name((enum volume_state)state), NULL);
		fprintf(out, " %zu\n", n);
	}
}

static void write_store(struct manager *m, FILE *out)
{
	static const char *const files[] = { PATH_STORE, PATH_STORE "-wal" };

	metric_begin(out, "fsgroupfs_store_bytes", "gauge", "Size of the store's files");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct stat st;

		if (fstatat(m->layout->state_fd, files[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		fputs("fsgroupfs_store_bytes", out);
		metric_labels(out, "file", files[i], NULL);
		fprintf(out, " %lld\n", (long long)st.st_size);
	}
}

static void look(struct manager *m, const struct volume_record *vol, struct figures *ret_figures)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	AUTO(run_record) *run = NULL;

	*ret_figures = (struct figures){ .vol = vol };
	if (o && !overlay_is_gone(o)) {
		overlay_status_get(o, &ret_figures->status);
		ret_figures->counters = ret_figures->status.counters;
		ret_figures->has_overlay = true;
	} else if (vol->run_id && store_run_get(m->store, vol->run_id, &run) == 0) {
		ret_figures->counters = run->counters;
	}
}

static int write_all(struct manager *m, struct volume_record **list, size_t count, FILE *out)
{
	struct figures *figures = calloc(count + 1, sizeof(*figures));

	if (!figures)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		volume_correct_native(m, list[i]);
		look(m, list[i], &figures[i]);
	}
	metric_begin(out, "fsgroupfs_build_info", "gauge", "Always 1; the version is a label");
	fputs("fsgroupfs_build_info", out);
	metric_labels(out, "version", FSGROUPFS_VERSION, NULL);
	fputs(" 1\n", out);
	write_states(list, count, out);
	write_volumes(figures, count, out);
	write_store(m, out);
	meters_write(m->meters, out);
	free(figures);
	return 0;
}

enum proto_exit manager_metrics(struct manager *m, struct answer *answer)
{
	struct volume_record **list = NULL;
	char why[ANSWER_TEXT_MAX];
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	FILE *out;
	int n = store_volume_list(m->store, &list), r;

	if (n < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", store_why(n, why, sizeof(why)));
	out = open_memstream(&text, &size);
	r = out ? write_all(m, list, (size_t)n, out) : -ENOMEM;
	if (out && fclose(out) < 0)
		r = -ENOMEM;
	store_volume_list_free(list, (size_t)n);
	answer->result = r == 0 ? json_string(text) : NULL;
	return answer->result ? EXIT_OK : answer_fail(answer, EXIT_FAILED, "%s", strerror(ENOMEM));
}

void manager_meter(struct manager *m, const char *command, int exit, uint64_t us)
{
	meters_request(m->meters, command, exit, us);
}

void manager_meter_call(struct manager *m, const struct traced_call *call)
{
	meters_plugin(m->meters, call->plugin, call->call, call->result, call->us);
}
