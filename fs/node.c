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
#include "fs/base/lock.h"
#include "fs/ledger.h"
#include "fs/node_table.h"

void node_table_doom(struct node_table *t, int fd)
{
	if (fd >= 0 && t->doomed_count < DOOMED_MAX)
		t->doomed[t->doomed_count++] = fd;
	else
		cleanup_fd(&fd);
}

static void free_slot(struct node_table *t, uint32_t slot)
{
	t->shared->slots[slot].next_free = t->shared->header->free_head;
	t->shared->header->free_head = slot;
}

static void see_off(struct node_table *t, struct node_leaving *leaving, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		t->keeper.let_go(t->keeper.context, leaving[i].slot, &leaving[i].pin);
		cleanup_fd(&leaving[i].pin);
	}
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < count; i++)
		free_slot(t, leaving[i].slot);
	pthread_mutex_unlock(&t->lock);
}

void node_table_unlock(struct node_table *t)
{
	unsigned count = t->doomed_count, leaving_count = t->leaving_count;
	struct node_leaving leaving[LEAVING_MAX];
	int doomed[DOOMED_MAX];

	memcpy(doomed, t->doomed, count * sizeof(doomed[0]));
	memcpy(leaving, t->leaving, leaving_count * sizeof(leaving[0]));
	t->doomed_count = t->leaving_count = 0;
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < count; i++)
		close(doomed[i]);
	if (leaving_count > 0)
		see_off(t, leaving, leaving_count);
}

static struct node_directory *directory_of(struct node_table *t, uint32_t slot)
{
	return &t->directories[slot % DIRECTORIES];
}

static void drop_directory(struct node_table *t, struct node_directory *d)
{
	node_table_doom(t, d->fd);
	*d = (struct node_directory){ .fd = -1 };
}

static void forget_directory(struct node_table *t, uint32_t slot)
{
	struct node_directory *d = directory_of(t, slot);

	if ((uint32_t)d->id == slot)
		drop_directory(t, d);
}

/* The descriptor that is kept of the directory @id, or -1; then *ret_is_wanted says whether one is to be kept. */
static int kept_directory(struct node_table *t, uint64_t id, bool *ret_is_wanted)
{
	struct node_directory *d = directory_of(t, (uint32_t)id);

	*ret_is_wanted = false;
	if (d->id == id) {
		d->next_id = 0;
		*ret_is_wanted = d->fd < 0;
		return d->fd;
	}
	if (d->next_id == id) {
		drop_directory(t, d);
		d->id = id;
		*ret_is_wanted = true;
	} else {
		d->next_id = id;
	}
	return -1;
}

/* Opened meanwhile, without the lock: the walk's may be forgotten by now. */
static void keep_directory(struct node_table *t, uint64_t id, int fd)
{
	struct node_directory *d = directory_of(t, (uint32_t)id);
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (d->id == id && d->fd < 0 && node_slot_check(t, id, &slot) == 0 &&
	    (slot == NODE_ROOT_SLOT || t->shared->slots[slot].nlookup > 0))
		d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	node_table_unlock(t);
}

void node_slot_unpin(struct node_table *t, uint32_t slot)
{
	int fd = node_pin_take(t, slot);

	if (t->shared->slots[slot].flags & NODE_HELD && t->keeper.let_go) {
		t->shared->slots[slot].flags &= ~(uint32_t)NODE_HELD;
		t->keeper.let_go(t->keeper.context, slot, &fd);
	}
	node_table_doom(t, fd);
}

int node_slot_pin(struct node_table *t, uint32_t slot, int fd)
{
	int copy;

	if (t->pins[slot] != 0)
		return 0;
	if (node_pinned(t) >= atomic_load_explicit(&t->pinned_most, memory_order_relaxed))
		return -EMFILE;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	node_pin_put(t, slot, copy);
	return 0;
}

