/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_OBJECTS_H
#define PLUGINS_OBJECTS_H

/*
 * objects: the Kubernetes objects that a call brought with it (fsgroupctl --objects): found by kind,
 * namespace and name. Knows nothing of what a kind means. Used by plugins that take payload or claims
 * from objects. Pure: no locks, no I/O. Errors name kind, namespace and name, never content.
 */

#include "plugins/plugin.h"

/*
 * objects_find: the one object of @kind with @name in @namespace (NULL: the builder's namespace; "": a
 * cluster-wide kind, such as PersistentVolume and Node). Borrowed from b->objects.
 * Returns 0, -ENOENT (there is none, or the call brought no objects), -ENOTUNIQ (there are several that
 * differ), with b->error.
 */
int objects_find(struct volume_builder *b, const char *kind, const char *namespace,
		 const char *name, json_t **ret_object);

/*
 * objects_find_pod: the Pod of the call: the only one, or the one that --pod named.
 * Errors as objects_find().
 */
int objects_find_pod(struct volume_builder *b, json_t **ret_pod);

/* objects_find_node: the Node that @pod names (spec.nodeName), else the only one. Errors as objects_find(). */
int objects_find_node(struct volume_builder *b, const json_t *pod, json_t **ret_node);

/*
 * objects_find_token: the TokenRequest of the builder's namespace whose spec.audiences has @audience. "":
 * that which names no audience, else the only one. Errors as objects_find().
 */
int objects_find_token(struct volume_builder *b, const char *audience, json_t **ret_request);

#endif
