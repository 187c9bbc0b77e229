// SPDX-License-Identifier: Apache-2.0
#include "mountd/meters.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 3

/* Upper ends of the histograms' buckets. */
static const struct {
	uint64_t us;
	const char *seconds;
} buckets[] = {
	{ 1000, "0.001" }, { 5000, "0.005" },  { 25000, "0.025" }, { 100000, "0.1" },
	{ 500000, "0.5" }, { 2500000, "2.5" }, { 10000000, "10" }, { 60000000, "60" },
};

enum family { REQUESTS, REQUEST_TIMES, PLUGIN_CALLS, PLUGIN_TIMES, EVENTS, FAMILY_COUNT };

static const struct {
	const char *name, *help;
	bool is_histogram;
	const char *labels[LABELS_MAX + 1];
} families[FAMILY_COUNT] = {
	[REQUESTS] = { "fsgroupfs_requests_total",
		       "Requests answered, by exit status",
		       false,
		       { "command", "exit" } },
	[REQUEST_TIMES] = { "fsgroupfs_request_duration_seconds",
			    "How long requests took",
			    true,
			    { "command" } },
	[PLUGIN_CALLS] = { "fsgroupfs_plugin_calls_total",
			   "Calls of plugins, by result",
			   false,
			   { "plugin", "call", "result" } },
	[PLUGIN_TIMES] = { "fsgroupfs_plugin_call_duration_seconds",
			   "How long plugins took",
			   true,
			   { "plugin", "call" } },
	[EVENTS] = { "fsgroupfs_events_total",
		     "Events since the daemon was started",
		     false,
		     { "kind" } },
};

struct series {
	struct series *next;
	enum family family;
	char *labels[LABELS_MAX];
	uint64_t count, sum_us;
	uint64_t below[ARRAY_SIZE(
		buckets)]; /* not more than the bucket's end, and above the last's */
};

struct meters {
	pthread_mutex_t lock;
	struct series *first; /* guarded by lock */
};

struct meters *meters_new(void)
{
	struct meters *meters = calloc(1, sizeof(*meters));

	if (meters)
		pthread_mutex_init(&meters->lock, NULL);
	return meters;
}

static void series_free(struct series *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < LABELS_MAX; i++)
		free(s->labels[i]);
	free(s);
}

void meters_free(struct meters *meters)
{
	if (!meters)
		return;
	while (meters->first) {
		struct series *s = meters->first;

		meters->first = s->next;
		series_free(s);
	}
	pthread_mutex_destroy(&meters->lock);
	free(meters);
}

/* ---- counting ---- */

static bool is_series(const struct series *s, enum family family, const char *const *labels)
{
	if (s->family != family)
		return false;
	for (size_t i = 0; families[family].labels[i]; i++) {
		if (strcmp(s->labels[i], labels[i]) != 0)
			return false;
	}
	return true;
}

static struct series *series_new(enum family family, const char *const *labels)
{
	struct series *s = calloc(1, sizeof(*s));

	for (size_t i = 0; s && families[family].labels[i]; i++) {
		s->labels[i] = strdup(labels[i]);
		if (!s->labels[i]) {
			series_free(s);
			s = NULL;
		}
	}
	if (s)
		s->family = family;
	return s;
}

static void count(struct meters *meters, enum family family, const char *const *labels, uint64_t us)
{
	struct series **p = &meters->first;

	pthread_mutex_lock(&meters->lock);
	while (*p && !is_series(*p, family, labels))
		p = &(*p)->next;
	if (!*p)
		*p = series_new(family, labels);
	if (*p) {
		(*p)->count++;
		(*p)->sum_us += us;
		for (size_t i = 0; i < ARRAY_SIZE(buckets); i++) {
			if (us <= buckets[i].us) {
				(*p)->below[i]++;
				break;
			}
		}
	}
	pthread_mutex_unlock(&meters->lock);
}

void meters_request(struct meters *meters, const char *command, int exit, uint64_t us)
{
	char status[16];
	const char *labels[] = { command, status };

	snprintf(status, sizeof(status), "%d", exit);
	count(meters, REQUESTS, labels, us);
	count(meters, REQUEST_TIMES, labels, us);
}

void meters_plugin(struct meters *meters, const char *plugin, const char *call, const char *result,
		   uint64_t us)
{
	const char *labels[] = { plugin, call, result };

	count(meters, PLUGIN_CALLS, labels, us);
	count(meters, PLUGIN_TIMES, labels, us);
}

void meters_event(struct meters *meters, const char *kind)
{
	count(meters, EVENTS, &kind, 0);
}

/* ---- writing ---- */

void metric_begin(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else
			putc(*value, out);
	}
}

void metric_labels(FILE *out, const char *first, ...)
{
	va_list args;

	if (!first)
		return;
	va_start(args, first);
	for (const char *name = first; name; name = va_arg(args, const char *)) {
		fprintf(out, "%s%s=\"", name == first ? "{" : ",", name);
		write_value(out, va_arg(args, const char *));
		putc('"', out);
	}
	va_end(args);
	putc('}', out);
}

/* @end: of a bucket, or NULL. */
static void write_labels(const struct series *s, const char *end, FILE *out)
{
	const char *const *names = families[s->family].labels;
	size_t i;

	for (i = 0; names[i]; i++) {
		fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", names[i]);
		write_value(out, s->labels[i]);
		putc('"', out);
	}
	if (end)
		fprintf(out, ",le=\"%s\"", end);
	putc('}', out);
}

static void write_histogram(const struct series *s, FILE *out)
{
	const char *name = families[s->family].name;
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(buckets); i++) {
		sum += s->below[i];
		fprintf(out, "%s_bucket", name);
		write_labels(s, buckets[i].seconds, out);
		fprintf(out, " %llu\n", (unsigned long long)sum);
	}
	fprintf(out, "%s_bucket", name);
	write_labels(s, "+Inf", out);
	fprintf(out, " %llu\n%s_sum", (unsigned long long)s->count, name);
	write_labels(s, NULL, out);
	fprintf(out, " %llu.%06llu\n%s_count", (unsigned long long)(s->sum_us / 1000000),
		(unsigned long long)(s->sum_us % 1000000), name);
	write_labels(s, NULL, out);
	fprintf(out, " %llu\n", (unsigned long long)s->count);
}

void meters_write(struct meters *meters, FILE *out)
{
	pthread_mutex_lock(&meters->lock);
	for (int family = 0; family < FAMILY_COUNT; family++) {
		const char *type = families[family].is_histogram ? "histogram" : "counter";

		metric_begin(out, families[family].name, type, families[family].help);
		for (const struct series *s = meters->first; s; s = s->next) {
			if (s->family != (enum family)family)
				continue;
			if (families[family].is_histogram) {
				write_histogram(s, out);
				continue;
			}
			fputs(families[family].name, out);
			write_labels(s, NULL, out);
			fprintf(out, " %llu\n", (unsigned long long)s->count);
		}
	}
	pthread_mutex_unlock(&meters->lock);
}
