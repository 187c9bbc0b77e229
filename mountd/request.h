/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_REQUEST_H
#define MOUNTD_REQUEST_H

/*
 * request: what a client may ask (PROTOCOL.md): a table of commands and their handlers.
 *
 * Knows the protocol's arguments. Does not know how anything is done: a handler unpacks, makes one
 * call of the manager, and replies. One thread a connection.
 */

#include "mountd/manager.h"

/*
 * request_serve: answers the requests of one connection until it ends or the manager stops.
 * @fd: connected, of a checked peer; stays the caller's
 */
void request_serve(struct manager *m, enum front_end front, int fd);

#endif
