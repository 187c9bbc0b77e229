/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PEER_H
#define MOUNTD_PEER_H

/*
 * peer: who is at the other end of a connection, and so what he may ask at all.
 *
 * Knows credentials as the kernel gives them, taken when the peer connected. Does not know requests.
 * No state, any thread.
 */

#include <sys/types.h>

enum peer_kind {
	PEER_STRANGER, /* may ask nothing */
	PEER_STATUS,   /* of the configured group: may look, at what is no secret */
	PEER_ROOT,     /* uid 0 of our user namespace, or our own uid: may ask everything */
	PEER_KINDS,
};

struct peer {
	enum peer_kind kind;
	uid_t uid;
};

/*
 * peer_look: who connected to @fd.
 * @status_gid: the group that may look, by its primary or a supplementary group; GID_UNSET: none
 * What cannot be told is a stranger.
 */
struct peer peer_look(int fd, gid_t status_gid);

/*
 * peer_group_resolve: the gid of a group's name or decimal number.
 * Returns 0, -ENOENT (no such group), -EINVAL (stands for the groups that are not mapped here: the peer's
 * cannot be told apart), -ERANGE, or getgrnam()'s error.
 */
int peer_group_resolve(const char *text, gid_t *ret_gid);

#endif
