/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_KEEPER_START_H
#define MOUNTD_KEEPER_START_H

/*
 * keeper_start: one keeper process brought up to its ready line.
 *
 * Knows fsgroupfs's command line and the descriptors it inherits. Called by overlays only. Any thread:
 * between fork and exec only async-signal-safe calls are made.
 */

#include "mountd/control_group.h"
#include "mountd/overlays.h"

/*
 * keeper_start: execs fsgroupfs as @spec says, in the control group @group, with @listen_fd as its control
 * socket, and waits for its ready line, at most OVERLAY_READY_MS; a keeper that fails or is late is killed
 * and reaped. The group is the caller's to remove.
 * Returns 0, or -errno with *ret_error.
 */
int keeper_start(const struct overlay_spec *spec, const struct control_group *group, int listen_fd,
		 pid_t *ret_pid, char *ret_error);

#endif
