// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/limits.h>
#include <linux/xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/ledger.h"
#include "fs/ops.h"
#include "fs/ownership/apply.h"
#include "fs/ownership/present.h"
#include "fs/request.h"

static const char XFS_ACL[] = "trusted.SGI_ACL_FILE";

/* The value of system.posix_acl_access with no entries but owner, owning group and others. */
enum { MINIMAL_ACL_SIZE = 4 + 3 * 8 };

/* The run's marks are ours, not the volume's. */
static bool is_hidden(const char *name)
{
	return strncmp(name, RUN_MARK_PREFIX, strlen(RUN_MARK_PREFIX)) == 0;
}

/* Whether an attribute is the access ACL: on XFS under two names, elsewhere the second is like any other. */
static bool is_access_acl(const struct tree *tree, const char *name)
{
	return strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) == 0 ||
	       (tree->is_xfs && strcmp(name, XFS_ACL) == 0);
}

static int get_now(struct overlay *ov, const struct node_info *node, int fd, const char *name,
		   void *ret_value, size_t size, size_t *ret_len)
{
	char path[TREE_FD_PATH_MAX];
	struct stat st;
	ssize_t len;

	if (is_hidden(name))
		return -ENODATA;
	len = getxattr(tree_fd_path(fd, path), name, ret_value, size);
	if (len < 0)
		return -errno;
	if (size > 0 && is_access_acl(&ov->tree, name) && tree_stat(fd, &st) == 0 &&
	    run_is_pending(&ov->run, node, fd, &st)) {
		present(&ov->options->rule, &st);
		(strcmp(name, XFS_ACL) == 0 ? present_xfs_acl : present_acl)(st.st_mode, ret_value,
									     (size_t)len);
	}
	*ret_len = (size_t)len;
	return 0;
}

/* The value as shown: a pending file's ACL agrees with its shown mode, and its capabilities are never away. */
static int get(struct overlay *ov, const struct node_info *node, int fd, const char *name,
	       void *ret_value, size_t size, size_t *ret_len)
{
	uint64_t look = run_look(&ov->run);
	int r = get_now(ov, node, fd, name, ret_value, size, ret_len);

	if (!run_has_applied(&ov->run, look))
		return r;
	node_lock(ov->nodes, node->ino);
	r = get_now(ov, node, fd, name, ret_value, size, ret_len);
	node_unlock(ov->nodes, node->ino);
	return r;
}

/* Returns the length of the list, or -errno. */
static ssize_t list_now(int fd, char *ret_list)
{
	char path[TREE_FD_PATH_MAX];
	ssize_t len = listxattr(tree_fd_path(fd, path), ret_list, XATTR_LIST_MAX);

	return len < 0 ? -errno : len;
}

/* The names as shown: a pending file's capabilities are never away. */
static ssize_t list_names(struct overlay *ov, const struct node_info *node, int fd, char *ret_list)
{
	uint64_t look = run_look(&ov->run);
	ssize_t len = list_now(fd, ret_list);

	if (!run_has_applied(&ov->run, look))
		return len;
	node_lock(ov->nodes, node->ino);
	len = list_now(fd, ret_list);
	node_unlock(ov->nodes, node->ino);
	return len;
}

static void reply_value(fuse_req_t req, const char *op, fuse_ino_t ino, int r, const char *value,
			size_t len, size_t size)
{
	if (r < 0)
		ops_reply_error(req, op, ino, r);
	else if (size == 0)
		fuse_reply_xattr(req, len);
	else if (len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value, len);
}

/*
 * A write to a file takes its capabilities: the kernel asks whether there are any, and then removes them, as a user
 * would who may (notify_change, setattr_prepare). On an append-only or immutable file no user may, but the writer's
 * kernel. So who has asked for no more than that stands with the node until the next removal; who goes on to ask what
 * they are is a user.
 */
