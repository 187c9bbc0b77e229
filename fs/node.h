/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_NODE_H
#define FS_NODE_H

/*
 * node: the table of inodes that the kernel knows: node id <-> file handle, in shared memory.
 *
 * A node id is a slot's index (low 32 bits) and generation (high 32 bits): slots are reused, node ids
 * never. The root is node 1. A slot holds a file handle, not a descriptor, so that a million looked-up
 * inodes cost no descriptor; an inode is pinned by an O_PATH descriptor only where handles cannot be
 * opened (user namespaces), and from before its last link is taken: then by the keeper, too, so that it
 * outlives the server. A slot is freed when the kernel has forgotten it, nothing has it open, and the run
 * need not remember it.
 *
 * A server can be killed at any instruction: a change of counts happens together with what the ledger says
 * of it, or not at all (node_table.h), and all that follows from the slots is made anew by its successor.
 *
 * The index from handles to slots is private memory, rebuilt from the slots when a server attaches.
 * Thread-safe; one short lock, never held over a system call that can block on the tree.
 * Lock order: an inode lock (node_lock) before the table's.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/ledger.h"
#include "fs/shared.h"
#include "fs/tree.h"

/*
 * The kernel makes its node 1 before there is an INIT, and of what is made before INIT it never keeps an ACL
 * (fuse_init_inode(), __forget_cached_acl(), Linux 6.18): whoever is not the owner would ask for it with every path
 * through it. So the root of the volume is a node like any other, the only entry of a directory that nobody comes
 * to (ops_top.c).
 */
#define NODE_TOP 1ULL
#define NODE_ROOT_SLOT 1U

enum { NODE_KEPT_MAX = 16384 }; /* ids that are known for a while after node_prepare_prune() */

struct node_table;

/* A copy of what a slot says; valid as long as the kernel holds a lookup on the node. */
struct node_info {
	uint64_t id;
	uint32_t flags; /* enum node_flags, at the time of the call */
	uint64_t ino;
	uint64_t exclude;
	uint32_t asker;
};

/*
 * node_table_new: attaches to @shared, which is empty (then the root of @tree becomes node_root()) or was
 * left by an earlier server. Both are borrowed.
 * Returns 0, -EPROTO (the slots contradict themselves), -ENOMEM, or -errno of the tree.
 */
int node_table_new(struct shared *shared, const struct tree *tree, uint64_t root_exclude,
		   struct node_table **ret_table);
void node_table_free(struct node_table *t);

/* node_root: the id of the volume's root. NODE_TOP: there is nothing above it (SHARED_LAYOUT_ROOT_IS_1). */
uint64_t node_root(const struct node_table *t);

/*
 * node_lookup: the node of the inode that @fd is open on, made when there is none; the kernel's lookup
 * count rises by one. @exclude: the pattern set that follows from the name it was found by.
 */
int node_lookup(struct node_table *t, int fd, const struct stat *st, uint64_t exclude,
		struct node_info *ret_info);

/* node_lookup_made: node_lookup and node_settle in one, for what was just made. @flags: 0, or those of node_settle */
int node_lookup_made(struct node_table *t, int fd, const struct stat *st, uint64_t exclude,
		     uint32_t flags, struct node_info *ret_info);

/* node_forget: the kernel gives @count lookups back. A node id that is not there is ignored. */
void node_forget(struct node_table *t, uint64_t id, uint64_t count);

/* node_get: -ESTALE when there is no such node. */
int node_get(struct node_table *t, uint64_t id, struct node_info *ret_info);

/* node_find: the node of @fd when the table has one; -ENOENT. Counts nothing. */
int node_find(struct node_table *t, int fd, const struct stat *st, struct node_info *ret_info);

/*
 * node_may_have: false when the table has no node with that inode number: cheaper than node_find by a
 * file handle. True may be wrong. Without lock; what was put in before by who holds or held the inode's
 * lock is seen.
 */
bool node_may_have(struct node_table *t, uint64_t ino);

/*
 * node_keep_directories: of directories that are being worked in a descriptor may be kept. Not where others may put
 * something else in their place meanwhile: what is gone must answer so. Before there is a second thread.
 */
void node_keep_directories(struct node_table *t);

/* node_open: an O_PATH descriptor of the node, the caller's to close. -ESTALE: the file is gone. */
int node_open(struct node_table *t, uint64_t id, int *ret_fd, struct node_info *ret_info);

/*
 * node_open_regular: a descriptor of the node's file, opened with @flags (tree_reopen), where that takes one call: it was
 * a regular file when it was looked up, which an inode is for life, and stands for itself by its handle.
 * Else -EOPNOTSUPP, and node_open() and tree_reopen() will do it.
 */
int node_open_regular(struct node_table *t, uint64_t id, int flags, int *ret_file,
		      struct node_info *ret_info);

/*
 * node_settle: notes that the inode was made or changed by a user in this run (@flags NODE_SETTLED,
 * with NODE_MARKED when it carries the mark). The slot is made when there is none, and stays.
 */
int node_settle(struct node_table *t, int fd, const struct stat *st, uint32_t flags);

/* node_settle_id: the same for a node that the kernel knows, which costs no file handle. -ESTALE: it does not. */
int node_settle_id(struct node_table *t, uint64_t id, uint32_t flags);

/* node_settle_key: the same for an inode known only by key, from a journal. */
int node_settle_key(struct node_table *t, const struct tree_key *key, uint64_t ino, uint32_t flags);

