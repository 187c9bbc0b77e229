/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_OP_H
#define TESTS_DIFFERENTIAL_OP_H

/*
 * op: the table of operations. Each makes up its arguments, and executes in a worker, whose current
 * directory is where the step's paths begin. The rows lie by noun in op_file.c, op_name.c, op_attr.c
 * and op_misc.c.
 */

#include "tests/differential/step.h"

struct op {
	const char *name;
	const char *arguments; /* a letter for each that step_print() shows */
	unsigned weight;
	void (*generate)(struct generator *g, struct step *step);
	/* The call's result, -1 with errno. NULL: the driver does it (converging). */
	int64_t (*run)(struct hands *h, const struct step *step, struct result *r);
};

extern const struct op op_file_rows[], op_name_rows[], op_attr_rows[], op_misc_rows[];
extern const unsigned op_file_count, op_name_count, op_attr_count, op_misc_count;

const struct op *op_get(unsigned index);
bool op_is(unsigned index, const char *name);

/* op_generate: a random step. */
void op_generate(struct generator *g, struct step *ret_step);

/* What the rows share. */
void pick_existing(struct generator *g, char ret_path[TREE_PATH_MAX]);
void pick_type(struct generator *g, mode_t type, char ret_path[TREE_PATH_MAX]);
void pick_new(struct generator *g, char ret_path[TREE_PATH_MAX]);
void pick_slot(struct generator *g, const struct step *step, uint8_t *ret_slot);

static inline int slot_fd(const struct hands *h, uint8_t slot)
{
	return h->slots[slot % SLOTS];
}

/* What is left out (compare.h) hangs on these: FS_*_FL, 0 where they are not known, and security.capability. */
int file_flags(int fd);
bool has_capability(int fd);

/* slot_set: what was open there is closed first. Returns 0, or -1 with errno when @fd is none. */
int64_t slot_set(struct hands *h, uint8_t slot, int fd);

#endif
