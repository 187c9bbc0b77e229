/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OPS_H
#define FS_OPS_H

/*
 * ops: the FUSE requests, translated. A handler unpacks, makes the calls on node, run and tree, replies
 * exactly once, and touches nothing of the request after.
 *
 * The handlers lie by noun in ops_lookup.c, ops_attr.c, ops_create.c, ops_name.c, ops_file.c, ops_dir.c and
 * ops_xattr.c; the table that libfuse gets is in session.c. Names from the kernel pass
 * tree_name_is_valid() before any call uses them.
 */

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>

#include "fs/overlay.h"

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count);
void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
/* ops_forgotten: what the two do, where there is no request any more. */
void ops_forgotten(struct overlay *ov, fuse_ino_t ino, uint64_t count);

void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask, struct fuse_file_info *fi);
void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		 struct fuse_file_info *fi);
void ops_statfs(fuse_req_t req, fuse_ino_t ino);
void ops_readlink(fuse_req_t req, fuse_ino_t ino);

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi);
void ops_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void ops_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name);
void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);
void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		const char *new_name, unsigned int flags);

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
	       struct fuse_file_info *fi);
void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi);
void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void ops_copy_file_range(fuse_req_t req, fuse_ino_t in, off_t in_offset,
			 struct fuse_file_info *in_fi, fuse_ino_t out, off_t out_offset,
			 struct fuse_file_info *out_fi, size_t length, int flags);
void ops_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *argument,
	       struct fuse_file_info *fi, unsigned int flags, const void *in, size_t in_size,
	       size_t out_size);

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		 struct fuse_file_info *fi);
void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     struct fuse_file_info *fi);

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags);
void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

/*
 * ops_top.c: what is above the volume's root. ops_is_top: whether @ino is that; then these answer. ops_top_reply_entry:
 * it is what was looked up, as the root's "..".
 */
bool ops_is_top(const struct overlay *ov, fuse_ino_t ino);
void ops_top_getattr(fuse_req_t req);
void ops_top_statx(fuse_req_t req);
void ops_top_lookup(fuse_req_t req, const char *name);
void ops_top_reply_entry(fuse_req_t req);

/* What the handlers share (ops.c). */

struct overlay *ops_overlay(fuse_req_t req);

/* ops_caller: who asks, from the request's header and the raw bytes of the request (request.h). */
void ops_caller(fuse_req_t req, struct caller *ret_caller);

/*
 * ops_reply_error: the one border where -errno becomes an answer; logs what no user can have caused. Where room can be made
 * the request is begun again instead.
 */
void ops_reply_error(fuse_req_t req, const char *op, fuse_ino_t ino, int error);

/* ops_attr_timeout: how long the kernel may believe the attributes of a node with these flags. */
double ops_attr_timeout(const struct overlay *ov, uint32_t node_flags);

/* What had happened when attributes were read: ops_look(), before that. */
struct ops_look {
	uint64_t applied, rests; /* run_look(), node_rests() */
};
struct ops_look ops_look(const struct overlay *ov);

/*
 * ops_entry: looks @fd up in the table (one more lookup for the kernel) and fills the entry to reply.
 * @look:    ops_look() before @st was read
 * @exclude: the pattern set that follows from its name.
 */
int ops_entry(struct overlay *ov, int fd, const struct stat *st, struct ops_look look,
	      uint64_t exclude, struct fuse_entry_param *ret_entry);

/* ops_entry_made: for what was just made, with the flags of run_note_created(). */
int ops_entry_made(struct overlay *ov, int fd, const struct stat *st, uint64_t exclude,
		   uint32_t flags, struct fuse_entry_param *ret_entry);

/* ops_stat: what is shown of @fd. Takes the inode's lock when the walk is at it. 0 or -errno. */
int ops_stat(struct overlay *ov, const struct node_info *node, int fd, struct stat *ret_st);

/* ops_reply_entry: replies; when the kernel no longer waits, the lookup is taken back. */
void ops_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry);

/*
 * ops_lost_set_ids: the set-ID bits that a write or chown(2) by @caller takes from a file that is shown like
 * this: set-user-ID, and set-group-ID if the group may execute, or the caller is neither in the group nor
 * has CAP_FSETID (the kernel's setattr_should_drop_sgid). ops_may_lose_set_ids: chown(2) by somebody
 * who is neither owner nor has CAP_FOWNER fails where it would take bits.
 */
mode_t ops_lost_set_ids(const struct stat *shown, const struct caller *caller);
enum caller_answer ops_may_lose_set_ids(const struct stat *shown, mode_t lost,
					const struct caller *caller);

/*
 * ops_lock_and_look: takes the inode's lock, and looks at it: as it is and as it is shown, before a change. 0 or -errno;
 * node_unlock() is the caller's in both cases.
 */
int ops_lock_and_look(struct overlay *ov, const struct node_info *node, int fd,
		      struct stat *ret_real, struct stat *ret_shown);

/*
 * ops_drop_set_ids: what a write does to set-ID bits (FUSE_HANDLE_KILLPRIV_V2 leaves it to us): set-user-ID goes,
 * set-group-ID goes if the group may execute or the caller is not in the group as shown. Only for
 * regular files. Locks the inode.
 *
 * DROP_CHOWN: chown(-1, -1): taking bits is for the owner and CAP_FOWNER: else -EPERM.
 * DROP_WRITE: a write, which whoever has the file open may do, also one that is append-only by now.
 * DROP_SIZE: a truncation: -EPERM where the file refuses it.
 */
enum drop_reason { DROP_CHOWN, DROP_WRITE, DROP_SIZE };
int ops_drop_set_ids(struct overlay *ov, const struct node_info *node, int fd,
		     const struct caller *caller, enum drop_reason reason);

#endif
