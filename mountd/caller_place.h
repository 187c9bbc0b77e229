/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CALLER_PLACE_H
#define MOUNTD_CALLER_PLACE_H

/*
 * caller_place: whether the target that a client names is the same place to the client as to the daemon. It is not, where
 * the client is in another mount namespace, or has another root directory: the daemon would mount where the
 * client does not see it, or on something else.
 *
 * Knows mount namespaces and the peers of mounts in them. Asks no file system's server. No state, any thread.
 */

#include <stdbool.h>

#include "mountd/proto.h"
#include "mountd/target.h"

/*
 * caller_place_check: @fds as the client sent them: the directory of its target, and its mount namespace.
 * Another namespace will do where a mount at the target appears there too: where the directory's mounts are peers, or
 * the client's is a slave of ours.
 * @ret_error: TARGET_ERROR_MAX bytes
 * Returns 0, -EXDEV (another place), -EINVAL (these are no such descriptors), -errno, each with a line.
 */
int caller_place_check(const struct target *target, const int fds[PROTO_FDS], char *ret_error);

/* caller_is_elsewhere: whether the path @volume is another place to its caller; not where @fds is NULL: nothing is said. */
bool caller_is_elsewhere(const char *volume, const int *fds);

#endif
