/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_OVERLAY_CONTROL_H
#define MOUNTD_OVERLAY_CONTROL_H

/*
 * overlay_control: the keepers' control sockets: one packet a message, text of fs/base/keyval.h.
 *
 * Knows sockets and packets; not what a status means. Called by overlays only. No state, any thread.
 */

#include <stdint.h>

/* The directory of the sockets, <volume id>.sock each. */
struct control_dir {
	int fd;
	const char *path;
};

/* control_listen: a new socket, mode 0600; one of the same name goes. Inheritable after dup2() only. */
int control_listen(const struct control_dir *dir, const char *volume_id, int *ret_fd);

/*
 * control_connect: sends on it end after OVERLAY_REQUEST_MS. -ENOENT, -ECONNREFUSED, -EHOSTDOWN (a keeper is there, but
 * takes no calls).
 */
int control_connect(const struct control_dir *dir, const char *volume_id, int *ret_fd);

/* control_send: @key and @value may be NULL. -EPIPE, -ETIMEDOUT, -EMSGSIZE, -ENOMEM. */
int control_send(int fd, const char *verb, const char *key, const char *value);

/* control_send_fd: a verb with a descriptor, which stays the caller's. As control_send(). */
int control_send_fd(int fd, const char *verb, int descriptor);

/* control_limit: sends and receives on @fd end after so long from now on. */
void control_limit(int fd, uint64_t ms);

/*
 * control_receive: one packet into KEYVAL_MAX + 1 bytes, NUL-terminated. -EPIPE (the end), -ETIMEDOUT (after the
 * limit), -EHOSTDOWN (much sooner: whoever is to answer is stopped).
 */
int control_receive(int fd, char *ret_text);

/*
 * control_error: 0, or the negative errno of an "error" message; *ret_error (OVERLAY_ERROR_MAX bytes, may
 * be NULL) is its text.
 */
int control_error(const char *message, char *ret_error);

/* control_link: the socket of one volume under the name of another too. */
int control_link(const struct control_dir *dir, const char *volume_id, const char *other_id);
void control_remove(const struct control_dir *dir, const char *volume_id);

#endif
