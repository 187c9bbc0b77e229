// SPDX-License-Identifier: Apache-2.0
#include "fs/node.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum { INODE_LOCKS = 256, INDEX_FIRST = 4096 };

/* The run must remember these slots after the kernel forgot them. */
#define NODE_REMEMBERED (NODE_SETTLED | NODE_MARKED)

struct node_table {
	struct shared *shared;
	const struct tree *tree;
	pthread_mutex_t lock; /* guards slots, index, pins and counts */

	uint32_t *index; /* open addressing: slot numbers, 0: empty; a power of two long */
	size_t index_size, index_used;
	uint64_t index_seed[2];

	int *pins; /* by slot: descriptor + 1, 0: none; address space for NODE_SLOTS_MAX */
	uint32_t used;
	_Atomic uint64_t opens;

	pthread_mutex_t inode_locks[INODE_LOCKS];
};

static uint32_t slot_of(uint64_t id)
{
	return (uint32_t)id;
}

static uint64_t id_of(const struct node_table *t, uint32_t slot)
{
	return (uint64_t)t->shared->slots[slot].generation << 32 | slot;
}

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ h >> 32;
}

/* Seeded: whoever chooses inode numbers must not choose the collisions too. */
static uint64_t hash(const struct node_table *t, const unsigned char *bytes, uint32_t len)
{
	uint64_t h = t->index_seed[0] ^ len;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, len - i < 8 ? len - i : 8);
		h = mix(h ^ word) + t->index_seed[1];
	}
	return mix(h);
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

static void index_put(struct node_table *t, uint32_t slot)
{
	size_t at = slot_home(t, slot);

	while (t->index[at] != 0)
		at = (at + 1) & (t->index_size - 1);
	t->index[at] = slot;
	t->index_used++;
}

static int index_resize(struct node_table *t, size_t size)
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
			index_put(t, old[i]);
	}
	free(old);
	return 0;
}

/* Backward-shift deletion: no tombstones, so that years of lookups and forgets cost nothing. */
static void index_remove(struct node_table *t, uint32_t slot)
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

static void unpin(struct node_table *t, uint32_t slot)
{
	int fd = t->pins[slot] - 1;

	t->pins[slot] = 0;
	cleanup_fd(&fd);
}

static int pin(struct node_table *t, uint32_t slot, int fd)
{
	int copy;

	if (t->pins[slot] != 0)
		return 0;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	t->pins[slot] = copy + 1;
	return 0;
}

static int slot_new(struct node_table *t, const struct tree_key *key, uint64_t ino,
		    uint32_t *ret_slot)
{
	struct shared_header *h = t->shared->header;
	struct node_slot *s;
	uint32_t slot = h->free_head;
	int r;

	if (2 * (t->index_used + 1) > t->index_size) {
		r = index_resize(t, 2 * t->index_size);
		if (r < 0)
			return r;
	}
	if (slot != 0) {
		h->free_head = t->shared->slots[slot].next_free;
	} else {
		r = shared_grow(t->shared, h->slot_count + 1);
		if (r < 0)
			return r;
		slot = h->slot_count++;
	}
	s = &t->shared->slots[slot];
	s->flags = NODE_USED | (key->is_handle ? 0 : NODE_KEYED);
	s->nlookup = 0;
	s->ino = ino;
	s->exclude = 0;
	s->nopen = 0;
	s->backing_id = 0;
	s->handle_type = key->type;
	s->handle_len = key->len;
	memcpy(s->handle, key->bytes, sizeof(s->handle));
	index_put(t, slot);
	t->used++;
	*ret_slot = slot;
	return 0;
}

