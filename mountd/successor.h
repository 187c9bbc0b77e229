/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SUCCESSOR_H
#define MOUNTD_SUCCESSOR_H

/*
 * successor: the program that takes this daemon's place, in its process: it keeps the process id, the listening socket,
 * where requests wait meanwhile, and where the log goes.
 *
 * Knows fsgroup-mountd's command line (--check, --follow) and sd_listen_fds(3)'s way to pass a socket, by which the
 * successor takes it.
 */

#include <stdbool.h>

#include "mountd/daemon.h"
#include "mountd/service.h"

#define SUCCESSOR_ERROR_MAX 512
#define SUCCESSOR_VERSION_SIZE 64

/* What --check says of a program. */
struct successor_says {
	char version[SUCCESSOR_VERSION_SIZE];
	int schema; /* of the store, as it would be then */
};

/*
 * successor_check: has the program @program_fd look whether it could be the daemon of @root. Any thread. Blocks for some
 * seconds at most. 0, or -errno with a line in *ret_error (SUCCESSOR_ERROR_MAX bytes).
 */
int successor_check(int program_fd, const char *root, struct successor_says *ret_says,
		    char *ret_error);

/* successor_say: what --check prints. @root: of which the store is tried. Returns the exit status. */
int successor_say(const char *root);

/* The value of --follow: what of the predecessor goes on. */
struct successor_inherits {
	bool log_is_ours, socket_is_ours;
};

/* successor_parse: 0 or -EINVAL. */
int successor_parse(const char *text, struct successor_inherits *ret_inherits);

/*
 * successor_exec: becomes the program @program_fd. When there is one thread left, and nothing that must be closed.
 * @argv: of this process. Returns -errno; then everything is as before but the environment.
 */
int successor_exec(int program_fd, char *const *argv, const struct daemon_socket *socket,
		   bool log_is_ours, const struct service *service);

#endif
