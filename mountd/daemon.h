/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_DAEMON_H
#define MOUNTD_DAEMON_H

/*
 * daemon: what makes a process a daemon of this project: alone for its root, apart from who started
 * it, and with nothing to leak. Called by main before there are threads.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "mountd/path.h"

/*
 * daemon_harden: umask 077; no core dumps and no ptrace by others of the same uid (payloads are in our
 * memory); every inherited descriptor above 2 closed.
 * @keep_fd: but this one; -1: none
 */
int daemon_harden(int keep_fd);

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
 * @is_socket_passed: whoever has the lock has lost his socket to the one that was passed to us, and will end
 * Returns 0, -EALREADY (one is there and answers), -ETIMEDOUT, or -errno.
 */
int daemon_lock(const struct layout *layout, bool is_socket_passed, int *ret_lock_fd);

/* Which socket is ours: another may come to stand at its path. */
struct daemon_socket {
	int fd;
	dev_t dev;
	ino_t ino;
	bool is_passed; /* it is the service manager's: it stays when we end */
};

/* daemon_listen: the socket, mode 0600; a stale one is replaced. With the lock held. */
int daemon_listen(const struct layout *layout, struct daemon_socket *ret_socket);

/*
 * daemon_listen_passed: the same with a listening socket that was passed; takes @fd.
 * -EADDRNOTAVAIL: it is not the one at our path, where clients look for us.
 */
int daemon_listen_passed(const struct layout *layout, int fd, struct daemon_socket *ret_socket);

/*
 * daemon_let_in: lets the group @gid connect as well: the socket gets 0660, its directory 0710. With GID_UNSET
 * both are root's alone (again).
 */
int daemon_let_in(const struct layout *layout, gid_t gid);

/* daemon_socket_stands: whether it is still at its path. Where not, clients are another's. */
bool daemon_socket_stands(const struct layout *layout, const struct daemon_socket *socket);

/* daemon_socket_close: out of sight, unless it is the service manager's, or another stands there. */
void daemon_socket_close(const struct layout *layout, struct daemon_socket *socket);

/* daemon_log_open: DIR/var/lib/fsgroupfs/mountd.log, 0600, to be appended to. */
int daemon_log_open(const struct layout *layout, int *ret_fd);

/*
 * daemon_log_bound: of standard error, the log: above a size what is in it moves to mountd.log.1, and it is
 * empty. It stays the same file: keepers write to it too, and outlive us. On a full disk the old lines are
 * lost.
 */
void daemon_log_bound(const struct layout *layout);

/* daemon_enter_cgroup: into the daemons' control group (control_group.h). daemon_leave_cgroup: out of it again. */
void daemon_enter_cgroup(void);
void daemon_leave_cgroup(void);

#endif
