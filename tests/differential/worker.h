/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_WORKER_H
#define TESTS_DIFFERENTIAL_WORKER_H

/*
 * worker: a process with an identity of its own that makes one system call at a time, on one side and then
 * on the other: the same process on both, so that nothing but the file systems differs.
 */

#include "tests/differential/step.h"
#include "tests/differential/volume.h"

enum { SIDE_EAGER, SIDE_OVERLAY, SIDES };

struct exchange;

struct worker {
	pid_t pid;
	int fd;			   /* of the driver: SOCK_SEQPACKET; -1: it was not started */
	struct exchange *exchange; /* memory that both have */
};

/* worker_name: identity and first umask, in words. */
const char *worker_name(unsigned index);

/* worker_start: @volume: where it belongs; @root_fds: of each side, O_RDONLY. Returns 0 or -errno. */
int worker_start(unsigned index, const struct volume *volume, const int root_fds[SIDES],
		 struct worker *ret);
void workers_stop(struct worker workers[WORKERS]);

/*
 * worker_run: the step on all sides.
 * @ret_results: by side, the worker's until the next step.
 * @ret_side:    on failure: where it was.
 *
 * Returns 0, -ETIME when no answer comes in time, -EPIPE when the worker is gone.
 */
int worker_run(struct worker *w, const struct step *step, const struct result **ret_results,
	       unsigned *ret_side);

/* worker_borrow: what the worker's descriptor @fd is open on, without opening it: the caller's, or -errno. */
int worker_borrow(const struct worker *w, int fd);

#endif
