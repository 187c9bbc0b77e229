/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLOW_H
#define MOUNTD_FLOW_H

/*
 * flow: the idempotent set-up of one volume, presented or wrapped: the plugin's strategy is asked whether
 * set_up must run; it runs, or what is there is refreshed.
 *
 * Knows plugins and markers. Does not record success: its caller does, with the marker, in one
 * transaction. Part of the manager; thread rule of plugins.
 */

#include <sys/types.h>

#include "fs/base/cleanup.h"
#include "mountd/manager_impl.h"

struct flow {
	/* in */
	const struct volume_plugin *plugin;
	struct building *building;
	/* out */
	int lower_fd;
	enum ownership_outcome outcome;
	char *certifies; /* what the marker is to say; NULL: the plugin's strategy has none */
	bool ran;	 /* set_up ran */
	bool changed;	 /* refresh ran and changed something */
};

struct flow *flow_new(const struct volume_plugin *plugin, struct building *building);
void flow_free(struct flow *flow);
DEFINE_AUTO(flow)

/*
 * flow_is_set_up: whether the volume is set up, as far as its strategy can tell; changes nothing.
 * One without a strategy is taken to be.
 */
bool flow_is_set_up(const struct volume_plugin *plugin, struct building *building);

/*
 * flow_set_up: a marker that no longer certifies is dropped, with an event; set_up runs where it must; else
 * a refreshable volume is refreshed, when the call brought what that needs.
 * Returns 0, or -errno with the builder's error; builder->metadata is to be recorded in either case.
 */
int flow_set_up(struct flow *flow, gid_t gid);

/*
 * flow_metadata: the builder's metadata as it is recorded, with the version that its plugin gives it; the
 * caller's to free; NULL: no memory.
 */
char *flow_metadata(const struct volume_builder *b);

/*
 * flow_metadata_restore: the builder's metadata (in place of which it has the recorded one, with its
 * version) brought to the form of today's plugin. -ENOTSUP: a newer plugin kept it; with the builder's error.
 */
int flow_metadata_restore(struct volume_builder *b);

#endif