int node_slot_hold(struct node_table *t, uint32_t slot, int fd)
{
	struct node_slot *s = &t->shared->slots[slot];
	int r = node_slot_pin(t, slot, fd);

	if (r < 0 || !t->keeper.hold || s->flags & NODE_HELD)
		return r;
	t->keeper.hold(t->keeper.context, slot, fd);
	s->flags |= NODE_HELD;
	return 0;
}

void node_change_begin(struct node_table *t, uint32_t slot)
{
	struct shared_header *h = t->shared->header;
	const struct ledger_record *rec = ledger_current();
	struct table_undo *u = &h->undo;

	u->slot = slot;
	u->before = t->shared->slots[slot];
	u->record = 0;
	if (rec) {
		u->record = (uint32_t)(rec - h->ledger.active) + 1;
		u->lookup_count = rec->lookup_count;
		u->opened = rec->opened;
		u->closing_id = rec->closing_id;
	}
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&u->armed, 1, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

void node_change_end(struct node_table *t)
{
	ledger_pass(POINT_COUNTING);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&t->shared->header->undo.armed, 0, memory_order_release);
	ledger_pass(POINT_COUNTED);
}

_Atomic uint32_t *node_ino_count(struct node_table *t, uint64_t ino)
{
	return &t->ino_counts[node_mix(ino) % INO_COUNTS];
}

