/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLEX_CALL_H
#define MOUNTD_FLEX_CALL_H

/*
 * flex_call: the call-outs of the FlexVolume driver interface, as kubelet makes them. Knows their
 * arguments and answers, and which of the two drivers has which. Does not know how an answer gets out
 * (main.c). One thread.
 */

#include <jansson.h>

#include "mountd/flex/options.h"

/* flex_driver_of: by the name under which kubelet calls the program: .../fsgroupfs~device/device, or any other. */
enum flex_driver flex_driver_of(const char *self);

/*
 * flex_call: one call-out: @argv[0] is the command. Blocks for as long as the daemon takes.
 * Returns the answer, the caller's reference; NULL: no memory.
 */
json_t *flex_call(const char *root, enum flex_driver driver, int argc, char **argv);

#endif
