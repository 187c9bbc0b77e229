// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/ledger.h"
#include "fs/node_table.h"

enum { INDEX_FIRST = 4096 };

static int add_root(struct node_table *t, uint64_t exclude)
{
	struct stat st;
	struct tree_key key;
	uint32_t slot;
	int r = tree_stat(t->tree->root_fd, &st);

	if (r == 0)
		r = tree_key_get(t->tree, t->tree->root_fd, &st, &key);
	if (r == 0)
		r = node_slot_new(t, &key, st.st_ino, &slot);
	if (r < 0)
		return r;
	assert(slot == NODE_ROOT_SLOT);
	t->shared->slots[slot].generation =
		t->shared->header->layout == SHARED_LAYOUT_ROOT_IS_1 ? 0 : 1;
	t->shared->slots[slot].flags |= NODE_DIRECTORY;
	t->shared->slots[slot].exclude = exclude;
	t->shared->slots[slot].nlookup = 1;
	return node_slot_pin(t, slot, t->tree->root_fd);
}

/* A server died in the middle of a change: it has not happened. */
static int undo_change(struct shared *shared)
{
	struct shared_header *h = shared->header;
	struct table_undo *u = &h->undo;

	if (!atomic_load(&u->armed))
		return 0;
	if (u->slot >= h->slot_count || u->record > LEDGER_THREADS_MAX ||
	    u->lookup_count > LEDGER_LOOKUPS_MAX)
		return -EPROTO;
	shared->slots[u->slot] = u->before;
	if (u->record > 0) {
		struct ledger_record *rec = &h->ledger.active[u->record - 1];

		rec->lookup_count = u->lookup_count;
		rec->opened = u->opened;
		rec->closing_id = u->closing_id;
	}
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store(&u->armed, 0);
	return 0;
}

/* The slots are the truth; the free list and the index follow from them. */
static int adopt_slots(struct node_table *t)
{
	struct shared_header *h = t->shared->header;

	h->free_head = 0;
	for (uint32_t slot = h->slot_count - 1; slot >= 1; slot--) {
		struct node_slot *s = &t->shared->slots[slot];

		if (s->handle_len > NODE_HANDLE_MAX)
			return -EPROTO;
		if (!(s->flags & NODE_USED)) {
			s->next_free = h->free_head;
			h->free_head = slot;
			continue;
		}
		s->flags &= ~(uint32_t)(NODE_HELD | NODE_KEPT);
		node_index_put(t, slot);
		atomic_fetch_add(node_ino_count(t, s->ino), 1);
		t->used++;
		t->opens += s->nopen;
		/* Made or forgotten when the server died: nobody has heard of it, or not any more. */
		node_slot_release(t, slot);
	}
	return 0;
}

int node_attach(struct node_table *t, uint64_t root_exclude)
{
	struct shared_header *h = t->shared->header;
	size_t size = INDEX_FIRST;
	int r;

	if (h->slot_count > t->shared->slot_capacity)
		return -EPROTO;
	while (size < 2 * (size_t)h->slot_count)
		size *= 2;
	r = node_index_resize(t, size);
	if (r < 0)
		return r;
	if (h->slot_count == 0) {
		/* Slot 0 is never used: node id 0 means "none" to the kernel. */
		h->slot_count = 1;
		return add_root(t, root_exclude);
	}
	r = undo_change(t->shared);
	if (r == 0)
		r = adopt_slots(t);
	if (r < 0)
		return r;
	return node_slot_pin(t, NODE_ROOT_SLOT, t->tree->root_fd);
}

/*
 * The descriptor lies on the dead server's mount, between which and ours nothing can be linked. As long as
 * it holds the inode, the inode's handle leads to it on ours.
 */
static int open_on_our_mount(struct node_table *t, uint32_t slot, int pin)
{
	const struct node_slot *s = &t->shared->slots[slot];
	struct tree_key key = { .is_handle = !(s->flags & NODE_KEYED),
				.type = s->handle_type,
				.len = s->handle_len };
	int fd;

	memcpy(key.bytes, s->handle, sizeof(key.bytes));
	return tree_open_handle(t->tree, &key, &fd) < 0 ? pin : fd;
}

