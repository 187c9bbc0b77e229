/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_PAYLOAD_VOLUME_H
#define PLUGINS_PAYLOAD_VOLUME_H

/*
 * payload_volume: what secret, configMap, downwardAPI and projected volumes have in common: an emptyDir into
 * which a payload is written atomically, with its final ownership (mask 0440 and 02550).
 *
 * Knows the emptyDir that is wrapped (through the host) and the writer. Does not know the sources: a
 * kind collects them. Payload of a kind in memory is written to a tmpfs only. Thread rule of plugins.
 */

#include "plugins/payload_source.h"

struct payload_kind {
	bool in_memory; /* the payload may never reach a disk */
	int (*collect)(struct payload_request *q);
};

/* The plugin's functions, for each kind; contracts in plugin.h. */
int payload_volume_check(struct volume_builder *b, const struct payload_kind *kind);
char *payload_volume_identity(const struct volume_builder *b);
int payload_volume_set_up(struct volume_builder *b, const struct payload_kind *kind, gid_t gid,
			  int *ret_lower, enum ownership_outcome *ret_ownership);
int payload_volume_refresh(struct volume_builder *b, const struct payload_kind *kind, gid_t gid,
			   bool *ret_changed);
int payload_volume_certify(struct volume_builder *b, char **ret_text);
int payload_volume_open_lower(struct volume_builder *b, int *ret_lower);
int payload_volume_tear_down(struct volume_builder *b);

/* PAYLOAD_PLUGIN: the table of a plugin of @kind, the last thing in its file. */
#define PAYLOAD_PLUGIN(variable, key, kind)                                                        \
	static int plugin_check(struct volume_builder *b)                                          \
	{                                                                                          \
		return payload_volume_check(b, kind);                                              \
	}                                                                                          \
	static int plugin_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,              \
				 enum ownership_outcome *ret_ownership)                            \
	{                                                                                          \
		return payload_volume_set_up(b, kind, gid, ret_lower, ret_ownership);              \
	}                                                                                          \
	static int plugin_refresh(struct volume_builder *b, gid_t gid, bool *ret_changed)          \
	{                                                                                          \
		return payload_volume_refresh(b, kind, gid, ret_changed);                          \
	}                                                                                          \
	const struct volume_plugin variable = {                                                    \
		.name = key,                                                                       \
		.attributes = { .idempotency = IDEMPOTENCY_MARKER,                                 \
				.manages_ownership = true,                                         \
				.refreshable = true,                                               \
				.is_read_only = true,                                              \
				.needs_objects = true },                                           \
		.check = plugin_check,                                                             \
		.identity = payload_volume_identity,                                               \
		.set_up = plugin_set_up,                                                           \
		.certify = payload_volume_certify,                                                 \
		.refresh = plugin_refresh,                                                         \
		.open_lower = payload_volume_open_lower,                                           \
		.tear_down = payload_volume_tear_down,                                             \
	}

#endif
