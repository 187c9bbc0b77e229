// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/ledger.h"
#include "fs/ops.h"
#include "fs/ownership/apply.h"

static void reply_attr(fuse_req_t req, struct overlay *ov, const struct node_info *node, int fd,
		       const char *op)
{
	struct stat st;
	int r = ops_stat(ov, node, fd, &st);

	if (r < 0) {
		ops_reply_error(req, op, node->id, r);
		return;
	}
	fuse_reply_attr(req, &st, ops_attr_timeout(ov, node->flags));
}

void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	struct node_info node;
	int r;

	(void)fi;
	if (ops_is_top(ov, ino)) {
		ops_top_getattr(req);
		return;
	}
	r = backing_open_to_look(ov, ino, &fd, &node);
	if (r < 0) {
		ops_reply_error(req, "getattr", ino, r);
	} else {
		backing_look_for_rest(ov, &node, fd);
		reply_attr(req, ov, &node, fd, "getattr");
	}
}

/*
 * Asked only for a birth time. A statx of ours has the same layout as the kernel's reply, with attributes
 * that the kernel does not pass on.
 */
void ops_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	struct node_info node;
	struct statx stx;
	struct stat st;
	int r;

	(void)flags, (void)mask, (void)fi;
	if (ops_is_top(ov, ino)) {
		ops_top_statx(req);
		return;
	}
	r = backing_open_to_look(ov, ino, &fd, &node);
	if (r == 0) {
		backing_look_for_rest(ov, &node, fd);
		r = ops_stat(ov, &node, fd, &st);
	}
	if (r == 0 && statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW,
			    STATX_BASIC_STATS | STATX_BTIME, &stx) < 0)
		r = -errno;
	if (r < 0) {
		ops_reply_error(req, "statx", ino, r);
		return;
	}
	stx.stx_mode = (uint16_t)st.st_mode;
	stx.stx_gid = st.st_gid;
	fuse_reply_statx(req, 0, &stx, ops_attr_timeout(ov, node.flags));
}

/*
 * An empty SETATTR. For a regular file the kernel tells us that a write, an fallocate or a chown(-1, -1)
 * takes the set-ID bits away, and leaves it to us to do so (FUSE_HANDLE_KILLPRIV_V2 with passthrough:
 * the write itself runs with our credentials and keeps them). A file that nobody had open for writing
 * was not written to. For other types it is a chown(-1, -1). Its change of ctime comes with a chown(-1, -1)
 * of ours, which no longer has bits to take.
 *
 * What cannot be told apart: somebody with CAP_FSETID writes to a file with set-ID bits and capabilities
 * (the kernel took those: the bits would stay), or calls chown(-1, -1) (they go). They go.
 */
