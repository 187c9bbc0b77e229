/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_METERS_H
#define MOUNTD_METERS_H

/*
 * meters: what the daemon counts while it runs: requests, calls of plugins, events; and the text form in which
 * Prometheus reads figures (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 * Labels are names of ours, a bounded number of them; nothing that a client or a tree says is kept. Thread-safe, one
 * short lock; without memory something is not counted.
 */

#include <stdint.h>
#include <stdio.h>

#include "fs/base/cleanup.h"

struct meters;

struct meters *meters_new(void); /* NULL: no memory */
void meters_free(struct meters *meters);
DEFINE_AUTO(meters)

/* meters_request: @command: of the table of requests. meters_plugin: as in plugins/trace.h. Times in microseconds. */
void meters_request(struct meters *meters, const char *command, int exit, uint64_t us);
void meters_plugin(struct meters *meters, const char *plugin, const char *call, const char *result,
		   uint64_t us);
void meters_event(struct meters *meters, const char *kind);

/* meters_write: all of it. */
void meters_write(struct meters *meters, FILE *out);

/* ---- one figure ---- */

/* metric_begin: the HELP and TYPE lines of the family @name. @type: "counter", "gauge", "histogram". */
void metric_begin(FILE *out, const char *name, const char *type, const char *help);

/*
 * metric_labels: "{a="...",b="..."}" with the values escaped: pairs of name and value, ended by NULL; nothing for none.
 * The figure and the end of the line are the caller's.
 */
void metric_labels(FILE *out, const char *first, ...) __attribute__((sentinel));

#endif