/* Frees the slot when nobody needs it any more. */
static void slot_release(struct node_table *t, uint32_t slot)
{
	struct shared_header *h = t->shared->header;
	struct node_slot *s = &t->shared->slots[slot];

	if (s->nlookup > 0)
		return;
	if (s->flags & NODE_KEYED || s->nopen == 0)
		unpin(t, slot);
	if (s->nopen > 0 || (s->flags & NODE_REMEMBERED && !(s->flags & NODE_UNLINKED)))
		return;
	index_remove(t, slot);
	s->flags = 0;
	s->generation++;
	s->next_free = h->free_head;
	h->free_head = slot;
	t->used--;
}

static uint32_t slot_find(const struct node_table *t, const struct tree_key *key)
{
	return t->index[index_place(t, key)];
}

static int slot_check(const struct node_table *t, uint64_t id, uint32_t *ret_slot)
{
	uint32_t slot = slot_of(id);

	if (slot == 0 || slot >= t->shared->header->slot_count || id_of(t, slot) != id ||
	    !(t->shared->slots[slot].flags & NODE_USED))
		return -ESTALE;
	*ret_slot = slot;
	return 0;
}

static void info_of(const struct node_table *t, uint32_t slot, struct node_info *ret_info)
{
	const struct node_slot *s = &t->shared->slots[slot];

	ret_info->id = id_of(t, slot);
	ret_info->flags = s->flags;
	ret_info->ino = s->ino;
	ret_info->exclude = s->exclude;
}

static int add_root(struct node_table *t, uint64_t exclude)
{
	struct stat st;
	struct tree_key key;
	uint32_t slot;
	int r = tree_stat(t->tree->root_fd, &st);

	if (r == 0)
		r = tree_key_get(t->tree, t->tree->root_fd, &st, &key);
	if (r == 0)
		r = slot_new(t, &key, st.st_ino, &slot);
	if (r < 0)
		return r;
	assert(slot == NODE_ROOT);
	t->shared->slots[slot].flags |= NODE_DIRECTORY;
	t->shared->slots[slot].exclude = exclude;
	t->shared->slots[slot].nlookup = 1;
	return pin(t, slot, t->tree->root_fd);
}

static int attach(struct node_table *t, uint64_t root_exclude)
{
	struct shared_header *h = t->shared->header;
	size_t size = INDEX_FIRST;
	int r;

	if (h->slot_count > t->shared->slot_capacity)
		return -EPROTO;
	while (size < 2 * (size_t)h->slot_count)
		size *= 2;
	r = index_resize(t, size);
	if (r < 0)
		return r;
	if (h->slot_count == 0) {
		/* Slot 0 is never used: node id 0 means "none" to the kernel. */
		h->slot_count = 1;
		return add_root(t, root_exclude);
	}
	for (uint32_t slot = 1; slot < h->slot_count; slot++) {
		const struct node_slot *s = &t->shared->slots[slot];

		if (!(s->flags & NODE_USED))
			continue;
		if (s->handle_len > NODE_HANDLE_MAX)
			return -EPROTO;
		index_put(t, slot);
		t->used++;
		t->opens += s->nopen;
	}
	return pin(t, NODE_ROOT, t->tree->root_fd);
}

int node_table_new(struct shared *shared, const struct tree *tree, uint64_t root_exclude,
		   struct node_table **ret_table)
{
	struct node_table *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->shared = shared;
	t->tree = tree;
	pthread_mutex_init(&t->lock, NULL);
	for (int i = 0; i < INODE_LOCKS; i++)
		pthread_mutex_init(&t->inode_locks[i], NULL);
	if (getrandom(t->index_seed, sizeof(t->index_seed), 0) != sizeof(t->index_seed)) {
		node_table_free(t);
		return -EIO;
	}
	t->pins = mmap(NULL, (size_t)NODE_SLOTS_MAX * sizeof(int), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->pins == MAP_FAILED) {
		t->pins = NULL;
		node_table_free(t);
		return -ENOMEM;
	}
	r = attach(t, root_exclude);
	if (r < 0) {
		node_table_free(t);
		return r;
	}
	*ret_table = t;
	return 0;
}

