// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/base/cleanup.h"
#include "tests/differential/trial.h"

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Runs the trial without the steps from @from to @from + @count; keeps that when it still fails. */
static bool try_without(struct trial *t, unsigned from, unsigned count,
			struct difference *io_difference)
{
	AUTO_FREE struct step *steps = calloc(t->count + 1, sizeof(*steps));
	AUTO_FREE struct difference *d = malloc(sizeof(*d));
	struct trial shorter = *t;

	if (!steps || !d)
		return false;
	memcpy(steps, t->steps, from * sizeof(*steps));
	memcpy(steps + from, t->steps + from + count, (t->count - from - count) * sizeof(*steps));
	shorter.steps = steps;
	shorter.has_next = false;
	shorter.count = t->count - count;
	if (trial_run(&shorter, false, d) < 0 || !d->is_found ||
	    strcmp(d->kind, io_difference->kind) != 0)
		return false;
	*io_difference = *d;
	t->count = shorter.count;
	memcpy(t->steps, steps, t->count * sizeof(*steps));
	if (d->at + 1 < t->count)
		t->count = d->at + 1;
	return true;
}

void trial_shrink(struct trial *t, struct difference *io_difference, unsigned seconds)
{
	time_t until = seconds_now() + (time_t)seconds;

	if (io_difference->at + 1 < t->count)
		t->count = io_difference->at + 1;
	if (!try_without(t, t->count, 0, io_difference)) {
		printf("(not the same when run again: not shrunk)\n");
		return;
	}
	for (unsigned chunk = (t->count + 1) / 2; chunk > 0 && seconds_now() < until;
	     chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
		for (unsigned from = 0; from < t->count && seconds_now() < until;) {
			unsigned count = chunk < t->count - from ? chunk : t->count - from;

			if (!try_without(t, from, count, io_difference))
				from += count;
		}
	}
}

/* What the script begins with: the files it names. */
static void print_before(FILE *out, const struct volume *v, const struct trial *t)
{
	struct tree_paths *paths = malloc(sizeof(*paths));

	if (!paths)
		return;
	tree_list(v->lower_fd, paths);
	for (unsigned i = 0; i < paths->count; i++) {
		bool is_named = false;

		for (unsigned k = 0; k < t->count; k++) {
			char parent[TREE_PATH_MAX];
			const char *const named[] = { t->steps[k].path, t->steps[k].path2 };

			for (size_t n = 0; n < ARRAY_SIZE(named); n++) {
				strcpy(parent, named[n]);
				is_named |= strcmp(named[n], paths->entries[i].path) == 0 ||
					    (named[n][0] &&
					     strcmp(dirname(parent), paths->entries[i].path) == 0);
			}
		}
		if (is_named) {
			fputs("  before: ", out);
			tree_describe(out, v->lower_fd, paths->entries[i].path);
		}
	}
	free(paths);
}

void trial_print(FILE *out, struct trial *t, const struct difference *d)
{
	const struct volume_config *c = &t->volume;
	struct volume v;

	fprintf(out, "DIFFERENCE %s (%s, %s, %s, %s%s%s, seed %llu)\n", d->kind, c->type,
		c->converges ? "converging" : "paused", c->is_exclusive ? "exclusive" : "shared",
		c->is_durable ? "durable" : "not durable", c->userns ? ", userns" : "",
		c->refreshes ? ", refreshed" : "", (unsigned long long)t->seed);
	if (t->count <= 30 && volume_open(c, t->seed, &v) == 0) {
		print_before(out, &v, t);
		volume_close(&v);
	}
	for (unsigned i = 0; i < t->count; i++) {
		fprintf(out, "  %4u ", i);
		step_print(out, &t->steps[i]);
	}
	fprintf(out, "%s\n", d->text);
	fflush(out);
}
