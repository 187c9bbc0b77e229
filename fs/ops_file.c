// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/ops.h"
#include "fs/request.h"

/* The flags of open(2) that mean something to the lower file; the rest is the kernel's own business. */
enum { LOWER_FLAGS = O_ACCMODE | O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_NOATIME | O_LARGEFILE };

/*
 * The lower tree's answer to this open: append-only, immutable, being executed, read-only. The kernel's
 * own re-open in passthrough does not ask.
 */
static int open_lower(int fd, const struct stat *st, int flags, int *ret_file)
{
	int r = tree_reopen(fd, st->st_mode, flags & LOWER_FLAGS, ret_file);

	/* O_NOATIME was allowed by the kernel for the owner as shown; ours may be another. */
	if (r == -EPERM && flags & O_NOATIME)
		r = tree_reopen(fd, st->st_mode, flags & LOWER_FLAGS & ~O_NOATIME, ret_file);
	return r;
}

/* O_TRUNC, with the times that open(2) changes, after the set-ID bits. */
static int truncate_opened(struct overlay *ov, const struct node_info *node, int fd, int file,
			   const struct stat *st, const struct fuse_file_info *fi,
			   const struct caller *caller)
{
	AUTO_FD int writable = -1;
	int r = 0;

	if (fi->flags & O_APPEND) {
		int flags = 0;

		/* An append-only file may be opened for appending, but never truncated. */
		if (ioctl(file, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_APPEND_FL)
			return -EPERM;
	}
	if (fi->kill_suidgid)
		r = ops_drop_set_ids(ov, node, fd, caller, DROP_SIZE);
	if (r == 0 && (fi->flags & O_ACCMODE) != O_WRONLY && (fi->flags & O_ACCMODE) != O_RDWR) {
		r = tree_reopen(fd, st->st_mode, O_WRONLY, &writable);
		file = writable;
	}
	if (r == 0 && ftruncate(file, 0) < 0)
		r = -errno;
	return r;
}

/* Most opens need no more than the file itself; what is left to open_lower() is -EOPNOTSUPP. */
static int open_at_once(struct overlay *ov, fuse_ino_t ino, int flags, int *ret_file,
			struct node_info *ret_node)
{
	int r;

	if (flags & O_TRUNC)
		return -EOPNOTSUPP;
	r = node_open_regular(ov->nodes, ino, flags & LOWER_FLAGS, ret_file, ret_node);
	return r == -EPERM && flags & O_NOATIME ? -EOPNOTSUPP : r;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int fd = -1;
	AUTO_FD int file = -1;
	struct caller caller;
	struct node_info node;
	struct stat st;
	int r = open_at_once(ov, ino, fi->flags, &file, &node);

	if (r == -EOPNOTSUPP) {
		r = node_open(ov->nodes, ino, &fd, &node);
		if (r == 0)
			r = tree_stat(fd, &st);
		if (r == 0)
			r = open_lower(fd, &st, fi->flags, &file);
	}
	if (r == 0 && fi->flags & O_TRUNC) {
		ops_caller(req, &caller);
		r = truncate_opened(ov, &node, fd, file, &st, fi, &caller);
	}
	if (r == 0)
		r = backing_open(ov, &node, take_fd(&file), fi);
	if (r < 0) {
		ops_reply_error(req, "open", ino, r);
		return;
	}
	if (fuse_reply_open(req, fi) < 0)
		backing_release(ov, ino, fi->fh);
}

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct ledger_record *rec = ledger_current();

	/* A dead server may have counted it. */
	if (!rec || rec->opened == 0)
		backing_release(ops_overlay(req), ino, fi->fh);
	fuse_reply_err(req, 0);
}

/*
 * A descriptor of the file for one call: the open one, or in passthrough, where the server holds
 * none, a fresh one.
 */
