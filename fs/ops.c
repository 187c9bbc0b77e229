// SPDX-License-Identifier: Apache-2.0
#include "fs/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/log.h"
#include "fs/ownership/apply.h"
#include "fs/request.h"

struct overlay *ops_overlay(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

void ops_caller(fuse_req_t req, struct caller *ret_caller)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	const struct overlay *ov = ops_overlay(req);

	*ret_caller = (struct caller){
		.uid = ctx->uid,
		.gid = ctx->gid,
		.pid = ctx->pid,
		.umask = ctx->umask,
		.extra_group = request_supplementary_group(),
		.proc_fd = ov->proc_fd,
		.device_fd = ov->device_fd,
		.is_idmapped = ov->options->idmap,
	};
}

/* What the disk or we ourselves did wrong, against what any program may provoke. */
static bool is_worth_a_line(int error)
{
	return error == EIO || error == ENOMEM || error == EMFILE || error == ENFILE ||
	       error == EUCLEAN || error == EPROTO;
}

static bool lacks_room(int error)
{
	return error == EMFILE || error == ENOSPC || error == EDQUOT;
}

void ops_reply_error(fuse_req_t req, const char *op, fuse_ino_t ino, int error)
{
	error = error < 0 ? -error : error;
	if (lacks_room(error) && overlay_make_room(ops_overlay(req), error)) {
		fuse_reply_none(req);
		return;
	}
	if (is_worth_a_line(error))
		log_line(LOG_WARNING, op, "node=%llu %s", (unsigned long long)ino, strerror(error));
	fuse_reply_err(req, error);
}

double ops_attr_timeout(const struct overlay *ov, uint32_t node_flags)
{
	/* Stores through a mapping change times without a request, also after the last close. */
	return node_flags & NODE_WRITTEN ? 0 : ov->attr_timeout;
}

static int look_again(struct overlay *ov, const struct node_info *node, int fd, struct stat *ret_st)
{
	int r;

	node_lock(ov->nodes, node->ino);
	r = tree_stat(fd, ret_st);
	if (r == 0)
		run_show(&ov->run, node, fd, ret_st);
	node_unlock(ov->nodes, node->ino);
	return r;
}

struct ops_look ops_look(const struct overlay *ov)
{
	return (struct ops_look){ .applied = run_look(&ov->run), .rests = node_rests(ov->nodes) };
}

/*
 * Attributes that may not be cached the kernel asks for again at once. Those of a file that was written and is at rest by now
 * may be, if they are read after that.
 */
static int look_for_rest(struct overlay *ov, int fd, struct fuse_entry_param *io_entry)
{
	struct node_info node;
	int r;

	if (node_get(ov->nodes, io_entry->ino, &node) < 0 || !(node.flags & NODE_WRITTEN))
		return 0;
	backing_look_for_rest(ov, &node, fd);
	if (node.flags & NODE_WRITTEN)
		return 0;
	r = ops_stat(ov, &node, fd, &io_entry->attr);
	io_entry->attr_timeout = ov->attr_timeout;
	return r;
}

int ops_entry(struct overlay *ov, int fd, const struct stat *st, struct ops_look look,
	      uint64_t exclude, struct fuse_entry_param *ret_entry)
{
	struct node_info node;
	int r = ops_entry_made(ov, fd, st, exclude, 0, ret_entry);

	/* It may have been this one, found by another name. */
	if (r == 0 && node_rests(ov->nodes) != look.rests)
		ret_entry->attr_timeout = 0;
	if (r == 0 && ov->is_exclusive && ret_entry->attr_timeout == 0) {
		r = look_for_rest(ov, fd, ret_entry);
		if (r < 0)
			node_forget(ov->nodes, ret_entry->ino, 1);
	}
	if (r < 0 || !run_has_applied(&ov->run, look.applied) ||
	    node_get(ov->nodes, ret_entry->ino, &node) < 0)
		return r;
	/* The walk did not know the node: what it changed it has not told the kernel. */
	r = look_again(ov, &node, fd, &ret_entry->attr);
	if (r < 0)
		node_forget(ov->nodes, ret_entry->ino, 1);
	return r;
}

