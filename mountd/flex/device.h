/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLEX_DEVICE_H
#define MOUNTD_FLEX_DEVICE_H

/*
 * flex_device: the call-outs that only the driver of devices has. Attaching is somebody else's work: the
 * device is where option `device` says, or comes there.
 *
 * attach, isattached, detach and getvolumename are also called on a controller's machine, where there is no
 * daemon: they look at their arguments only. One thread.
 */

#include <jansson.h>

#include "mountd/flex/options.h"

/* A call-out on its way; borrowed. */
struct flex_args {
	const char *root; /* of the daemon */
	enum flex_driver driver;
	char **args; /* after the command; at least as many as the command needs */
	int count;
};

/* Each returns the answer, the caller's reference; NULL: no memory. */
json_t *flex_get_volume_name(const struct flex_args *call);
json_t *flex_attach(const struct flex_args *call);
/* flex_wait_for_attach: blocks until the device is there, 10 seconds at most: kubelet asks again. */
json_t *flex_wait_for_attach(const struct flex_args *call);
json_t *flex_is_attached(const struct flex_args *call);
json_t *flex_mount_device(const struct flex_args *call);
json_t *flex_expand_fs(const struct flex_args *call);
json_t *flex_unmount_device(const struct flex_args *call);
json_t *flex_detach(const struct flex_args *call);

#endif
