/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PLAN_H
#define MOUNTD_PLAN_H

/*
 * plan: what is to be shown at a volume's target, decided before anything is done (design, sections 2
 * and 4): the lower tree itself, an overlay of its own, or another volume's overlay. Part of the
 * manager; called by present only, with the tree's key locked from plan_decide() on.
 */

#include "mountd/manager_impl.h"

struct plan {
	bool native;
	bool is_virtual;
	const char *reason; /* why native, or NULL */
	char *tree, *wanted;
	struct run_record *run; /* resumed or new; NULL for native and virtual */
	bool resumes;		/* the run began before: files may carry its mark */
	uint64_t total;		/* entries that the last finished run saw; 0: none */
	struct overlay
		*shared; /* another volume's overlay of the same tree, to be cloned; or NULL */
	char shared_with[VOLUME_ID_MAX + 1];
};

void plan_free(struct plan *plan);
DEFINE_AUTO(plan)

/*
 * plan_is_plainly_native: whether there is nothing to show, so that no look at the tree is needed.
 * Sets plan->reason and p->note.
 */
bool plan_is_plainly_native(struct presenting *p, const struct stat *lower, struct plan *plan);

/*
 * plan_decide: plan->tree is known. May own the root of a tree that is empty otherwise.
 * Returns 0, -EBUSY (a conflict that is refused), -ENOMEM, the store's errors; p->error says which.
 */
int plan_decide(struct presenting *p, const struct stat *lower, struct plan *plan);

/* presenting_fail: @error, with a line in p->error. */
int presenting_fail(struct presenting *p, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int presenting_store_failed(struct presenting *p, int error);

#endif
