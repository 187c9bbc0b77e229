/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_UPDATE_H
#define MOUNTD_UPDATE_H

/*
 * update: what is wanted of a volume changed while it is mounted. Knows which arguments of a mount may change
 * live, and how; part of the manager, called by the request handlers. Thread-safe.
 */

#include "mountd/manager.h"

/* What is to change; texts are borrowed; NULL or unset: nothing. */
struct update_request {
	enum front_end front;
	const char *volume;
	bool has_fs_group, has_rate;
	bool dry_run; /* only said what would be done: {"would": [texts]} */
	gid_t fs_group;
	uint64_t converge_rate;
	const char *policy, *spec;
	json_t *excludes; /* array of strings, or NULL */
};

/* update_is_refused: whether this is an argument of a mount that can never change while it is mounted. */
bool update_is_refused(const char *argument);

/*
 * manager_update: result {"id", "changed": [arguments]}. A changed fsGroup, excludes or RootOnly begins a new
 * run, for which the volume must not be in use; when that fails it is mounted as it was before.
 */
enum proto_exit manager_update(struct manager *m, const struct update_request *request,
			       struct answer *answer);

#endif
