/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CLIENT_START_H
#define MOUNTD_CLIENT_START_H

/* ctl_start: a connection to the daemon of a root, which is started where none is running. One thread. */

#include <stddef.h>

/*
 * ctl_connect: a connected socket.
 * Starts of several clients at once are put in order by a lock; the loser finds the winner's daemon.
 * Blocks until the daemon is ready, which it says by an event.
 * Returns 0, or -errno with one line in @ret_error.
 */
int ctl_connect(const char *root, int *ret_fd, char *ret_error, size_t size);

/* ctl_connect_running: the same where one is running; -ENOENT, -ECONNREFUSED: none is. */
int ctl_connect_running(const char *root, int *ret_fd);

#endif
