/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_REQUEST_H
#define MOUNTD_REQUEST_H

/*
 * request: what a client may ask (PROTOCOL.md): a table of commands and their handlers.
 *
 * Knows the protocol's arguments. Does not know how anything is done: a handler unpacks, makes one
 * call of the manager, and replies. Each row says who may ask; what others than root are shown is a list of
 * keys (redact.h). One thread a request.
 */

#include <stdarg.h>
#include <stddef.h>

#include "mountd/frame.h"
#include "mountd/manager.h"
#include "mountd/peer.h"

/*
 * request_serve: answers one request. Blocks until it is answered, or the peer has not read the answer for
 * too long.
 * @fd:   connected; stays the caller's
 * @frame: complete, from the peer, unchecked; its descriptors stay the frame's
 * Returns whether the connection may go on: not after what is no request, is unknown or not permitted, and
 * not when the manager stops.
 */
bool request_serve(struct manager *m, enum front_end front, enum peer_kind peer, int fd,
		   const struct frame *frame);

/* request_refuse: an answer without a request, without waiting for the peer to read it. */
void request_refuse(int fd, enum proto_exit exit, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

#endif