/* Who holds pins for the server that comes after this one. */
struct node_keeper {
	/*
	 * hold: @fd is the pin of @slot from now on. let_go: there is none any more; *io_fd is the table's own descriptor,
	 * which is closed after this, or here, or -1. Of one slot in the order in which it happens; of several at once.
	 * NULL: nobody.
	 */
	void (*hold)(void *context, uint32_t slot, int fd);
	void (*let_go)(void *context, uint32_t slot, int *io_fd);
	void *context;
};
void node_keep_at(struct node_table *t, const struct node_keeper *keeper);

/*
 * node_hold: the next call may take the last link of @fd's inode: if it is the last and the kernel knows
 * the inode, @fd pins it from now on. *ret_id is its node id, 0: the table has none. node_let_go: the
 * call failed.
 */
int node_hold(struct node_table *t, int fd, const struct stat *st, uint64_t *ret_id);
void node_let_go(struct node_table *t, uint64_t id);

/*
 * node_unlinked: the last link of @fd's inode is gone: while the kernel still knows it, a duplicate of
 * @fd pins it; a slot that only the run remembered is freed. node_relinked takes that back.
 */
int node_unlinked(struct node_table *t, int fd, const struct stat *st);

/* node_unlinked_id: the same where its node id is known, which costs no file handle. -ESTALE: nobody knows it any more. */
int node_unlinked_id(struct node_table *t, uint64_t id, int fd);
void node_relinked(struct node_table *t, uint64_t id);

void node_set_exclude(struct node_table *t, uint64_t id, uint64_t exclude);

/* node_set_listed: whether the kernel may keep a listing of the directory. */
void node_set_listed(struct node_table *t, uint64_t id, bool listed);

/* node_each_listed: @drop is called for every directory that is listed when it comes to it, without any lock. */
void node_each_listed(struct node_table *t, void (*drop)(void *context, uint64_t id),
		      void *context);

/* node_set_asker: the thread that has just asked whether the file has capabilities, but not which; 0: none has. */
void node_set_asker(struct node_table *t, uint64_t id, uint32_t asker);

/*
 * node_release_settled: the run is over: for every slot that carries the mark, @unmark is called with
 * an O_PATH descriptor; then slots that only the run remembered are freed.
 */
void node_release_settled(struct node_table *t, void (*unmark)(void *context, int fd),
			  void *context);

/*
 * node_each_open: @look is called for every inode that is open when it comes to it, with an O_PATH descriptor (borrowed)
 * and without any lock. Takes as long as there are slots, unless nothing is open.
 */
void node_each_open(struct node_table *t,
		    void (*look)(void *context, int fd, const struct node_info *node),
		    void *context);

/*
 * Opens of one inode, under its inode lock. node_open_count_add returns the count before; node_opens
 * is the sum over all nodes, without lock.
 */
struct node_open_state {
	uint32_t nopen;
	uint32_t flags;
	int32_t backing_id;
};
int node_open_state_get(struct node_table *t, uint64_t id, struct node_open_state *ret_state);
int node_open_state_set(struct node_table *t, uint64_t id, const struct node_open_state *state);

/*
 * node_prepare_prune: whether the kernel may be asked to forget the node, only that it takes it for rested after that: it is
 * NODE_WRITTEN and not open. If so its id will be known for a while, as file handles that users have name it.
 */
bool node_prepare_prune(struct node_table *t, uint64_t id);

/*
 * node_pinned: how many inodes cost a descriptor. Without lock.
 * node_limit_pinned: with @most of them there is none for another (-EMFILE); at first as many as there are.
 * node_choose_pinned: of the @span slots from *io_slot on, the ids of those that cost one and are not open, into @ret_ids, which has
 * room for @span. *io_slot: where to go on; 0: that was the last. Returns how many.
 */
uint32_t node_pinned(const struct node_table *t);
void node_limit_pinned(struct node_table *t, uint32_t most);
unsigned node_choose_pinned(struct node_table *t, uint32_t *io_slot, unsigned span,
			    uint64_t *ret_ids);

/*
 * node_rests: how often a node ceased to be NODE_WRITTEN because the kernel forgot it. Attributes that were read before
 * one did may be older than the last that was stored to it. Without lock.
 */
uint64_t node_rests(const struct node_table *t);

/* node_rest: nobody writes to the inode any more, under its lock: it is no longer NODE_WRITTEN. */
void node_rest(struct node_table *t, uint64_t id);
uint64_t node_opens(const struct node_table *t);

/* ---- for a successor (node_recover.c) ---- */

/* node_adopt: the keeper held @fd (taken over) for @slot. */
void node_adopt(struct node_table *t, uint32_t slot, int fd);

/*
 * node_take_back: what the record of a dead server's request counted is taken back, from the node table
 * and from the record; not for a release. What then is in record->closing_id is the caller's to close.
 */
void node_take_back(struct node_table *t, struct ledger_record *rec);

/*
 * node_find_backing: for each backing id from @first on, @count of them, whether a slot has it. What has
 * none was got by a server that died before it wrote it down.
 */
void node_find_backing(struct node_table *t, int32_t first, size_t count, bool *ret_used);

/*
 * node_drop_unknown: of the inodes without a link, those that the kernel does not know are let go: a
 * FORGET that a dead server had read and not counted never comes again.
 */
void node_drop_unknown(struct node_table *t, bool (*is_known)(void *context, uint64_t id),
		       void *context);

/*
 * node_note_release: a release came while there was no server: counted by whoever took it, alone with the
 * memory.
 */
void node_note_release(struct shared *shared, uint64_t id);

/* node_slots: those that there are, in use or not. */
uint32_t node_slots(struct node_table *t);

/* node_count: slots in use. */
uint32_t node_count(const struct node_table *t);

/* node_lock: orders everything that changes one inode's ownership, mode, marks and opens. */
void node_lock(struct node_table *t, uint64_t ino);
void node_unlock(struct node_table *t, uint64_t ino);

#endif
