/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_PAYLOAD_SOURCE_H
#define PLUGINS_PAYLOAD_SOURCE_H

/*
 * payload_source: what a Secret, a ConfigMap, a Pod or a TokenRequest adds to a payload, as its source object
 * in a volume asks for it: items with keys, paths and modes, optional objects.
 *
 * Knows these kinds and the source objects. Does not know the disk. Reasons go to the builder's error and
 * name objects, keys and paths, never values. Thread rule of plugins.
 */

#include "plugins/payload.h"
#include "plugins/plugin.h"

struct payload_request {
	struct volume_builder *b;
	gid_t gid; /* fsGroup, or GID_UNSET */
	mode_t default_mode;
	const char *where; /* before a field's name in errors: "sources[1].secret." or "" */
	bool is_check; /* look at the source object only: no object is needed, contents stay empty */
	struct payload *payload; /* gets the files */
};

/* payload_source_mode: the source's "defaultMode", 0644 when it is absent. 0 or -EINVAL. */
int payload_source_mode(struct volume_builder *b, mode_t *ret_mode);

/*
 * The files of one source object. @name_key: where it names its object ("secretName" in a secret volume,
 * "name" elsewhere).
 * Return 0, -EINVAL, -ENOENT (object, key, container, Node or token not found), -ENOTUNIQ, -E2BIG (values of
 * more than PAYLOAD_SOURCE_MAX), -ENOMEM.
 */
int payload_from_secret(struct payload_request *q, const json_t *source, const char *name_key);
int payload_from_config_map(struct payload_request *q, const json_t *source);
int payload_from_downward(struct payload_request *q, const json_t *source);
int payload_from_token(struct payload_request *q, const json_t *source);

#endif
