// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/ledger.h"
#include "fs/listing.h"
#include "fs/ops.h"

/*
 * Names that come, go and move. None of these calls may be made twice. So the ledger says before what the
 * name stands for, and when a request comes again a look at the names tells whether the dead server's
 * call had been made: the kernel lets nobody else at them until it is answered.
 */

/* Whether the entry @name is the inode @ino. */
static bool is_entry(int dir_fd, const char *name, uint64_t ino)
{
	struct stat st;

	return tree_stat_entry(dir_fd, name, &st) == 0 && st.st_ino == ino;
}

/* What is known to be settled stays so: there is nothing that the walk would have to do with it. */
static bool may_be_pending(const struct overlay *ov, const struct node_info *node)
{
	return ov->converger && !(node->flags & NODE_SETTLED);
}

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	AUTO_FD int dir_fd = -1;
	char path[TREE_FD_PATH_MAX];
	struct fuse_entry_param entry;
	struct node_info node, dir;
	struct ops_look look = { 0 };
	uint64_t exclude = 0;
	struct stat st;
	int r = tree_name_check(new_name);

	if (r == 0)
		r = node_open(ov->nodes, ino, &fd, &node);
	if (r == 0)
		r = node_open(ov->nodes, new_parent, &dir_fd, &dir);
	if (r == 0)
		listing_drop(ov, &dir);
	if (r == 0 && (ledger_phase() == LEDGER_BEGUN || !is_entry(dir_fd, new_name, node.ino))) {
		ledger_start(node.id, node.ino, 0, 0);
		/* Through the descriptor's path: it also finds files without a name, and needs no capability. */
		if (linkat(AT_FDCWD, tree_fd_path(fd, path), dir_fd, new_name, AT_SYMLINK_FOLLOW) <
		    0) {
			r = -errno;
			ledger_failed();
		} else {
			ledger_done();
		}
	}
	if (r == 0) {
		node_relinked(ov->nodes, ino);
		exclude = exclude_child(ov->options->exclude, dir.exclude, new_name, false);
		look = ops_look(ov);
		r = tree_stat(fd, &st);
	}
	if (r == 0 && may_be_pending(ov, &node)) {
		converge_moved(ov->converger, fd, &st, exclude);
		look = ops_look(ov);
		r = tree_stat(fd, &st);
	}
	if (r == 0)
		r = ops_entry(ov, fd, &st, look, exclude, &entry);
	if (r < 0)
		ops_reply_error(req, "link", ino, r);
	else
		ops_reply_entry(req, &entry);
}

/*
 * Whether the table has the inode @fd. @id: its node id as the call began, which saves its file handle; 0: it had none,
 * but somebody may have looked it up since.
 */
static bool is_known(struct overlay *ov, int fd, const struct stat *st, uint64_t id,
		     struct node_info *ret_node)
{
	return (id != 0 ? node_get(ov->nodes, id, ret_node) :
			  node_find(ov->nodes, fd, st, ret_node)) == 0;
}

/*
 * After an operation that may have taken the last link of what @fd, pinned before, is open on. The walk does
 * not find it any more: what somebody may still hold is converged now.
 */
static void note_unlinked(struct overlay *ov, int fd, uint64_t id)
{
	struct node_info node;
	struct stat st;

	/* ext4 counts a removed directory's links to 0 too. */
	if (fd < 0 || tree_stat(fd, &st) < 0 || st.st_nlink != 0)
		return;
	if (!is_known(ov, fd, &st, id, &node))
		return;
	if (may_be_pending(ov, &node))
		converge_moved(ov->converger, fd, &st, node.exclude);
	node_unlinked_id(ov->nodes, node.id, fd);
}

/* Removes the entry @name, which is @victim. */
static int unlink_victim(struct overlay *ov, int dir_fd, const char *name, int flags, int victim,
			 const struct stat *st, uint64_t *ret_id)
{
	uint64_t id = 0;
	int r = node_hold(ov->nodes, victim, st, &id);

	if (r < 0)
		return r;
	ledger_start(0, 0, id, st->st_ino);
	if (unlinkat(dir_fd, name, flags) == 0) {
		ledger_done();
		*ret_id = id;
		return 0;
	}
	r = -errno;
	ledger_failed();
	node_let_go(ov->nodes, id);
	return r;
}

/* A dead server took the name away already: *ret_victim is what it stood for, where anybody still knows it. */
static bool was_removed(struct overlay *ov, int dir_fd, const char *name, int *ret_victim,
			uint64_t *ret_id)
{
	const struct ledger_record *rec = ledger_current();
	struct node_info node;

	if (ledger_phase() == LEDGER_BEGUN ||
	    (ledger_phase() == LEDGER_STARTED && is_entry(dir_fd, name, rec->victim_ino)))
		return false;
	if (rec->victim == 0 || node_open(ov->nodes, rec->victim, ret_victim, &node) < 0)
		*ret_victim = -1;
	*ret_id = rec->victim;
	return true;
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags,
			const char *op)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int dir_fd = -1;
	AUTO_FD int victim = -1;
	struct node_info dir;
	uint64_t id = 0;
	struct stat st;
	int r = tree_name_check(name);

	if (r == 0)
		r = node_open(ov->nodes, parent, &dir_fd, &dir);
	if (r == 0)
		listing_drop(ov, &dir);
	if (r == 0 && !was_removed(ov, dir_fd, name, &victim, &id)) {
		r = tree_pin(dir_fd, name, &victim, &st);
		if (r == 0)
			r = unlink_victim(ov, dir_fd, name, flags, victim, &st, &id);
	}
	if (r == 0)
		note_unlinked(ov, victim, id);
	ops_reply_error(req, op, parent, r);
}

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0, "unlink");
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR, "rmdir");
}

