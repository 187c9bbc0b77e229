/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_KEEPER_H
#define FS_KEEPER_H

/*
 * keeper: the small parent of an overlay server.
 *
 * It prepares the mounts, holds what must outlive a server (the device, the shared memory, the control
 * socket, the tree that goes beneath the overlay), starts the server, mounts the overlay, and makes the
 * swap of the hand-off. It reads nothing of the volume's tree and parses nothing that comes from it.
 * One process, one thread, one overlay.
 */

#include "fs/options.h"

/*
 * keeper_main: runs the overlay of @source at @target until it ends.
 * @arguments: the -o arguments as given, for the server; ends with NULL
 * @ready_fd:  where "ok\n" or one line of error goes; closed after it; -1: standard error for errors
 * Returns the process's exit status.
 */
int keeper_main(const struct overlay_options *options, const char *source, const char *target,
		char **arguments, int ready_fd);

#endif
