/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_DAEMON_H
#define MOUNTD_DAEMON_H

/*
 * daemon: what makes a process a daemon of this project: alone for its root, apart from who started
 * it, and with nothing to leak. Called by main before there are threads.
 */

#include "mountd/path.h"

/*
 * daemon_harden: umask 077; no core dumps and no ptrace by others of the same uid (payloads are in our
 * memory); every inherited descriptor above 2 closed.
 */
int daemon_harden(void);

/*
 * daemon_fork: goes on in a grandchild in a session of its own. The first process waits for
 * daemon_ready() in the grandchild and exits with 0, or with 1 when that ended before.
 * @ret_ready_fd: for daemon_ready()
 */
int daemon_fork(int *ret_ready_fd);

/* daemon_ready: lets the first process exit. @log_fd becomes standard error. */
int daemon_ready(int ready_fd, int log_fd);

/*
 * daemon_lock: the one lock of this root. A daemon that is just ending is waited for, a few seconds.
 * Returns 0, -EALREADY (one is there and answers), -ETIMEDOUT, or -errno.
 */
int daemon_lock(const struct layout *layout, int *ret_lock_fd);

/* daemon_listen: the socket, mode 0600; a stale one is replaced. With the lock held. */
int daemon_listen(const struct layout *layout, int *ret_fd);

/* daemon_log_open: DIR/var/lib/fsgroupfs/mountd.log, 0600; above a size the old one moves to mountd.log.1. */
int daemon_log_open(const struct layout *layout, int *ret_fd);

/* daemon_log_bound: standard error, the log, changed for a new one when it has grown too much. */
void daemon_log_bound(const struct layout *layout);

/* daemon_enter_cgroup: into the daemons' control group (control_group.h). daemon_leave_cgroup: out of it again. */
void daemon_enter_cgroup(void);
void daemon_leave_cgroup(void);

#endif