/* One side of a rename, pinned. */
struct moved {
	int fd;		/* -1: nothing is there */
	uint64_t id;	/* node id; 0: the table had none */
	struct stat st; /* as the call began */
};

/* What moved into @dir as @name: its patterns anew, and the walker may have passed there already. */
static void note_moved(struct overlay *ov, const struct moved *m, const struct node_info *dir,
		       const char *name)
{
	bool is_dir = S_ISDIR(m->st.st_mode), known;
	struct node_info node;
	uint64_t exclude;

	if (m->fd < 0)
		return;
	exclude = exclude_child(ov->options->exclude, dir->exclude, name, is_dir);
	known = is_known(ov, m->fd, &m->st, m->id, &node);
	if (known && node.exclude != exclude) {
		node_set_exclude(ov->nodes, node.id, exclude);
		overlay_invalidate(ov, node.id);
		/* Below a directory the kernel has names in its cache: looked up again, they are judged anew. */
		if (is_dir)
			overlay_invalidate_names(ov);
	}
	/* Its ".." may be another; that is nothing that the kernel looks for. */
	if (is_dir && known)
		overlay_invalidate_listing(ov, node.id);
	/* Below a directory there may be what is pending, whatever it is itself. */
	if (ov->converger && (is_dir || !known || may_be_pending(ov, &node)))
		converge_moved(ov->converger, m->fd, &m->st, exclude);
}

struct move {
	int dir_fd, new_dir_fd;
	const char *name, *new_name;
	unsigned flags;
	struct moved moved, victim;
};

/*
 * A dead server's rename is done when the new name is what was moved, and the old name is not any more.
 * Then both are pinned where they are now.
 */
static bool was_moved(struct overlay *ov, struct move *io_move)
{
	const struct ledger_record *rec = ledger_current();
	struct moved *moved = &io_move->moved, *victim = &io_move->victim;
	struct node_info node;

	if (ledger_phase() == LEDGER_BEGUN)
		return false;
	if (ledger_phase() == LEDGER_STARTED &&
	    (is_entry(io_move->dir_fd, io_move->name, rec->object_ino) ||
	     !is_entry(io_move->new_dir_fd, io_move->new_name, rec->object_ino)))
		return false;
	/* What is not there any more, somebody changed behind our back: nothing is to be noted then. */
	if (tree_pin(io_move->new_dir_fd, io_move->new_name, &moved->fd, &moved->st) < 0)
		moved->fd = -1;
	if (rec->victim == 0 || node_open(ov->nodes, rec->victim, &victim->fd, &node) < 0)
		victim->fd = -1;
	else if (tree_stat(victim->fd, &victim->st) < 0)
		cleanup_fd(&victim->fd);
	moved->id = rec->object;
	victim->id = rec->victim;
	return true;
}

static int move(struct overlay *ov, struct move *io_move)
{
	struct moved *moved = &io_move->moved, *victim = &io_move->victim;
	struct node_info node;
	int r = tree_pin(io_move->dir_fd, io_move->name, &moved->fd, &moved->st);

	if (r < 0)
		return r;
	if (node_find(ov->nodes, moved->fd, &moved->st, &node) == 0)
		moved->id = node.id;
	r = tree_pin(io_move->new_dir_fd, io_move->new_name, &victim->fd, &victim->st);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		r = node_hold(ov->nodes, victim->fd, &victim->st, &victim->id);
	if (r < 0 && r != -ENOENT)
		return r;
	ledger_start(moved->id, moved->st.st_ino, victim->id, victim->st.st_ino);
	r = 0;
	if (renameat2(io_move->dir_fd, io_move->name, io_move->new_dir_fd, io_move->new_name,
		      io_move->flags) < 0) {
		r = -errno;
		ledger_failed();
	} else {
		ledger_done();
	}
	if (victim->id != 0 && (r < 0 || io_move->flags & RENAME_EXCHANGE))
		node_let_go(ov->nodes, victim->id);
	return r;
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned int flags)
{
	struct overlay *ov = ops_overlay(req);
	struct move m = { .dir_fd = -1,
			  .new_dir_fd = -1,
			  .name = name,
			  .new_name = new_name,
			  .flags = flags,
			  .moved = { .fd = -1 },
			  .victim = { .fd = -1 } };
	struct node_info dir, new_dir;
	int r = tree_name_check(name);

	if (r == 0)
		r = tree_name_check(new_name);
	if (r == 0)
		r = node_open(ov->nodes, parent, &m.dir_fd, &dir);
	if (r == 0 && new_parent == parent) {
		m.new_dir_fd = m.dir_fd;
		new_dir = dir;
	} else if (r == 0) {
		r = node_open(ov->nodes, new_parent, &m.new_dir_fd, &new_dir);
	}
	if (r == 0) {
		listing_drop(ov, &dir);
		listing_drop(ov, &new_dir);
	}
	if (r == 0 && !was_moved(ov, &m))
		r = move(ov, &m);
	if (r == 0) {
		note_moved(ov, &m.moved, &new_dir, new_name);
		if (flags & RENAME_EXCHANGE)
			note_moved(ov, &m.victim, &dir, name);
		else
			note_unlinked(ov, m.victim.fd, m.victim.id);
	}
	/* First: nobody waits for what is closed. */
	ops_reply_error(req, "rename", parent, r);
	if (m.new_dir_fd != m.dir_fd)
		cleanup_fd(&m.new_dir_fd);
	cleanup_fd(&m.dir_fd);
	cleanup_fd(&m.moved.fd);
	cleanup_fd(&m.victim.fd);
}