int ops_stat(struct overlay *ov, const struct node_info *node, int fd, struct stat *ret_st)
{
	uint64_t look = run_look(&ov->run);
	int r = tree_stat(fd, ret_st);

	if (r < 0)
		return r;
	run_show(&ov->run, node, fd, ret_st);
	return run_has_applied(&ov->run, look) ? look_again(ov, node, fd, ret_st) : 0;
}

int ops_entry_made(struct overlay *ov, int fd, const struct stat *st, uint64_t exclude,
		   uint32_t flags, struct fuse_entry_param *ret_entry)
{
	struct node_info node;
	int r = node_lookup_made(ov->nodes, fd, st, exclude, flags, &node);

	if (r < 0)
		return r;
	memset(ret_entry, 0, sizeof(*ret_entry));
	ret_entry->ino = node.id;
	ret_entry->attr = *st;
	ret_entry->attr_timeout = ops_attr_timeout(ov, node.flags);
	ret_entry->entry_timeout = ov->entry_timeout;
	run_show(&ov->run, &node, fd, &ret_entry->attr);
	return 0;
}

void ops_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
	struct overlay *ov = ops_overlay(req);
	fuse_ino_t ino = entry->ino;

	if (fuse_reply_entry(req, entry) < 0)
		node_forget(ov->nodes, ino, 1);
}

mode_t ops_lost_set_ids(const struct stat *shown, const struct caller *caller)
{
	mode_t mode = shown->st_mode, lost = mode & S_ISUID;

	if (S_ISDIR(mode) || S_ISLNK(mode))
		return 0;
	if (mode & S_ISGID &&
	    (mode & S_IXGRP || caller_in_group_or_capable(caller, shown) != CALLER_YES))
		lost |= S_ISGID;
	return lost;
}

enum caller_answer ops_may_lose_set_ids(const struct stat *shown, mode_t lost,
					const struct caller *caller)
{
	return lost ? caller_owner_or_capable(caller, shown) : CALLER_YES;
}

/*
 * An append-only or immutable file refuses chmod(2), but on most file systems not a chown(2) to nobody,
 * which takes the bits as a write does: by whom it is called decides whether set-group-ID without
 * group-execute is among them.
 */
static int drop_by_chown(int fd, const struct stat *real, mode_t drop)
{
	bool as_stranger = drop & S_ISGID && !(real->st_mode & S_IXGRP);
	int r = 0;

	if (as_stranger)
		r = caller_enter_stranger(real->st_gid);
	if (r == 0 &&
	    fchownat(fd, "", (uid_t)-1, (gid_t)-1, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (as_stranger)
		caller_leave_stranger();
	return r;
}

static int drop_bits(int fd, const struct stat *real, mode_t drop, enum drop_reason reason)
{
	int r = apply_mode(fd, TREE_FD_DIR, real->st_mode & 07777 & ~drop);

	return r == -EPERM && reason != DROP_SIZE ? drop_by_chown(fd, real, drop) : r;
}

int ops_lock_and_look(struct overlay *ov, const struct node_info *node, int fd,
		      struct stat *ret_real, struct stat *ret_shown)
{
	int r;

	node_lock(ov->nodes, node->ino);
	r = tree_stat(fd, ret_real);
	if (r < 0)
		return r;
	*ret_shown = *ret_real;
	run_show(&ov->run, node, fd, ret_shown);
	return 0;
}

int ops_drop_set_ids(struct overlay *ov, const struct node_info *node, int fd,
		     const struct caller *caller, enum drop_reason reason)
{
	struct stat real, shown;
	int r = ops_lock_and_look(ov, node, fd, &real, &shown);

	if (r == 0) {
		mode_t drop = ops_lost_set_ids(&shown, caller);

		if (reason == DROP_CHOWN &&
		    ops_may_lose_set_ids(&shown, drop, caller) != CALLER_YES)
			r = -EPERM;
		else if (drop)
			r = drop_bits(fd, &real, drop, reason);
	}
	node_unlock(ov->nodes, node->ino);
	return r;
}
