/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DOWNWARD_H
#define PLUGINS_DOWNWARD_H

/*
 * downward: what a downwardAPI item shows of a Pod, as text: fields of its metadata, and the resources of
 * one of its containers (rules: Kubernetes pkg/fieldpath and pkg/api/v1/resource, as kubelet renders them).
 *
 * Knows the Pod's and the Node's form. Does not know volumes or builders. Pure, any thread. Reasons name
 * fields, never values.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define DOWNWARD_ERROR_MAX 256

/*
 * downward_field_check: whether a downwardAPI volume can show @path. 0, or -EINVAL with *ret_error.
 * metadata.name, .namespace, .uid, .labels, .annotations, .labels['KEY'], .annotations['KEY'].
 */
int downward_field_check(const char *path, char *ret_error);

/*
 * downward_field: the text of a field of @pod; the caller's to free. A map is a line key="value" a key,
 * sorted, quoted as Go's %q. What is not there is empty.
 * Returns 0, -EINVAL (*ret_error says why), -ENOMEM.
 */
int downward_field(const json_t *pod, const char *path, char **ret_text, char *ret_error);

/* What a resourceFieldRef asks for; borrowed texts. */
struct downward_resource {
	const char *container;
	const char *resource;  /* "limits.cpu", "requests.hugepages-2Mi" ... */
	const json_t *divisor; /* a quantity, or NULL: 1 */
};

/* downward_resource_check: as downward_field_check(): resource and divisor. */
int downward_resource_check(const struct downward_resource *want, char *ret_error);

/*
 * downward_resource: its value divided by the divisor, rounded up; the caller's to free.
 * @node: for a limit that the container does not set: the Node's allocatable; NULL: unknown
 *
 * A request that is not set is the limit, if that is set, else 0.
 * Returns 0, -ENOENT (no such container; or a limit that is not set, and no Node), -EINVAL, -ENOMEM.
 */
int downward_resource(const json_t *pod, const json_t *node, const struct downward_resource *want,
		      char **ret_text, char *ret_error);

/* downward_needs_node: whether downward_resource() would look at the Node. */
bool downward_needs_node(const json_t *pod, const struct downward_resource *want);

/* downward_quote: @text as Go's strconv.Quote; the caller's to free; NULL: no memory. */
char *downward_quote(const char *text);

#endif
