/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_OBJECT_LIST_H
#define MOUNTD_OBJECT_LIST_H

/*
 * object_list: the Kubernetes objects of a request (fsgroupctl --objects), checked, and the pod among
 * them for which a volume is set up (interface.md, Plugins and specs).
 *
 * Knows where an object says what it is. Does not know what a kind means (plugins/objects.h). Pure: no
 * state, any thread. The objects are payload: they are never recorded, and no error quotes them.
 */

#include <jansson.h>

#define OBJECT_LIST_ERROR_MAX 512

/*
 * object_list_select: the objects that a volume may use.
 * @objects:       from the client, unchecked: an array of objects that have a kind; NULL: none were sent
 * @pod:           "NS/NAME" as fsgroupctl --pod gives it, or NULL
 * @ret_list:      the objects without the Pods that are not the one; the caller's reference; NULL when none were sent
 * @ret_namespace: the caller's to free: that of the Pod (the only one, else @pod's); "default" without one
 * @ret_error:     OBJECT_LIST_ERROR_MAX bytes; one line on failure
 *
 * Returns 0, -EINVAL (*ret_error says why: not of this form, or several Pods and no @pod), -ENOMEM.
 */
int object_list_select(json_t *objects, const char *pod, json_t **ret_list, char **ret_namespace,
		       char *ret_error);

#endif