int node_slot_new(struct node_table *t, const struct tree_key *key, uint64_t ino,
		  uint32_t *ret_slot)
{
	struct shared_header *h = t->shared->header;
	struct node_slot *s;
	uint32_t slot = h->free_head;
	int r;

	if (2 * (t->index_used + 1) > t->index_size) {
		r = node_index_resize(t, 2 * t->index_size);
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
	s->nlookup = 0;
	s->ino = ino;
	s->exclude = 0;
	s->asker = 0;
	s->nopen = 0;
	s->backing_id = 0;
	s->handle_type = key->type;
	s->handle_len = key->len;
	memcpy(s->handle, key->bytes, sizeof(s->handle));
	/* The last word: before it the slot is free. */
	atomic_signal_fence(memory_order_seq_cst);
	s->flags = NODE_USED | (key->is_handle ? 0 : NODE_KEYED);
	node_index_put(t, slot);
	atomic_fetch_add(node_ino_count(t, ino), 1);
	t->used++;
	*ret_slot = slot;
	return 0;
}

/*
 * The kernel has forgotten a file that was written. A mapping of it outlives its last close, but not the kernel's
 * inode: the lower file that is mapped holds the name by which the user opened it (backing_file_user_path()). So nothing
 * is stored to it any more.
 */
static void note_rest(struct node_table *t, uint32_t slot)
{
	uint64_t *place = &t->kept[t->kept_next % NODE_KEPT_MAX], oldest = *place;
	uint32_t other;

	t->shared->slots[slot].flags &= ~(uint32_t)NODE_WRITTEN;
	atomic_fetch_add(&t->rests, 1);
	if (!(t->shared->slots[slot].flags & NODE_KEPT))
		return;
	*place = node_id_of(t, slot);
	t->kept_next++;
	if (node_slot_check(t, oldest, &other) == 0 && other != slot) {
		t->shared->slots[other].flags &= ~(uint32_t)NODE_KEPT;
		node_slot_release(t, other);
	}
}

/* A pinned one that nobody needs any more. */
static bool can_leave(const struct node_table *t, const struct node_slot *s)
{
	const uint32_t pinned = NODE_UNLINKED | NODE_HELD;

	return s->nopen == 0 && (s->flags & pinned) == pinned && t->keeper.let_go &&
	       t->leaving_count < LEAVING_MAX;
}

void node_slot_release(struct node_table *t, uint32_t slot)
{
	struct node_slot *s = &t->shared->slots[slot];
	bool leaves;

	if (s->nlookup > 0)
		return;
	/* Also of one that is remembered as made in this run: nobody works in it any more. */
	forget_directory(t, slot);
	if (s->flags & NODE_WRITTEN && s->nopen == 0)
		note_rest(t, slot);
	/* After that, which may let another one leave. */
	leaves = can_leave(t, s);
	if (!leaves && (s->flags & NODE_KEYED || s->nopen == 0))
		node_slot_unpin(t, slot);
	if (s->nopen > 0)
		return;
	if (s->flags & (NODE_REMEMBERED | NODE_KEPT) && !(s->flags & NODE_UNLINKED))
		return;
	node_index_remove(t, slot);
	atomic_fetch_sub(node_ino_count(t, s->ino), 1);
	/* First the generation: a slot that is free never has an id that was given away. */
	s->generation++;
	atomic_signal_fence(memory_order_seq_cst);
	s->flags = 0;
	t->used--;
	if (!leaves) {
		free_slot(t, slot);
		return;
	}
	t->leaving[t->leaving_count++] =
		(struct node_leaving){ .slot = slot, .pin = node_pin_take(t, slot) };
}

int node_slot_check(const struct node_table *t, uint64_t id, uint32_t *ret_slot)
{
	uint32_t slot = (uint32_t)id;

	if (id == NODE_TOP && node_root(t) != NODE_TOP)
		return -EPERM;
	if (slot == 0 || slot >= t->shared->header->slot_count || node_id_of(t, slot) != id ||
	    !(t->shared->slots[slot].flags & NODE_USED))
		return -ESTALE;
	*ret_slot = slot;
	return 0;
}

static void info_of(const struct node_table *t, uint32_t slot, struct node_info *ret_info)
{
	const struct node_slot *s = &t->shared->slots[slot];

	ret_info->id = node_id_of(t, slot);
	ret_info->flags = s->flags;
	ret_info->ino = s->ino;
	ret_info->exclude = s->exclude;
	ret_info->asker = s->asker;
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
	lock_init_brief(&t->lock);
	t->pinned_most = UINT32_MAX;
	for (int i = 0; i < INODE_LOCKS; i++)
		pthread_mutex_init(&t->inode_locks[i], NULL);
	for (int i = 0; i < DIRECTORIES; i++)
		t->directories[i].fd = -1;
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
	r = node_attach(t, root_exclude);
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
	for (int i = 0; i < DIRECTORIES; i++)
		cleanup_fd(&t->directories[i].fd);
	if (t->pins) {
		/* The capacity is ours; the count stands in the shared memory, which may contradict itself. */
		for (uint32_t slot = 1; slot < t->shared->slot_capacity; slot++) {
			int fd = t->pins[slot] - 1;

			cleanup_fd(&fd);
		}
		munmap(t->pins, (size_t)NODE_SLOTS_MAX * sizeof(int));
	}
	free(t->index);
	free(t);
}

uint64_t node_root(const struct node_table *t)
{
	return node_id_of(t, NODE_ROOT_SLOT);
}

/* Finds or makes the slot of @key. Table lock held. */
static int slot_obtain(struct node_table *t, const struct tree_key *key, uint64_t ino,
		       bool *ret_made, uint32_t *ret_slot)
{
	uint32_t slot = node_index_find(t, key);

	*ret_made = slot == 0;
	if (slot == 0)
		return node_slot_new(t, key, ino, ret_slot);
	*ret_slot = slot;
	return 0;
}

int node_lookup(struct node_table *t, int fd, const struct stat *st, uint64_t exclude,
		struct node_info *ret_info)
{
	return node_lookup_made(t, fd, st, exclude, 0, ret_info);
}

int node_lookup_made(struct node_table *t, int fd, const struct stat *st, uint64_t exclude,
		     uint32_t flags, struct node_info *ret_info)
{
	struct ledger_record *rec = ledger_current();
	struct tree_key key;
	struct node_slot *s;
	uint32_t slot;
	bool made;
	int r = ledger_has_room() ? tree_key_get(t->tree, fd, st, &key) : -ENOSPC;

	if (r < 0)
		return r;
	pthread_mutex_lock(&t->lock);
	r = slot_obtain(t, &key, st->st_ino, &made, &slot);
	if (r == 0) {
		s = &t->shared->slots[slot];
		if (!key.is_handle)
			r = node_slot_pin(t, slot, fd);
		if (r == 0) {
			if (S_ISDIR(st->st_mode))
				s->flags |= NODE_DIRECTORY;
			if (S_ISREG(st->st_mode))
				s->flags |= NODE_REGULAR;
			/* With several names, one that is not excluded decides. */
			if (made || s->nlookup == 0 || S_ISDIR(st->st_mode))
				s->exclude = exclude;
			else
				s->exclude &= exclude;
			s->flags |= flags;
			s->flags &= ~(uint32_t)NODE_KEPT;
			node_change_begin(t, slot);
			s->nlookup++;
			if (rec)
				rec->lookups[rec->lookup_count++] = slot;
			node_change_end(t);
			info_of(t, slot, ret_info);
		} else {
			node_slot_release(t, slot);
		}
	}
	node_table_unlock(t);
	return r;
}

void node_forget(struct node_table *t, uint64_t id, uint64_t count)
{
	struct node_slot *s;
	uint32_t slot;

	if ((uint32_t)id == NODE_ROOT_SLOT)
		return;
	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0) {
		s = &t->shared->slots[slot];
		s->nlookup -= count < s->nlookup ? count : s->nlookup;
		node_slot_release(t, slot);
	}
	node_table_unlock(t);
}

