// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/ops.h"

/*
 * "." and ".." come only for file handles that are opened again: the node itself, and a directory's
 * parent, which for a root with nothing above it is the root.
 */
static int pin_entry(int dir_fd, const struct node_info *dir, const char *name, int *ret_fd,
		     struct stat *ret_st)
{
	if (strcmp(name, ".") == 0 || (strcmp(name, "..") == 0 && dir->id == NODE_TOP)) {
		AUTO_FD int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
		int r = fd < 0 ? -errno : tree_stat(fd, ret_st);

		if (r == 0)
			*ret_fd = take_fd(&fd);
		return r;
	}
	if (strcmp(name, "..") != 0) {
		int r = tree_name_check(name);

		if (r < 0)
			return r;
	}
	return tree_pin(dir_fd, name, ret_fd, ret_st);
}

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int dir_fd = -1;
	AUTO_FD int fd = -1;
	struct fuse_entry_param entry = { .entry_timeout = ov->entry_timeout };
	struct node_info dir, self;
	struct ops_look look = ops_look(ov);
	uint64_t exclude = 0;
	struct stat st;
	int r;

	if (ops_is_top(ov, parent)) {
		ops_top_lookup(req, name);
		return;
	}
	r = node_open(ov->nodes, parent, &dir_fd, &dir);
	if (r == 0 && strcmp(name, "..") == 0 && dir.id == node_root(ov->nodes) &&
	    dir.id != NODE_TOP) {
		ops_top_reply_entry(req);
		return;
	}
	if (r == 0)
		r = pin_entry(dir_fd, &dir, name, &fd, &st);
	if (r == -ENOENT) {
		/* A negative entry: the kernel need not ask again while the time runs. */
		fuse_reply_entry(req, &entry);
		return;
	}
	if (r == 0) {
		if (name[0] == '.' && !tree_name_is_valid(name))
			exclude = node_find(ov->nodes, fd, &st, &self) == 0 ? self.exclude : 0;
		else
			exclude = exclude_child(ov->options->exclude, dir.exclude, name,
						S_ISDIR(st.st_mode));
		r = ops_entry(ov, fd, &st, look, exclude, &entry);
	}
	if (r < 0)
		ops_reply_error(req, "lookup", parent, r);
	else
		ops_reply_entry(req, &entry);
}

void ops_forgotten(struct overlay *ov, fuse_ino_t ino, uint64_t count)
{
	node_forget(ov->nodes, ino, count);
	cursors_drop(&ov->cursors, ino);
	primed_note_forgets(&ov->primed, 1);
}

void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	ops_forgotten(ops_overlay(req), ino, count);
	fuse_reply_none(req);
}

void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		ops_forgotten(ops_overlay(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}
