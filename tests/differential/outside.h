/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_OUTSIDE_H
#define TESTS_DIFFERENTIAL_OUTSIDE_H

/*
 * outside: when all else is in a user namespace, a process that is not: it does for those inside what only the
 * machine's root may, in their mount namespace.
 */

#include <stdint.h>

enum { OUTSIDE_FIRST_ID = 300000 }; /* what those inside have as 0 */

/* What is done inside, and what outside; each gets the context. */
struct outside_work {
	/* inside: as root of a user namespace of 65536 ids. @ask_fd: for outside_ask(). Returns the exit status. */
	int (*inside)(void *context, int ask_fd);
	/* outside: whenever it is asked for. @userns_fd: of those inside. Returns 0 or -errno. */
	int (*outside)(void *context, int userns_fd, uint64_t argument);
	void *context;
};

/* outside_run: both, until what is inside ends. Returns its exit status, or -errno. */
int outside_run(const struct outside_work *work);

/* outside_ask: returns what work->outside() did, -EPIPE when it is gone. */
int outside_ask(int ask_fd, uint64_t argument);

#endif