int node_get(struct node_table *t, uint64_t id, struct node_info *ret_info)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0)
		info_of(t, slot, ret_info);
	node_table_unlock(t);
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
	slot = node_index_find(t, &key);
	if (slot != 0)
		info_of(t, slot, ret_info);
	node_table_unlock(t);
	return slot != 0 ? 0 : -ENOENT;
}

bool node_may_have(struct node_table *t, uint64_t ino)
{
	return atomic_load(node_ino_count(t, ino)) > 0;
}

static void slot_key(const struct node_slot *s, struct tree_key *ret_key)
{
	ret_key->is_handle = !(s->flags & NODE_KEYED);
	ret_key->type = s->handle_type;
	ret_key->len = s->handle_len;
	memcpy(ret_key->bytes, s->handle, sizeof(ret_key->bytes));
}

/* A duplicate of what the table has open of the slot, if anything: else *ret_fd stays. 0 or -errno. */
static int duplicate_open(struct node_table *t, uint32_t slot, int *ret_fd, bool *ret_is_wanted)
{
	int kept = t->pins[slot] - 1, fd;

	if (kept < 0 && t->keeps_directories && t->shared->slots[slot].flags & NODE_DIRECTORY)
		kept = kept_directory(t, node_id_of(t, slot), ret_is_wanted);
	if (kept < 0)
		return 0;
	fd = fcntl(kept, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int node_open(struct node_table *t, uint64_t id, int *ret_fd, struct node_info *ret_info)
{
	struct tree_key key = { .is_handle = true };
	bool is_wanted = false;
	uint32_t slot;
	int r, fd = -1;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0) {
		info_of(t, slot, ret_info);
		slot_key(&t->shared->slots[slot], &key);
		r = duplicate_open(t, slot, &fd, &is_wanted);
	}
	node_table_unlock(t);
	if (r == 0 && fd < 0)
		r = (ret_info->flags & NODE_DIRECTORY ? tree_open_dir_handle :
							tree_open_handle)(t->tree, &key, &fd);
	if (r < 0)
		return r;
	if (is_wanted)
		keep_directory(t, id, fd);
	*ret_fd = fd;
	return 0;
}

int node_open_regular(struct node_table *t, uint64_t id, int flags, int *ret_file,
		      struct node_info *ret_info)
{
	struct tree_key key = { .is_handle = true };
	const struct node_slot *s;
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0) {
		s = &t->shared->slots[slot];
		info_of(t, slot, ret_info);
		if (t->pins[slot] != 0 || s->flags & NODE_KEYED || !(s->flags & NODE_REGULAR))
			r = -EOPNOTSUPP;
		slot_key(s, &key);
	}
	node_table_unlock(t);
	return r < 0 ? r : tree_open_file_handle(t->tree, &key, flags, ret_file);
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
	node_table_unlock(t);
	return r;
}