static int set_nothing(struct overlay *ov, const struct node_info *node, int fd,
		       const struct caller *caller)
{
	int r = ops_drop_set_ids(ov, node, fd, caller,
				 node->flags & NODE_WRITER ? DROP_WRITE : DROP_CHOWN);

	if (r < 0)
		return r;
	if (fchownat(fd, "", (uid_t)-1, (gid_t)-1, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/*
 * To take S_ISUID away the kernel writes the mode (notify_change), as chmod(2) does, and whoever writes a mode
 * with S_ISGID must be in the group that the file has then (setattr_prepare). Without S_ISUID nothing is written.
 */
static bool loses_to_group(const struct stat *shown, uid_t uid, gid_t gid,
			   const struct caller *caller)
{
	const mode_t both = S_ISUID | S_ISGID;
	struct stat then = *shown;

	if (gid == GID_UNSET || S_ISDIR(shown->st_mode) || (shown->st_mode & both) != both)
		return false;
	then.st_gid = gid;
	if (uid != (uid_t)-1)
		then.st_uid = uid;
	return caller_in_group_or_capable(caller, &then) != CALLER_YES;
}

/* chown(2) as the caller would have done it; the kernel has checked that he may. */
static int set_owner(int fd, const struct stat *shown, const struct stat *attr, int to_set,
		     const struct caller *caller)
{
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
	struct stat now;
	int r;

	if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ledger_pass(POINT_CHANGING);
	/*
	 * The lower file system took the set-ID bits with our capabilities, which keep S_ISGID without
	 * group-execute; the kernel takes that too from a caller outside the group without CAP_FSETID.
	 */
	if (!(ops_lost_set_ids(shown, caller) & S_ISGID) &&
	    !loses_to_group(shown, uid, gid, caller))
		return 0;
	r = tree_stat(fd, &now);
	if (r < 0 || !(now.st_mode & S_ISGID))
		return r;
	return apply_mode(fd, TREE_FD_DIR, now.st_mode & 07777 & ~(mode_t)S_ISGID);
}

/*
 * Owner, group and mode. A pending file is converged and marked first, so that a crash at any point
 * leaves a file that is right. In a virtual view the mask's bits and the group belong to the view: the
 * lower keeps its own.
 *
 * What of the set-ID bits the caller may take, and takes, follows from the file as it was shown before: a server that
 * repeats what a dead one had half done must not judge him by the owner and group that he has just given it.
 */
static int set_ownership(struct overlay *ov, struct node_info *node, int fd,
			 const struct stat *attr, int to_set, const struct caller *caller)
{
	const struct ownership_rule *rule = &ov->options->rule;
	mode_t mode = attr->st_mode & 07777;
	struct stat real, shown;
	int r = ops_lock_and_look(ov, node, fd, &real, &shown);

	if (r == 0) {
		ledger_start_change(node->id, node->ino, &shown);
		if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) &&
		    ops_may_lose_set_ids(&shown, ops_lost_set_ids(&shown, caller), caller) ==
			    CALLER_NO)
			r = -EPERM;
	}
	if (r == 0) {
		if (ov->options->ownership == OWNERSHIP_VIRTUAL &&
		    run_is_pending(&ov->run, node, fd, &real)) {
			mode_t mask = present_mask(rule, real.st_mode);

			if (to_set & FUSE_SET_ATTR_GID && attr->st_gid != shown.st_gid)
				r = -EPERM;
			to_set &= ~FUSE_SET_ATTR_GID;
			mode = (mode & ~mask) | (real.st_mode & mask);
		} else {
			r = run_settle_changed(&ov->run, node, fd, &real);
		}
	}
	if (r == 0 && to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		r = set_owner(fd, &shown, attr, to_set, caller);
	if (r == 0 && to_set & FUSE_SET_ATTR_MODE)
		r = apply_mode(fd, TREE_FD_DIR, mode);
	node_unlock(ov->nodes, node->ino);
	return r;
}

/* truncate(2) without an open file, ftruncate(2) with one: the times they change differ. */
static int set_size(int fd, off_t size, bool has_file)
{
	char path[TREE_FD_PATH_MAX];
	AUTO_FD int file = -1;
	struct stat st;
	int r = tree_stat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!has_file)
		return truncate(tree_fd_path(fd, path), size) < 0 ? -errno : 0;
	r = tree_reopen(fd, st.st_mode, O_WRONLY, &file);
	if (r < 0)
		return r;
	return ftruncate(file, size) < 0 ? -errno : 0;
}

/*
 * truncate(2) to the size that the file has changes neither times nor content, but takes set-ID bits: which a chmod(2)
 * before it would date. So the kernel takes them: from somebody who is in the file's group where the caller is.
 */
static int set_same_size(struct overlay *ov, const struct node_info *node, int fd, off_t size,
			 const struct caller *caller)
{
	struct stat real, shown;
	int r = ops_lock_and_look(ov, node, fd, &real, &shown);
	mode_t lost = r == 0 ? ops_lost_set_ids(&shown, caller) : 0;

	if (r == 0 && lost != 0)
		r = real.st_mode & S_ISGID && !(lost & S_ISGID) ?
			    caller_enter_member(real.st_gid) :
			    caller_enter_stranger(real.st_gid);
	if (r == 0)
		r = set_size(fd, size, false);
	if (lost != 0)
		caller_leave_stranger();
	node_unlock(ov->nodes, node->ino);
	return r;
}

/* The size, and what of the set-ID bits goes with it: the caller has no CAP_FSETID. */
static int set_size_and_kill(struct overlay *ov, const struct node_info *node, int fd, off_t size,
			     bool has_file, const struct caller *caller)
{
	struct stat st;
	int r;

	if (!has_file && tree_stat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size)
		return set_same_size(ov, node, fd, size, caller);
	r = ops_drop_set_ids(ov, node, fd, caller, DROP_SIZE);
	return r < 0 ? r : set_size(fd, size, has_file);
}

static int set_times(int fd, const struct stat *attr, int to_set)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_OMIT } };

	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		times[0].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_ATIME)
		times[0] = attr->st_atim;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		times[1].tv_nsec = UTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_MTIME)
		times[1] = attr->st_mtim;
	if (utimensat(fd, "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		 struct fuse_file_info *fi)
{
	enum {
		OWNERSHIP = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID,
		TIMES = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW |
			FUSE_SET_ATTR_MTIME_NOW,
		KILL = FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_KILL_SGID,
	};
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	struct caller caller;
	struct node_info node = { .id = 0 };
	int r = node_open(ov->nodes, ino, &fd, &node);

	ops_caller(req, &caller);
	/* Whatever of this is done twice is done as if once: the kernel lets nobody between. */
	if (!(to_set & OWNERSHIP))
		ledger_start(ino, node.ino, 0, 0);
	if (r == 0 && (to_set & ~KILL) == 0)
		r = set_nothing(ov, &node, fd, &caller);
	if (r == 0 && to_set & OWNERSHIP)
		r = set_ownership(ov, &node, fd, attr, to_set, &caller);
	if (r == 0 && to_set & FUSE_SET_ATTR_SIZE)
		r = to_set & KILL ?
			    set_size_and_kill(ov, &node, fd, attr->st_size, fi != NULL, &caller) :
			    set_size(fd, attr->st_size, fi != NULL);
	if (r == 0 && to_set & TIMES)
		r = set_times(fd, attr, to_set);
	if (r == 0)
		ledger_done();
	if (node.flags & NODE_DIRECTORY)
		overlay_invalidate_listing(ov, ino);
	if (r < 0) {
		/* Part of it may be done. */
		overlay_invalidate(ov, ino);
		ops_reply_error(req, "setattr", ino, r);
	} else {
		reply_attr(req, ov, &node, fd, "setattr");
	}
}

void ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct overlay *ov = ops_overlay(req);
	struct statvfs st;

	if (fstatvfs(ov->tree.mount_fd, &st) < 0)
		ops_reply_error(req, "statfs", ino, -errno);
	else
		fuse_reply_statfs(req, &st);
}

void ops_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	char target[PATH_MAX + 1];
	struct node_info node;
	ssize_t len = 0;
	int r = node_open(ov->nodes, ino, &fd, &node);

	if (r == 0) {
		len = readlinkat(fd, "", target, sizeof(target));
		if (len < 0)
			r = -errno;
		else if (len == (ssize_t)sizeof(target))
			r = -ENAMETOOLONG;
	}
	if (r < 0) {
		ops_reply_error(req, "readlink", ino, r);
		return;
	}
	target[len] = '\0';
	fuse_reply_readlink(req, target);
}
