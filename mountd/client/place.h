/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CLIENT_PLACE_H
#define MOUNTD_CLIENT_PLACE_H

/*
 * client_place: the place at which a client wants a mount, as descriptors: the daemon can tell by them whether it sees
 * the same place under that path (caller_place.h). For clients, which have one thread.
 */

#include <stdbool.h>

#include "mountd/proto.h"

struct client_place {
	bool is_known; /* fds[] are open */
	int fds[PROTO_FDS];
};

/*
 * client_place_open: of @target (absolute).
 * @space: the mount namespace in which it is, a process id or a file; NULL: our own
 * A directory that is not there is left to the daemon to complain of: nothing is known then, and 0 is returned.
 * Returns 0, -EINVAL or -errno (@space is no mount namespace, or may not be entered).
 */
int client_place_open(const char *target, const char *space, struct client_place *ret_place);
void client_place_close(struct client_place *place);

/* client_place_enter: this process goes to that mount namespace, for good. As client_place_open(). */
int client_place_enter(const char *space);

#endif