static void note_asker(struct overlay *ov, fuse_req_t req, const struct node_info *node,
		       const char *name, size_t size)
{
	enum { NOT_IN_OUR_NAMESPACE = 1 << 30 }; /* no thread has that number */
	uint32_t thread = (uint32_t)fuse_req_ctx(req)->pid;

	if (!(node->flags & NODE_WRITER) || strcmp(name, XATTR_NAME_CAPS) != 0)
		return;
	if (thread == 0)
		thread = NOT_IN_OUR_NAMESPACE;
	if (size == 0)
		node_set_asker(ov->nodes, node->id, thread);
	else if (node->asker == thread)
		node_set_asker(ov->nodes, node->id, 0);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FREE char *value = malloc(size ? size : 1);
	AUTO_FD int fd = -1;
	struct node_info node;
	size_t len = 0;
	int r = value ? node_open(ov->nodes, ino, &fd, &node) : -ENOMEM;

	if (r == 0)
		r = get(ov, &node, fd, name, value, size, &len);
	if (r == 0)
		note_asker(ov, req, &node, name, size);
	reply_value(req, "getxattr", ino, r, value, len, size);
}

/*
 * Takes out of the list what the caller would not see on the lower tree: our marks, and trusted names
 * without CAP_SYS_ADMIN (the lower file system has listed them for us; btrfs lists them for everybody).
 */
static size_t filter_list(const struct tree *tree, char *list, size_t len,
			  const struct caller *caller)
{
	static const char trusted[] = "trusted.";
	size_t kept = 0;
	int is_admin =
		tree->lists_trusted ? 1 : -1; /* unknown: reading a process's status is not free */

	for (size_t at = 0, n; at < len; at += n) {
		n = strnlen(list + at, len - at - 1) + 1;
		if (is_hidden(list + at))
			continue;
		if (strncmp(list + at, trusted, strlen(trusted)) == 0) {
			if (is_admin < 0)
				is_admin = caller_has_capability(caller, CAP_SYS_ADMIN);
			if (!is_admin)
				continue;
		}
		memmove(list + kept, list + at, n);
		kept += n;
	}
	return kept;
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FREE char *list = malloc(XATTR_LIST_MAX);
	AUTO_FD int fd = -1;
	struct caller caller;
	struct node_info node;
	ssize_t len = 0;
	int r = list ? node_open(ov->nodes, ino, &fd, &node) : -ENOMEM;

	if (r == 0) {
		len = list_names(ov, &node, fd, list);
		if (len < 0)
			r = (int)len;
	}
	if (r == 0 && len > 0) {
		ops_caller(req, &caller);
		len = (ssize_t)filter_list(&ov->tree, list, (size_t)len, &caller);
	}
	reply_value(req, "listxattr", ino, r, list, (size_t)len, size);
}

/*
 * Whether changing the access ACL takes set-group-ID. The kernel says so when one is set; for a removal it
 * leaves it to the file system.
 */
static bool takes_sgid(struct overlay *ov, fuse_req_t req, const struct node_info *node, int fd,
		       const struct stat *st, bool remove)
{
	struct stat shown = *st;
	struct caller caller;

	if (!remove)
		return request_kills_acl_sgid();
	run_show(&ov->run, node, fd, &shown);
	if (!ov->tree.acl_removal_takes_sgid || !(shown.st_mode & S_ISGID))
		return false;
	ops_caller(req, &caller);
	return caller_in_group_or_capable(&caller, &shown) != CALLER_YES;
}

/*
 * The call itself. To create what is there and to remove what is not would fail when it comes again: where
 * the first look allowed the call, and now it is there, or gone, a dead server had made it.
 *
 * @is_kill: perhaps nobody's call, but the kernel's, which takes capabilities from a file that is written
 * to. On an append-only file it may; we may only by a chown(2) to nobody, which does the same.
 */
static int call(const char *path, const char *name, const char *value, size_t size, int flags,
		bool remove, bool is_kill)
{
	bool is_once = remove || flags & XATTR_CREATE;
	bool is_there = is_once && getxattr(path, name, NULL, 0) >= 0;
	int r;

	if (is_once && ledger_phase() != LEDGER_BEGUN && is_there != remove)
		return 0;
	if (is_there == remove)
		ledger_start(0, 0, 0, 0);
	r = remove ? removexattr(path, name) : setxattr(path, name, value, size, flags);
	r = r < 0 ? -errno : 0;
	if (r == -EPERM && is_kill)
		r = fchownat(AT_FDCWD, path, (uid_t)-1, (gid_t)-1, 0) < 0 ? -errno : 0;
	if (r < 0)
		ledger_failed();
	else
		ledger_done();
	return r;
}

