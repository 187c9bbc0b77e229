// SPDX-License-Identifier: Apache-2.0
#include "fs/node_table.h"

bool node_prepare_prune(struct node_table *t, uint64_t id)
{
	bool is_resting = false;
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0) {
		struct node_slot *s = &t->shared->slots[slot];

		is_resting = s->flags & NODE_WRITTEN && s->nopen == 0;
		/* One that is keyed holds a descriptor as long as it is known. */
		if (is_resting && !(s->flags & NODE_KEYED))
			s->flags |= NODE_KEPT;
	}
	node_table_unlock(t);
	return is_resting;
}

uint32_t node_pinned(const struct node_table *t)
{
	return atomic_load_explicit(&t->pinned, memory_order_relaxed);
}

void node_limit_pinned(struct node_table *t, uint32_t most)
{
	atomic_store_explicit(&t->pinned_most, most, memory_order_relaxed);
}

/* Unlinked, it has no name that the kernel could drop. */
static bool costs_without_use(const struct node_table *t, uint32_t slot)
{
	const struct node_slot *s = &t->shared->slots[slot];

	return slot != NODE_ROOT_SLOT && t->pins[slot] != 0 && s->nopen == 0 && s->nlookup > 0 &&
	       (s->flags & (NODE_USED | NODE_UNLINKED)) == NODE_USED;
}

unsigned node_choose_pinned(struct node_table *t, uint32_t *io_slot, unsigned span,
			    uint64_t *ret_ids)
{
	unsigned count = 0;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < span && *io_slot < t->shared->header->slot_count;
	     i++, (*io_slot)++) {
		if (costs_without_use(t, *io_slot))
			ret_ids[count++] = node_id_of(t, *io_slot);
	}
	if (*io_slot >= t->shared->header->slot_count)
		*io_slot = 0;
	node_table_unlock(t);
	return count;
}