static int borrow(struct overlay *ov, fuse_ino_t ino, const struct fuse_file_info *fi, int flags,
		  int *ret_owned, int *ret_file)
{
	AUTO_FD int fd = -1;
	struct node_info node;
	struct stat st;
	int r;

	if (fi && backing_file(ov, fi->fh) >= 0) {
		*ret_file = backing_file(ov, fi->fh);
		return 0;
	}
	r = node_open(ov->nodes, ino, &fd, &node);
	if (r == 0)
		r = tree_stat(fd, &st);
	if (r == 0 && fi && file_handle_is_none(fi->fh))
		flags |= (int)(fi->fh & FILE_HANDLE_FLAGS);
	if (r == 0)
		r = tree_reopen(fd, st.st_mode, flags, ret_owned);
	/* It may have become append-only since the caller opened it: what that forbids the call will tell. */
	if (r == -EPERM && (flags & O_ACCMODE) == O_WRONLY)
		r = tree_reopen(fd, st.st_mode, flags | O_APPEND, ret_owned);
	if (r == 0)
		*ret_file = *ret_owned;
	return r;
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FREE char *data = malloc(size ? size : 1);
	AUTO_FD int owned = -1;
	size_t done = 0;
	int file = -1;
	int r = data ? borrow(ov, ino, fi, O_RDONLY, &owned, &file) : -ENOMEM;

	while (r == 0 && done < size) {
		ssize_t n = pread(file, data + done, size - done, offset + (off_t)done);

		if (n < 0 && done == 0)
			r = -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (r < 0)
		ops_reply_error(req, "read", ino, r);
	else
		fuse_reply_buf(req, data, done);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	       struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int owned = -1;
	size_t done = 0;
	int file = -1;
	int r = borrow(ov, ino, fi, O_WRONLY, &owned, &file);

	if (r == 0 && request_kills_write_set_ids()) {
		AUTO_FD int fd = -1;
		struct caller caller;
		struct node_info node;

		ops_caller(req, &caller);
		r = node_open(ov->nodes, ino, &fd, &node);
		if (r == 0)
			r = ops_drop_set_ids(ov, &node, fd, &caller, DROP_WRITE);
	}
	while (r == 0 && done < size) {
		ssize_t n = pwrite(file, data + done, size - done, offset + (off_t)done);

		if (n < 0 && done == 0)
			r = -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (r < 0)
		ops_reply_error(req, "write", ino, r);
	else
		fuse_reply_write(req, done);
}

static void synchronise(fuse_req_t req, fuse_ino_t ino, int datasync,
			const struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int owned = -1;
	int file = -1;
	int r = borrow(ov, ino, fi, O_RDONLY, &owned, &file);

	if (r == 0 && (datasync ? fdatasync(file) : fsync(file)) < 0)
		r = -errno;
	ops_reply_error(req, "fsync", ino, r);
}

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	synchronise(req, ino, datasync, fi);
}

/* Of a directory whose opening asked nothing fh is 0, which may be the handle of a descriptor (listing.h). */
void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)fi;
	synchronise(req, ino, datasync, NULL);
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int owned = -1;
	int file = -1;
	int r = borrow(ov, ino, fi, O_WRONLY, &owned, &file);

	/* EINTR: a signal of ours, which is nothing to the caller: tmpfs has undone what it had done. */
	while (r == 0 && fallocate(file, mode, offset, length) < 0)
		r = errno == EINTR ? 0 : -errno;
	ops_reply_error(req, "fallocate", ino, r);
}

void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int owned = -1;
	off_t found = 0;
	int file = -1;
	int r = borrow(ov, ino, fi, O_RDONLY, &owned, &file);

	if (r == 0) {
		found = lseek(file, offset, whence);
		if (found < 0)
			r = -errno;
	}
	if (r < 0)
		ops_reply_error(req, "lseek", ino, r);
	else
		fuse_reply_lseek(req, found);
}

void ops_copy_file_range(fuse_req_t req, fuse_ino_t in, off_t in_offset,
			 struct fuse_file_info *in_fi, fuse_ino_t out, off_t out_offset,
			 struct fuse_file_info *out_fi, size_t length, int flags)
{
	struct overlay *ov = ops_overlay(req);
	AUTO_FD int in_owned = -1;
	AUTO_FD int out_owned = -1;
	int in_file = -1, out_file = -1;
	ssize_t copied = 0;
	int r = borrow(ov, in, in_fi, O_RDONLY, &in_owned, &in_file);

	if (r == 0)
		r = borrow(ov, out, out_fi, O_WRONLY, &out_owned, &out_file);
	if (r == 0) {
		copied = copy_file_range(in_file, &in_offset, out_file, &out_offset, length,
					 (unsigned int)flags);
		if (copied < 0)
			r = -errno;
	}
	/* The kernel does not know that the access time of what was read has changed, if only tried. */
	overlay_invalidate(ov, in);
	if (r < 0)
		ops_reply_error(req, "copy_file_range", out, r);
	else
		fuse_reply_write(req, (size_t)copied);
}

/*
 * File attributes (chattr): the kernel has checked owner and CAP_LINUX_IMMUTABLE. Nothing else goes to
 * the lower file: an ioctl may mean anything to a file system.
 */
void ops_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *argument,
	       struct fuse_file_info *fi, unsigned int flags, const void *in, size_t in_size,
	       size_t out_size)
{
	static const struct {
		unsigned int command;
		size_t in_size, out_size;
	} listed[] = {
		{ FS_IOC_GETFLAGS, 0, sizeof(int) },
		{ FS_IOC_SETFLAGS, sizeof(int), 0 },
		{ FS_IOC_FSGETXATTR, 0, sizeof(struct fsxattr) },
		{ FS_IOC_FSSETXATTR, sizeof(struct fsxattr), 0 },
	};
	struct overlay *ov = ops_overlay(req);
	union {
		long flags; /* the kernel's FS_IOC_*FLAGS carry an int under the name of a long */
		struct fsxattr xattr;
	} data;
	AUTO_FD int owned = -1;
	int file = -1, r = -ENOTTY;

	(void)argument;
	(void)fi;
	memset(&data, 0, sizeof(data));
	for (size_t i = 0; !(flags & FUSE_IOCTL_COMPAT) && i < ARRAY_SIZE(listed); i++) {
		if (listed[i].command != command || in_size < listed[i].in_size ||
		    out_size < listed[i].out_size)
			continue;
		if (listed[i].in_size > 0)
			memcpy(&data, in, listed[i].in_size);
		r = borrow(ov, ino, NULL, O_RDONLY | O_NONBLOCK, &owned, &file);
		if (r == 0 && ioctl(file, command, &data) < 0)
			r = -errno;
		if (r == 0) {
			size_t reply = out_size < sizeof(data) ? out_size : sizeof(data);

			/* It changed ctime: the kernel does not know that of an ioctl. */
			if (listed[i].in_size > 0) {
				overlay_invalidate(ov, ino);
				overlay_invalidate_listing(ov, ino);
			}
			fuse_reply_ioctl(req, 0, &data, reply);
			return;
		}
		break;
	}
	ops_reply_error(req, "ioctl", ino, r);
}