static bool is_killing(const struct node_info *node, const char *name, bool remove)
{
	return remove && node->asker != 0 && strcmp(name, XATTR_NAME_CAPS) == 0;
}

/*
 * An ACL that says the mode, set on a file that has none, changes nothing; on most file systems (posix_acl_update_mode) not
 * even ctime. A pending file stays pending then: what is to be set is its real mode, for the sake of times and refusals.
 * Returns whether it is such an ACL; ret_value is the one to set.
 */
static bool says_mode(struct overlay *ov, const struct node_info *node, int fd,
		      const struct stat *real, bool takes_bit, const char *name, const char *value,
		      size_t size, char ret_value[MINIMAL_ACL_SIZE])
{
	char path[TREE_FD_PATH_MAX];
	struct stat shown = *real;

	if (size != MINIMAL_ACL_SIZE || strcmp(name, XATTR_NAME_POSIX_ACL_ACCESS) != 0 ||
	    getxattr(tree_fd_path(fd, path), name, NULL, 0) >= 0)
		return false;
	run_show(&ov->run, node, fd, &shown);
	/* The kernel says what it takes without a look whether it is there. */
	if (takes_bit && shown.st_mode & S_ISGID)
		return false;
	memcpy(ret_value, value, size);
	if (present_acl(shown.st_mode, ret_value, size) < 0 || memcmp(ret_value, value, size) != 0)
		return false;
	return present_acl(real->st_mode, ret_value, size) == 0;
}

/*
 * Changes one attribute. An access ACL is ownership: the file is settled first, and afterwards
 * set-group-ID goes where the kernel says so.
 */
static int change(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags, bool remove)
{
	struct overlay *ov = ops_overlay(req);
	bool is_acl = is_access_acl(&ov->tree, name);
	AUTO_FD int fd = -1;
	char path[TREE_FD_PATH_MAX], real_acl[MINIMAL_ACL_SIZE];
	struct node_info node;
	bool takes_bit = false, is_kill;
	struct stat st = { 0 };
	int r;

	if (is_hidden(name))
		return -EPERM;
	r = node_open(ov->nodes, ino, &fd, &node);
	if (r < 0)
		return r;
	is_kill = is_killing(&node, name, remove);
	node_lock(ov->nodes, node.ino);
	r = tree_stat(fd, &st);
	tree_fd_path(fd, path);
	if (r == 0 && is_acl)
		takes_bit = takes_sgid(ov, req, &node, fd, &st, remove);
	if (r == 0 && is_acl && !remove &&
	    says_mode(ov, &node, fd, &st, takes_bit, name, value, size, real_acl))
		value = real_acl;
	/* To remove what is not there changes nothing. */
	else if (r == 0 && is_acl && (!remove || takes_bit || getxattr(path, name, NULL, 0) >= 0))
		r = run_settle_changed(&ov->run, &node, fd, &st);
	if (r == 0)
		r = call(path, name, value, size, flags, remove, is_kill);
	if (is_kill)
		node_set_asker(ov->nodes, node.id, 0);
	if (r == 0 && takes_bit && tree_stat(fd, &st) == 0 && st.st_mode & S_ISGID)
		r = apply_mode(fd, TREE_FD_DIR, st.st_mode & 07777 & ~(mode_t)S_ISGID);
	node_unlock(ov->nodes, node.ino);
	if (S_ISDIR(st.st_mode))
		overlay_invalidate_listing(ov, ino);
	return r;
}

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags)
{
	ops_reply_error(req, "setxattr", ino, change(req, ino, name, value, size, flags, false));
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	ops_reply_error(req, "removexattr", ino, change(req, ino, name, NULL, 0, 0, true));
}
