/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_SUPERVISOR_H
#define TESTS_DIFFERENTIAL_SUPERVISOR_H

/*
 * supervisor: nothing outlives the driver, however it ends. Keepers are nobody's children, and their mounts last as long
 * as they do; a process namespace would take them along, but not every trial can be in one.
 *
 *   driver ── supervisor ── work ── ...
 *
 * Driver and supervisor are whose children orphans become, and the death of each is told to the one behind it: so each
 * alone may be killed by SIGKILL. The supervisor is in no group with the driver.
 */

#include <stdbool.h>

struct supervised {
	int (*work)(void *context); /* its exit status */
	/* When all processes have ended; by the supervisor, and by the driver. */
	void (*clean_up)(void *context);
	void *context;
	bool has_own_pids; /* in a process namespace of its own, whose first process it is */
};

/*
 * supervisor_run: by the driver, which has no other thread and no other child. SIGINT, SIGTERM and SIGHUP end the work from
 * now on. Returns the exit status, or -errno; -ECHILD: there
 * is none, for it was killed.
 */
int supervisor_run(const struct supervised *s);

#endif
