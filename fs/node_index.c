// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/node_table.h"

uint64_t node_mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

static uint64_t hash(const struct node_table *t, const unsigned char *bytes, uint32_t len)
{
	uint64_t h = t->index_seed[0] ^ len;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
		h = node_mix(h ^ word) + t->index_seed[1];
	}
	return node_mix(h);
}

static bool slot_has_key(const struct node_slot *slot, const struct tree_key *key)
{
	return slot->handle_len == key->len && slot->handle_type == key->type &&
	       !(slot->flags & NODE_KEYED) == key->is_handle &&
	       memcmp(slot->handle, key->bytes, key->len) == 0;
}

/* The place of @key in the index: where it stands, or the empty place where it belongs. */
static size_t index_place(const struct node_table *t, const struct tree_key *key)
{
	size_t at = hash(t, key->bytes, key->len) & (t->index_size - 1);

	while (t->index[at] != 0 && !slot_has_key(&t->shared->slots[t->index[at]], key))
		at = (at + 1) & (t->index_size - 1);
	return at;
}

static size_t slot_home(const struct node_table *t, uint32_t slot)
{
	const struct node_slot *s = &t->shared->slots[slot];

	return hash(t, s->handle, s->handle_len) & (t->index_size - 1);
}

void node_index_put(struct node_table *t, uint32_t slot)
{
	size_t at = slot_home(t, slot);

	while (t->index[at] != 0)
		at = (at + 1) & (t->index_size - 1);
	t->index[at] = slot;
	t->index_used++;
}

int node_index_resize(struct node_table *t, size_t size)
{
	uint32_t *old = t->index;
	size_t old_size = t->index_size;
	uint32_t *fresh = calloc(size, sizeof(*fresh));

	if (!fresh)
		return -ENOMEM;
	t->index = fresh;
	t->index_size = size;
	t->index_used = 0;
	for (size_t i = 0; i < old_size; i++) {
		if (old[i] != 0)
			node_index_put(t, old[i]);
	}
	free(old);
	return 0;
}

/* Backward-shift deletion: no tombstones, so that years of lookups and forgets cost nothing. */
void node_index_remove(struct node_table *t, uint32_t slot)
{
	size_t mask = t->index_size - 1;
	size_t hole = slot_home(t, slot);

	while (t->index[hole] != slot) {
		assert(t->index[hole] != 0);
		hole = (hole + 1) & mask;
	}
	for (size_t at = (hole + 1) & mask; t->index[at] != 0; at = (at + 1) & mask) {
		size_t home = slot_home(t, t->index[at]);

		if (((at - home) & mask) >= ((at - hole) & mask)) {
			t->index[hole] = t->index[at];
			hole = at;
		}
	}
	t->index[hole] = 0;
	t->index_used--;
}

uint32_t node_index_find(const struct node_table *t, const struct tree_key *key)
{
	return t->index[index_place(t, key)];
}
