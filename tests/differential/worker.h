/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_WORKER_H
#define TESTS_DIFFERENTIAL_WORKER_H

/*
 * worker: a process with an identity of its own that makes one system call at a time, on the side that
 * it is told: the same process on both sides, so that nothing but the file systems differs.
 */

#include "tests/differential/step.h"

enum { SIDE_EAGER, SIDE_OVERLAY, SIDES };

struct worker {
	pid_t pid;
	int fd; /* of the driver: SOCK_SEQPACKET */
};

/* worker_name: identity and first umask, in words. */
const char *worker_name(unsigned index);

/* worker_start: @root_fds: of each side, O_RDONLY. Returns 0 or -errno. */
int worker_start(unsigned index, const int root_fds[SIDES], struct worker *ret);
void worker_stop(struct worker *w);

/* worker_run: -ETIME when no answer comes in time, -EPIPE when the worker is gone. */
int worker_run(struct worker *w, unsigned side, const struct step *step, struct result *ret_result);

#endif
