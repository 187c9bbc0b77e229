/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SERVER_H
#define MOUNTD_SERVER_H

/*
 * server: the loop that accepts clients and receives what they ask (clients.h), and ends the daemon: at SIGTERM
 * or SIGINT, when there has been neither a volume nor a client for a while, or when another socket has come to
 * stand at its socket's path.
 */

#include "mountd/daemon.h"
#include "mountd/manager.h"
#include "mountd/service.h"

struct server_options {
	struct manager *m;
	const struct layout *layout;
	const struct service *service;
	struct daemon_socket socket; /* listening; closed by server_run(), but for a successor */
	gid_t status_gid;	     /* who may look, or GID_UNSET */
	uint64_t idle_ms;	     /* UINT64_MAX: never ends because of idleness */
	bool log_is_ours;	     /* standard error is daemon_log_open()'s */
};

/*
 * server_run: returns when the daemon is to end, with every request that ran answered. Where the manager has a successor
 * for it, the socket stays as it is, and open; whoever connects waits for the successor.
 * The calling thread must have SIGTERM, SIGINT, SIGUSR1 and SIGCHLD blocked before any thread was made.
 */
int server_run(const struct server_options *options);

#endif
