/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_HOST_H
#define MOUNTD_HOST_H

/*
 * host: the table through which plugins reach what is not theirs (plugins/plugin.h, struct host).
 *
 * Knows sources that a front end may use, and mounts below a volume's directory. Does not know the
 * store: volumes within volumes are in wrapped.h. Thread rule as for plugins.
 */

#include "mountd/rules.h"
#include "plugins/plugin.h"
#include "plugins/trace.h"

struct manager;

/* A builder as the manager makes it; plugins see its first member only. */
struct building {
	struct volume_builder b;
	const struct front_rules
		*front; /* NULL: opening a source is not allowed at all (tear-down) */
	const char *boot_id;
	const char *root; /* layout's */
	const struct volume_plugin
		*plugin; /* whose metadata it has; NULL: a mere check of a source */
	struct manager *manager;
	/* What it is called on record: "" for the volume that is presented, else wrapped_record.name. */
	const char *name;
	unsigned depth; /* how many volumes are around it */
};

/* building_of: the whole of a builder that the manager made. */
static inline struct building *building_of(struct volume_builder *b)
{
	return (struct building *)b; /* first member */
}

/* host_fail: the reason goes to b->error; returns @error. Texts from outside are quoted. */
int host_fail(struct volume_builder *b, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* host_trace: where the calls of plugins/trace.h go: the log, at level debug, and the manager's meters. */
void host_trace(const struct volume_builder *b, const struct traced_call *call);

extern const struct host host_table;

#endif
