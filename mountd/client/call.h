/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CLIENT_CALL_H
#define MOUNTD_CLIENT_CALL_H

/*
 * client: one request to the daemon of a root, from the connection (the daemon is started where it is
 * not there) to the last reply. Knows frames and repeats. Does not know what a request means, and
 * prints nothing. Used by fsgroupctl and by the FlexVolume driver. One thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A streamed result; borrowed. Returns whether more is wanted. */
typedef bool (*client_frame_fn)(void *arg, json_t *result);

/*
 * client_call: sends @request (borrowed; gets this program's "version"; its timeoutMs is lessened by what a
 * repeat has cost).
 * @on_frame:  for streams; NULL where none comes
 * @ret_reply: the last reply (PROTOCOL.md), the caller's reference
 *
 * Every request can be repeated (PROTOCOL.md): a daemon that ends meanwhile is started again.
 * Returns 0, -ECANCELED (answers that have no end, and nobody reads standard output any more), or -errno with one
 * line in @ret_error: nothing is known of what was done.
 */
int client_call(const char *root, json_t *request, client_frame_fn on_frame, void *arg,
		json_t **ret_reply, char *ret_error, size_t size);

/*
 * client_call_in: the same for a client that speaks of the mount namespace @space (client_place.h); NULL: our own, as
 * client_call(). With a mount, a remount, and a umount by hand the daemon learns which place is meant.
 */
int client_call_in(const char *root, const char *space, json_t *request, client_frame_fn on_frame,
		   void *arg, json_t **ret_reply, char *ret_error, size_t size);

/*
 * client_ask_running: the same of a daemon that runs, with one reply. None is started, and it is given two seconds.
 * Returns 0, -ENOENT or -ECONNREFUSED (none runs), -EAGAIN (it took longer), or -errno.
 */
int client_ask_running(const char *root, json_t *request, json_t **ret_reply);

/* client_reply_exit, client_reply_text: of a reply; a text that is not there is NULL. */
int client_reply_exit(const json_t *reply);
const char *client_reply_text(const json_t *reply, const char *key);

#endif
