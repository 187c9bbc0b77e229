/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLEX_OPTIONS_H
#define MOUNTD_FLEX_OPTIONS_H

/*
 * flex_options: the JSON options of a FlexVolume call-out, made into the arguments of a request.
 *
 * The options are written by the pod's author, but for kubelet's own keys, and kubelet merges the
 * author's last: every key is untrusted, and none of them can name a front end, a target or an id.
 * Whether what they ask for is allowed is decided by the daemon (rules.h). Pure: no I/O, no state.
 */

#include <jansson.h>
#include <stddef.h>

/* A call-out's JSON: kubelet's own are a few KiB; secrets are at most 1 MiB. */
#define FLEX_OPTIONS_MAX (4U << 20)

/* fsgroupfs/volume and fsgroupfs/device; a bit each. */
enum flex_driver { FLEX_VOLUME = 1, FLEX_DEVICE = 2 };

/* What the options are for; a bit each. kubelet sends the same ones to every call of a volume. */
enum flex_purpose {
	FLEX_MOUNT = 1, /* a request "mount" */
	FLEX_STAGE = 2, /* a request "stage" */
	FLEX_LOOK = 4,	/* no request: {"device", "name"}, where they are said */
};

/*
 * flex_options_apply: adds to @io_request what the options in @text say for @purpose. All of them are checked
 * whatever the purpose. Secrets (kubernetes.io/secret/...) are checked and left behind: no plugin takes them.
 * @ret_error: FLEX_MESSAGE_MAX bytes
 * Returns 0, -ENOMEM, or -EINVAL with one line in @ret_error that names the option, never a value of
 * a secret.
 */
int flex_options_apply(const char *text, enum flex_driver driver, enum flex_purpose purpose,
		       json_t *io_request, char *ret_error);

#endif
