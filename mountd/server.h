/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SERVER_H
#define MOUNTD_SERVER_H

/*
 * server: the loop that accepts clients, each in a thread of its own, and ends the daemon: at SIGTERM
 * or SIGINT, or when there has been neither a volume nor a client for a while.
 */

#include <stdint.h>

#include "mountd/manager.h"

#define SERVER_CLIENTS_MAX 256

/*
 * server_run: returns when the daemon is to end, with every request answered and @listen_fd closed.
 * @idle_ms: UINT64_MAX: never because of idleness
 * The calling thread must have SIGTERM, SIGINT and SIGCHLD blocked before any thread was made.
 */
int server_run(struct manager *m, const struct layout *layout, int listen_fd, uint64_t idle_ms,
	       bool log_is_ours);

#endif