void node_table_free(struct node_table *t)
{
	if (!t)
		return;
	if (t->pins) {
		/* The capacity is ours; the count stands in the shared memory, which may contradict itself. */
		for (uint32_t slot = 1; slot < t->shared->slot_capacity; slot++)
			unpin(t, slot);
		munmap(t->pins, (size_t)NODE_SLOTS_MAX * sizeof(int));
	}
	free(t->index);
	free(t);
}

/* Finds or makes the slot of @key. Table lock held. */
static int slot_obtain(struct node_table *t, const struct tree_key *key, uint64_t ino,
		       bool *ret_made, uint32_t *ret_slot)
{
	uint32_t slot = slot_find(t, key);

	*ret_made = slot == 0;
	if (slot == 0)
		return slot_new(t, key, ino, ret_slot);
	*ret_slot = slot;
	return 0;
}

int node_lookup(struct node_table *t, int fd, const struct stat *st, uint64_t exclude,
		struct node_info *ret_info)
{
	struct tree_key key;
	struct node_slot *s;
	uint32_t slot;
	bool made;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	pthread_mutex_lock(&t->lock);
	r = slot_obtain(t, &key, st->st_ino, &made, &slot);
	if (r == 0) {
		s = &t->shared->slots[slot];
		if (!key.is_handle)
			r = pin(t, slot, fd);
		if (r == 0) {
			if (S_ISDIR(st->st_mode))
				s->flags |= NODE_DIRECTORY;
			/* With several names, one that is not excluded decides. */
			if (made || s->nlookup == 0 || S_ISDIR(st->st_mode))
				s->exclude = exclude;
			else
				s->exclude &= exclude;
			s->nlookup++;
			info_of(t, slot, ret_info);
		} else {
			slot_release(t, slot);
		}
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

void node_forget(struct node_table *t, uint64_t id, uint64_t count)
{
	struct node_slot *s;
	uint32_t slot;

	if (id == NODE_ROOT)
		return;
	pthread_mutex_lock(&t->lock);
	if (slot_check(t, id, &slot) == 0) {
		s = &t->shared->slots[slot];
		s->nlookup -= count < s->nlookup ? count : s->nlookup;
		slot_release(t, slot);
	}
	pthread_mutex_unlock(&t->lock);
}

int node_get(struct node_table *t, uint64_t id, struct node_info *ret_info)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = slot_check(t, id, &slot);
	if (r == 0)
		info_of(t, slot, ret_info);
	pthread_mutex_unlock(&t->lock);
	return r;
}

int node_find(struct node_table *t, int fd, const struct stat *st, struct node_info *ret_info)
{
	struct tree_key key;
	uint32_t slot;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	pthread_mutex_lock(&t->lock);
	slot = slot_find(t, &key);
	if (slot != 0)
		info_of(t, slot, ret_info);
	pthread_mutex_unlock(&t->lock);
	return slot != 0 ? 0 : -ENOENT;
}

int node_open(struct node_table *t, uint64_t id, int *ret_fd, struct node_info *ret_info)
{
	struct tree_key key = { .is_handle = true };
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = slot_check(t, id, &slot);
	if (r == 0) {
		const struct node_slot *s = &t->shared->slots[slot];

		info_of(t, slot, ret_info);
		if (t->pins[slot] != 0) {
			r = fcntl(t->pins[slot] - 1, F_DUPFD_CLOEXEC, 0);
			r = r < 0 ? -errno : r;
			pthread_mutex_unlock(&t->lock);
			if (r < 0)
				return r;
			*ret_fd = r;
			return 0;
		}
		key.is_handle = !(s->flags & NODE_KEYED);
		key.type = s->handle_type;
		key.len = s->handle_len;
		memcpy(key.bytes, s->handle, sizeof(key.bytes));
	}
	pthread_mutex_unlock(&t->lock);
	if (r < 0)
		return r;
	return tree_open_handle(t->tree, &key, ret_fd);
}

int node_settle_key(struct node_table *t, const struct tree_key *key, uint64_t ino, uint32_t flags)
{
	uint32_t slot;
	bool made;
	int r;

	pthread_mutex_lock(&t->lock);
	r = slot_obtain(t, key, ino, &made, &slot);
	if (r == 0)
		t->shared->slots[slot].flags |= flags;
	pthread_mutex_unlock(&t->lock);
	return r;
}

int node_settle(struct node_table *t, int fd, const struct stat *st, uint32_t flags)
{
	struct tree_key key;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	return node_settle_key(t, &key, st->st_ino, flags);
}

int node_unlinked(struct node_table *t, int fd, const struct stat *st)
{
	struct tree_key key;
	uint32_t slot;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	pthread_mutex_lock(&t->lock);
	slot = slot_find(t, &key);
	if (slot != 0) {
		t->shared->slots[slot].flags |= NODE_UNLINKED;
		r = pin(t, slot, fd);
		slot_release(t, slot);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

void node_relinked(struct node_table *t, uint64_t id)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (slot_check(t, id, &slot) == 0)
		t->shared->slots[slot].flags &= ~(uint32_t)NODE_UNLINKED;
	pthread_mutex_unlock(&t->lock);
}

void node_set_exclude(struct node_table *t, uint64_t id, uint64_t exclude)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (slot_check(t, id, &slot) == 0)
		t->shared->slots[slot].exclude = exclude;
	pthread_mutex_unlock(&t->lock);
}

void node_release_settled(struct node_table *t, void (*unmark)(void *context, int fd),
			  void *context)
{
	/* New slots that appear meanwhile belong to no run: it is over. */
	uint32_t count = t->shared->header->slot_count;

	for (uint32_t slot = 1; slot < count; slot++) {
		AUTO_FD int fd = -1;
		struct node_info info;
		uint64_t id;
		uint32_t flags;

		pthread_mutex_lock(&t->lock);
		id = id_of(t, slot);
		flags = t->shared->slots[slot].flags;
		pthread_mutex_unlock(&t->lock);
		if (!(flags & NODE_USED) || !(flags & NODE_REMEMBERED))
			continue;
		if (flags & NODE_MARKED && node_open(t, id, &fd, &info) == 0)
			unmark(context, fd);
		pthread_mutex_lock(&t->lock);
		if (slot_check(t, id, &slot) == 0) {
			t->shared->slots[slot].flags &= ~(uint32_t)NODE_REMEMBERED;
			slot_release(t, slot);
		}
		pthread_mutex_unlock(&t->lock);
	}
}

int node_open_state_get(struct node_table *t, uint64_t id, struct node_open_state *ret_state)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = slot_check(t, id, &slot);
	if (r == 0) {
		const struct node_slot *s = &t->shared->slots[slot];

		ret_state->nopen = s->nopen;
		ret_state->flags = s->flags;
		ret_state->backing_id = s->backing_id;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

int node_open_state_set(struct node_table *t, uint64_t id, const struct node_open_state *state)
{
	const uint32_t theirs = NODE_PASSTHROUGH | NODE_WRITTEN | NODE_WRITER;
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = slot_check(t, id, &slot);
	if (r == 0) {
		struct node_slot *s = &t->shared->slots[slot];

		t->opens += state->nopen;
		t->opens -= s->nopen;
		s->nopen = state->nopen;
		s->backing_id = state->backing_id;
		s->flags = (s->flags & ~theirs) | (state->flags & theirs);
		slot_release(t, slot);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

uint64_t node_opens(const struct node_table *t)
{
	return t->opens;
}

uint32_t node_count(const struct node_table *t)
{
	return t->used;
}

void node_lock(struct node_table *t, uint64_t ino)
{
	pthread_mutex_lock(&t->inode_locks[mix(ino) % INODE_LOCKS]);
}

void node_unlock(struct node_table *t, uint64_t ino)
{
	pthread_mutex_unlock(&t->inode_locks[mix(ino) % INODE_LOCKS]);
}
