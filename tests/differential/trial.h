/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_TRIAL_H
#define TESTS_DIFFERENTIAL_TRIAL_H

/* trial: one pair of trees, and one sequence of steps on both in lockstep. */

#include "tests/differential/compare.h"
#include "tests/differential/volume.h"

struct trial {
	struct volume_config volume;
	uint64_t seed; /* of the tree and, when they are made up, the steps */
	unsigned count;
	struct step *steps;
	bool has_next; /* another will be run at the volume's place, if this one finds no difference */
	uint64_t next_seed; /* that one's */
	unsigned kills;	    /* servers that were killed, in the end */
	unsigned changes;   /* that were made behind the overlay's back */
	unsigned upgrades;  /* and those that were followed by another while they lived */
};

/*
 * trial_run: runs the steps, made up on the way when @makes_up, and compares. At a difference it stops.
 * Returns 0 with *ret_difference, or -errno when the trial itself could not be made.
 */
int trial_run(struct trial *t, bool makes_up, struct difference *ret_difference);

/* trial_shrink: leaves steps out as long as the same kind of difference remains, for some seconds. */
void trial_shrink(struct trial *t, struct difference *io_difference, unsigned seconds);

/* trial_print: the script, with what it begins with. */
void trial_print(FILE *out, struct trial *t, const struct difference *d);

#endif
