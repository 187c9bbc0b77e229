/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_SERVER_H
#define FS_SERVER_H

/*
 * server: one overlay server process, from its descriptors to its end: sandbox, tree, run, session,
 * converger, and its half of the hand-off.
 */

#include "fs/options.h"

/* What a keeper gives its server; all descriptors are the server's from then on. */
struct server_fds {
	int device;  /* /dev/fuse */
	int shared;  /* memfd: shared.h */
	int channel; /* channel.h */
	int lower;   /* a detached mount of the lower tree */
};

/* server_main: serves until the connection ends. Returns the process's exit status. */
int server_main(const struct overlay_options *options, const struct server_fds *fds);

#endif
