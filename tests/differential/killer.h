/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_KILLER_H
#define TESTS_DIFFERENTIAL_KILLER_H

/*
 * killer: kills the overlay's server at random moments, or has another take over from it, as long as it runs, in a
 * thread of its own.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct killer {
	pthread_t thread;
	atomic_bool stop;
	int control_fd; /* to the keeper; -1: not running */
	unsigned seed, most_ms;
	unsigned kills, upgrades;
	int program_fd; /* of other servers */
};

/*
 * killer_start: takes @control_fd over. Kills, or upgrades to @program, after 1 to @most_ms milliseconds, and again.
 * 0 or -errno.
 */
int killer_start(struct killer *k, int control_fd, const char *program, unsigned seed,
		 unsigned most_ms);

/* killer_stop: safe when it does not run. Returns how many servers it has killed; those that were followed are in *k. */
unsigned killer_stop(struct killer *k);

#endif
