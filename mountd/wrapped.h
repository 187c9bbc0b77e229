/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_WRAPPED_H
#define MOUNTD_WRAPPED_H

/*
 * wrapped: volumes within volumes: the part of the host table (plugins/plugin.h) that runs the set-up flow
 * for what a volume wraps. Each has its own record, marker and metadata in the store, and its own
 * directory below that of the volume around it.
 *
 * Knows the store and the flow. Does not present anything. Called by plugins only, through host_table;
 * they hold the key of the presented volume, so calls for one volume come one after the other.
 * Contracts: struct host in plugins/plugin.h.
 */

#include "plugins/plugin.h"

int wrapped_set_up(struct volume_builder *b, const char *name, const char *plugin, json_t *source,
		   gid_t gid, int *ret_lower, enum ownership_outcome *ret_ownership, bool *ret_ran);
int wrapped_open_lower(struct volume_builder *b, const char *name, int *ret_lower);
int wrapped_certify(struct volume_builder *b, const char *name, char **ret_text);
int wrapped_tear_down(struct volume_builder *b, const char *name);

#endif