void node_adopt(struct node_table *t, uint32_t slot, int fd)
{
	AUTO_FD int pin = fd;
	struct node_slot *s;
	struct stat st;
	int ours;

	pthread_mutex_lock(&t->lock);
	s = &t->shared->slots[slot];
	if (slot > 0 && slot < t->shared->header->slot_count && s->flags & NODE_USED &&
	    s->nlookup > 0 && t->pins[slot] == 0) {
		s->flags |= NODE_HELD;
		/* It may have lost its last link in the call before which it was pinned. */
		if (tree_stat(pin, &st) == 0 && st.st_nlink == 0)
			s->flags |= NODE_UNLINKED;
		ours = open_on_our_mount(t, slot, pin);
		if (ours == pin)
			take_fd(&pin);
		node_pin_put(t, slot, ours);
	} else if (t->keeper.let_go) {
		t->keeper.let_go(t->keeper.context, slot, &pin);
	}
	node_table_unlock(t);
}

/* The request's open has not happened. Table lock held. */
static void take_open_back(struct node_table *t, struct ledger_record *rec)
{
	struct node_slot *s = &t->shared->slots[rec->opened];

	if (rec->opened >= t->shared->header->slot_count || s->nopen == 0) {
		rec->opened = 0;
		return;
	}
	node_change_begin(t, rec->opened);
	s->nopen--;
	t->opens--;
	if (s->nopen == 0 && s->flags & NODE_PASSTHROUGH) {
		rec->closing_id = s->backing_id;
		s->backing_id = 0;
		s->flags &= ~(uint32_t)NODE_PASSTHROUGH;
	}
	rec->opened = 0;
	node_change_end(t);
}

void node_take_back(struct node_table *t, struct ledger_record *rec)
{
	pthread_mutex_lock(&t->lock);
	if (rec->opened != 0) {
		uint32_t slot = rec->opened;

		take_open_back(t, rec);
		if (slot < t->shared->header->slot_count &&
		    t->shared->slots[slot].flags & NODE_USED)
			node_slot_release(t, slot);
	}
	while (rec->lookup_count > 0) {
		uint32_t slot = rec->lookups[rec->lookup_count - 1];
		struct node_slot *s = &t->shared->slots[slot];

		if (slot == 0 || slot >= t->shared->header->slot_count || !(s->flags & NODE_USED)) {
			rec->lookup_count--;
			continue;
		}
		node_change_begin(t, slot);
		s->nlookup -= s->nlookup > 0;
		rec->lookup_count--;
		node_change_end(t);
		node_slot_release(t, slot);
	}
	node_table_unlock(t);
}

void node_find_backing(struct node_table *t, int32_t first, size_t count, bool *ret_used)
{
	for (size_t i = 0; i < count; i++)
		ret_used[i] = false;
	pthread_mutex_lock(&t->lock);
	for (uint32_t slot = 1; slot < t->shared->header->slot_count; slot++) {
		const struct node_slot *s = &t->shared->slots[slot];

		if (s->flags & NODE_USED && s->backing_id >= first &&
		    (size_t)(s->backing_id - first) < count)
			ret_used[s->backing_id - first] = true;
	}
	node_table_unlock(t);
}

void node_drop_unknown(struct node_table *t, bool (*is_known)(void *context, uint64_t id),
		       void *context)
{
	uint32_t count = t->shared->header->slot_count;

	for (uint32_t slot = 1; slot < count; slot++) {
		const struct node_slot *s = &t->shared->slots[slot];

		if ((s->flags & (NODE_USED | NODE_UNLINKED)) != (NODE_USED | NODE_UNLINKED) ||
		    is_known(context, node_id_of(t, slot)))
			continue;
		node_forget(t, node_id_of(t, slot), UINT64_MAX);
	}
}

void node_note_release(struct shared *shared, uint64_t id)
{
	uint32_t slot = (uint32_t)id;
	struct node_slot *s = &shared->slots[slot];

	if (slot > 0 && slot < shared->header->slot_count && s->flags & NODE_USED &&
	    s->generation == id >> 32 && s->nopen > 0)
		s->nopen--;
}
