// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fs/mounting.h"
#include "fs/ops.h"

/*
 * The directory above the volume's root, which is the kernel's node 1 (node.h says why it is there). The keeper takes
 * the root out of it, to mount that, and nobody else gets there but by a file handle, which takes
 * CAP_DAC_READ_SEARCH. It has one entry; whatever is not answered here is refused by node_slot_check().
 */

bool ops_is_top(const struct overlay *ov, fuse_ino_t ino)
{
	return ino == NODE_TOP && node_root(ov->nodes) != NODE_TOP;
}

static struct stat top_attributes(void)
{
	return (struct stat){
		.st_ino = NODE_TOP,
		.st_mode = S_IFDIR | 0555,
		.st_nlink = 3,
		.st_uid = getuid(),
		.st_gid = getgid(),
	};
}

void ops_top_getattr(fuse_req_t req)
{
	struct stat st = top_attributes();

	fuse_reply_attr(req, &st, ops_overlay(req)->attr_timeout);
}

void ops_top_statx(fuse_req_t req)
{
	struct stat st = top_attributes();
	struct statx stx = {
		.stx_mask = STATX_BASIC_STATS,
		.stx_ino = st.st_ino,
		.stx_mode = (uint16_t)st.st_mode,
		.stx_nlink = (uint32_t)st.st_nlink,
		.stx_uid = st.st_uid,
		.stx_gid = st.st_gid,
	};

	fuse_reply_statx(req, 0, &stx, ops_overlay(req)->attr_timeout);
}

void ops_top_lookup(fuse_req_t req, const char *name)
{
	struct overlay *ov = ops_overlay(req);
	struct ops_look look = ops_look(ov);
	struct fuse_entry_param entry;
	struct node_info root;
	struct stat st;
	int r = strcmp(name, MOUNTING_ROOT_NAME) == 0 ? 0 : -ENOENT;

	if (r == 0)
		r = node_get(ov->nodes, node_root(ov->nodes), &root);
	if (r == 0)
		r = tree_stat(ov->tree.root_fd, &st);
	if (r == 0)
		r = ops_entry(ov, ov->tree.root_fd, &st, look, root.exclude, &entry);
	if (r < 0)
		ops_reply_error(req, "lookup", NODE_TOP, r);
	else
		ops_reply_entry(req, &entry);
}

void ops_top_reply_entry(fuse_req_t req)
{
	const struct overlay *ov = ops_overlay(req);
	const struct fuse_entry_param entry = {
		.ino = NODE_TOP,
		.attr = top_attributes(),
		.attr_timeout = ov->attr_timeout,
		.entry_timeout = ov->entry_timeout,
	};

	fuse_reply_entry(req, &entry);
}
