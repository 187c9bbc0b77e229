/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CLIENTS_H
#define MOUNTD_CLIENTS_H

/*
 * clients: the connections of the daemon. Requests are received by the server's one thread, piece by piece,
 * without waiting for anybody; only a request that is complete gets a thread, until it is answered. So who is
 * idle, slow or half there costs a descriptor and what he has sent.
 *
 * Each kind of peer has bounds of its own (a table in clients.c): whoever may only look can neither take
 * root's place nor its memory. Knows frames and peers. Does not know requests: request_serve() answers them.
 *
 * All but clients_new() and clients_free() are the server's thread's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/base/cleanup.h"
#include "mountd/manager.h"

struct clients;

/*
 * clients_new: @status_gid: the group that may look, or GID_UNSET.
 * Raises the limit of open files as far as it may, and takes less clients where it is low.
 */
int clients_new(struct manager *m, gid_t status_gid, struct clients **ret_clients);

/* clients_free: after clients_drain(), or before the first client. Accepts NULL. */
void clients_free(struct clients *clients);
DEFINE_AUTO(clients)

/* clients_poll_fd: readable when clients_serve() has something to do. */
int clients_poll_fd(const struct clients *clients);

/* clients_add: a connection that was accepted; takes @fd. Who may not ask, or is one too many, is sent away. */
void clients_add(struct clients *clients, int fd);

/* clients_serve: receives what is there, and starts what is complete. Does not block. */
void clients_serve(struct clients *clients);

/* clients_expire: sends away whose request does not get complete in time. */
void clients_expire(struct clients *clients);

/* clients_receive_some: whether a request is partly there, so that clients_expire() is to be called each second. */
bool clients_receive_some(struct clients *clients);

/* clients_idle_ms: for how long there has been none; 0 while there is one. */
uint64_t clients_idle_ms(struct clients *clients);

/*
 * clients_drain: after manager_stop(): requests that run are answered, all other connections end.
 * Returns when there is none.
 */
void clients_drain(struct clients *clients);

#endif