int node_settle_id(struct node_table *t, uint64_t id, uint32_t flags)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0)
		t->shared->slots[slot].flags |= flags;
	node_table_unlock(t);
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

int node_hold(struct node_table *t, int fd, const struct stat *st, uint64_t *ret_id)
{
	bool is_last = S_ISDIR(st->st_mode) || st->st_nlink <= 1;
	struct tree_key key;
	uint32_t slot;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	*ret_id = 0;
	pthread_mutex_lock(&t->lock);
	slot = node_index_find(t, &key);
	if (slot != 0) {
		*ret_id = node_id_of(t, slot);
		if (is_last && t->shared->slots[slot].nlookup > 0)
			r = node_slot_hold(t, slot, fd);
	}
	node_table_unlock(t);
	return r;
}

void node_let_go(struct node_table *t, uint64_t id)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0 && slot != NODE_ROOT_SLOT &&
	    !(t->shared->slots[slot].flags & (NODE_KEYED | NODE_UNLINKED)))
		node_slot_unpin(t, slot);
	node_table_unlock(t);
}

/* Table lock held. */
static int slot_unlinked(struct node_table *t, uint32_t slot, int fd)
{
	int r = 0;

	t->shared->slots[slot].flags |= NODE_UNLINKED;
	forget_directory(t, slot);
	if (t->shared->slots[slot].nlookup > 0)
		r = node_slot_hold(t, slot, fd);
	node_slot_release(t, slot);
	return r;
}

int node_unlinked(struct node_table *t, int fd, const struct stat *st)
{
	struct tree_key key;
	uint32_t slot;
	int r = tree_key_get(t->tree, fd, st, &key);

	if (r < 0)
		return r;
	pthread_mutex_lock(&t->lock);
	slot = node_index_find(t, &key);
	if (slot != 0)
		r = slot_unlinked(t, slot, fd);
	node_table_unlock(t);
	return r;
}

int node_unlinked_id(struct node_table *t, uint64_t id, int fd)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0)
		r = slot_unlinked(t, slot, fd);
	node_table_unlock(t);
	return r;
}

/* Of a node that is gone nothing is to be noted. */
static void change_flags(struct node_table *t, uint64_t id, uint32_t added, uint32_t removed)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0)
		t->shared->slots[slot].flags = (t->shared->slots[slot].flags & ~removed) | added;
	node_table_unlock(t);
}

void node_relinked(struct node_table *t, uint64_t id)
{
	change_flags(t, id, 0, NODE_UNLINKED);
}

void node_set_exclude(struct node_table *t, uint64_t id, uint64_t exclude)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0)
		t->shared->slots[slot].exclude = exclude;
	node_table_unlock(t);
}

void node_set_listed(struct node_table *t, uint64_t id, bool listed)
{
	change_flags(t, id, listed ? NODE_LISTED : 0, NODE_LISTED);
}

uint32_t node_slots(struct node_table *t)
{
	uint32_t count;

	pthread_mutex_lock(&t->lock);
	count = t->shared->header->slot_count;
	pthread_mutex_unlock(&t->lock);
	return count;
}

void node_each_listed(struct node_table *t, void (*drop)(void *context, uint64_t id), void *context)
{
	const uint32_t wanted = NODE_USED | NODE_DIRECTORY | NODE_LISTED;
	uint32_t count = node_slots(t);

	for (uint32_t slot = 1; slot < count; slot++) {
		uint64_t id;
		bool is_listed;

		pthread_mutex_lock(&t->lock);
		id = node_id_of(t, slot);
		is_listed = (t->shared->slots[slot].flags & wanted) == wanted;
		pthread_mutex_unlock(&t->lock);
		if (is_listed)
			drop(context, id);
	}
}

void node_set_asker(struct node_table *t, uint64_t id, uint32_t asker)
{
	uint32_t slot;

	pthread_mutex_lock(&t->lock);
	if (node_slot_check(t, id, &slot) == 0)
		t->shared->slots[slot].asker = asker;
	node_table_unlock(t);
}

