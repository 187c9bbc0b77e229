/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_REFRESH_H
#define TESTS_DIFFERENTIAL_REFRESH_H

/*
 * refresh: random changes behind the overlay's back: on A, and the same on the tree that lies below B, as a plugin or
 * whoever shares a volume makes them.
 *
 * What is left out is in compare.h.
 */

#include "tests/differential/compare.h"

struct refresh {
	int eager_fd, lower_fd;
	/*
	 * While files are converged: what arrives has its ownership before it gets its name, on both sides, and nothing
	 * is moved to where the walk may have been. Else it arrives with another, and A's is changed eagerly.
	 */
	bool converges;
	const uint64_t
		*pins; /* A's inodes that somebody has open without the server knowing: compare.h */
	unsigned pin_count;
};

/* refresh_run: some changes; returns how many could be made. One that can on one side alone is a difference. */
unsigned refresh_run(const struct refresh *r, uint64_t seed, struct difference *d);

#endif
