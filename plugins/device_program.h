/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_DEVICE_PROGRAM_H
#define PLUGINS_DEVICE_PROGRAM_H

/*
 * device_program: a program that works on one block device (e2fsck, mkfs, resize2fs), run as program.h runs them.
 *
 * Does not know what they do. Called by what does (device_ready, device_grow); thread rule of plugin.h.
 */

#include <stdint.h>

#include "plugins/device.h"
#include "plugins/program.h"

#define DEVICE_PROGRAM_ARGS 3

/*
 * device_program_run: "name args... device", to its end.
 * @name:       looked for where program_find() does
 * @args:       up to DEVICE_PROGRAM_ARGS, NULL after the last where there are fewer
 * @timeout_ms: 0: none
 *
 * Returns 0, also where the program failed: *ret_result says so; or -errno with b->error: -ENOENT (it is not
 * installed), program_run()'s errors.
 */
int device_program_run(struct volume_builder *b, const struct device *device, const char *name,
		       const char *const args[DEVICE_PROGRAM_ARGS], uint64_t timeout_ms,
		       struct program_result **ret_result);

#endif