void node_release_settled(struct node_table *t, void (*unmark)(void *context, int fd),
			  void *context)
{
	/* New slots that appear meanwhile belong to no run: it is over. */
	uint32_t count = node_slots(t);

	for (uint32_t slot = 1; slot < count; slot++) {
		AUTO_FD int fd = -1;
		struct node_info info;
		uint64_t id;
		uint32_t flags;

		pthread_mutex_lock(&t->lock);
		id = node_id_of(t, slot);
		flags = t->shared->slots[slot].flags;
		node_table_unlock(t);
		if (!(flags & NODE_USED) || !(flags & NODE_REMEMBERED))
			continue;
		if (flags & NODE_MARKED && node_open(t, id, &fd, &info) == 0)
			unmark(context, fd);
		pthread_mutex_lock(&t->lock);
		if (node_slot_check(t, id, &slot) == 0) {
			t->shared->slots[slot].flags &= ~(uint32_t)NODE_REMEMBERED;
			node_slot_release(t, slot);
		}
		node_table_unlock(t);
	}
}

void node_each_open(struct node_table *t,
		    void (*look)(void *context, int fd, const struct node_info *node),
		    void *context)
{
	uint32_t count;

	if (t->opens == 0)
		return;
	count = node_slots(t);
	for (uint32_t slot = 1; slot < count; slot++) {
		const struct node_slot *s = &t->shared->slots[slot];
		AUTO_FD int fd = -1;
		struct node_info info;
		uint64_t id;
		bool is_open;

		pthread_mutex_lock(&t->lock);
		id = node_id_of(t, slot);
		is_open = s->flags & NODE_USED && s->nopen > 0;
		pthread_mutex_unlock(&t->lock);
		if (is_open && node_open(t, id, &fd, &info) == 0)
			look(context, fd, &info);
	}
}

int node_open_state_get(struct node_table *t, uint64_t id, struct node_open_state *ret_state)
{
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0) {
		const struct node_slot *s = &t->shared->slots[slot];

		ret_state->nopen = s->nopen;
		ret_state->flags = s->flags;
		ret_state->backing_id = s->backing_id;
	}
	node_table_unlock(t);
	return r;
}

int node_open_state_set(struct node_table *t, uint64_t id, const struct node_open_state *state)
{
	const uint32_t theirs = NODE_PASSTHROUGH | NODE_WRITTEN | NODE_WRITER;
	struct ledger_record *rec = ledger_current();
	uint32_t slot;
	int r;

	pthread_mutex_lock(&t->lock);
	r = node_slot_check(t, id, &slot);
	if (r == 0) {
		struct shared_header *h = t->shared->header;
		struct node_slot *s = &t->shared->slots[slot];

		t->opens += state->nopen;
		t->opens -= s->nopen;
		node_change_begin(t, slot);
		if (rec && s->backing_id > 0 && state->backing_id == 0)
			rec->closing_id = s->backing_id;
		if (rec)
			rec->opened = slot;
		s->nopen = state->nopen;
		s->backing_id = state->backing_id;
		s->flags = (s->flags & ~theirs) | (state->flags & theirs);
		node_change_end(t);
		if (s->backing_id > h->backing_last)
			h->backing_last = s->backing_id;
		node_slot_release(t, slot);
	}
	node_table_unlock(t);
	return r;
}

uint64_t node_rests(const struct node_table *t)
{
	return atomic_load(&t->rests);
}

void node_rest(struct node_table *t, uint64_t id)
{
	change_flags(t, id, 0, NODE_WRITTEN);
}

void node_keep_directories(struct node_table *t)
{
	t->keeps_directories = true;
}

void node_keep_at(struct node_table *t, const struct node_keeper *keeper)
{
	t->keeper = *keeper;
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
	pthread_mutex_lock(&t->inode_locks[node_mix(ino) % INODE_LOCKS]);
}

void node_unlock(struct node_table *t, uint64_t ino)
{
	pthread_mutex_unlock(&t->inode_locks[node_mix(ino) % INODE_LOCKS]);
}
