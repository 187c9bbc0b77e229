/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SETUP_CHECK_H
#define MOUNTD_SETUP_CHECK_H

/*
 * setup_check: what can be said of a mount request without touching a volume: whether it is well formed
 * and allowed, and the record that it amounts to. Part of the manager; called by setup only.
 */

#include "mountd/manager_impl.h"

/* A mount request on its way. */
struct mounting {
	struct manager *m;
	const struct mount_request *request;
	struct rules *rules;
	const struct front_rules *front;
	struct spec *spec;
	const struct volume_plugin *plugin;
	char *staged; /* the id of the device whose consumer it is to be, or NULL */
	struct target *target;
	struct mount_flags mount_flags; /* as asked for */
	json_t *objects; /* of the request or read for it, checked; NULL: none; never recorded */
	char *pod_namespace;	   /* that they are looked up in */
	struct volume_record *vol; /* as asked for; later as recorded */
	bool is_repeated; /* it was there: others see it already, so that nothing is waited for */
	struct answer *answer;
};

/*
 * mounting_check: fills in @x from its request, or fails its answer. Reads mountd.conf and objects, opens the
 * target's parent; records and changes nothing.
 */
enum proto_exit mounting_check(struct mounting *x);

/*
 * source_building: a building with which a plugin looks at a source: check and identity, before anything is
 * recorded or made.
 */
struct building source_building(struct manager *m, const struct front_rules *front, const char *id,
				json_t *source, json_t *metadata);

#endif
