/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CHILD_H
#define FS_CHILD_H

/*
 * child: the process that answers the overlay's requests: its start, its end. For the keeper; one thread.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "fs/options.h"
#include "fs/shared.h"

struct child {
	pid_t pid;	/* 0: none */
	int pidfd;	/* readable at its end */
	int channel_fd; /* channel.h; -1 also when it has closed its side */
};
#define CHILD_NONE ((struct child){ .pid = 0, .pidfd = -1, .channel_fd = -1 })

struct child_setup {
	const struct overlay_options *options; /* as they apply */
	char **arguments;		       /* the -o arguments as given, ends with NULL */
	int device_fd, shared_fd, tree_fd;     /* of server_fds; stay the caller's */
	int program_fd;			       /* of the server's program; -1: the caller's own */
};

/*
 * child_start: starts the program as the server. 0 or -errno; then there is none. That it cannot be executed
 * is the child's first message, a CHANNEL_FAILED.
 */
int child_start(const struct child_setup *setup, struct child *ret_child);

/*
 * child_refuse: starts a process that answers every request on @device_fd with EIO, until the connection
 * ends: what is left when no server stays alive. It reads of a request what an answer must name, and
 * counts a release in the node table, so that no file seems open for ever. 0 or -errno.
 */
int child_refuse(int device_fd, struct shared *shared, struct child *ret_child);

/*
 * child_reap: after its end: *ret_status as of waitpid(2), and nothing is left of *c. Returns 0, or
 * -EAGAIN when it has not ended yet.
 */
int child_reap(struct child *c, int *ret_status);

/* child_end: kills it and waits. Safe when there is none. */
void child_end(struct child *c);

#endif
