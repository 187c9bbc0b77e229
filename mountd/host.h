/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_HOST_H
#define MOUNTD_HOST_H

/*
 * host: the table through which plugins reach what is not theirs (plugins/plugin.h, struct host).
 *
 * Knows sources that a front end may use, and mounts below a volume's directory. Does not know the
 * store. Thread rule as for plugins.
 */

#include "mountd/rules.h"
#include "plugins/plugin.h"

/* A builder as the manager makes it; plugins see its first member only. */
struct building {
	struct volume_builder b;
	const struct front_rules
		*front; /* NULL: opening a source is not allowed at all (tear-down) */
	const char *boot_id;
	const char *root; /* layout's */
};

extern const struct host host_table;

#endif
