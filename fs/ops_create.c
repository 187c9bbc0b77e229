// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/ledger.h"
#include "fs/listing.h"
#include "fs/ops.h"
#include "fs/ownership/apply.h"
#include "fs/recovery.h"

/*
 * Creating. The kernel has checked that the caller may write the directory as it is shown; the real one
 * may refuse him, belong to another group and lack set-group-ID. So objects are made with the caller's
 * user id and umask (quota, default ACLs), with the group that follows from the directory as shown, and
 * with our capabilities.
 */
struct creation {
	struct overlay *ov;
	struct caller caller;
	struct node_info dir;
	int dir_fd;
	struct stat shown_dir;
	const char *name;
	gid_t gid;     /* the new object's */
	gid_t fsgid;   /* to make it with */
	bool inherits; /* the directory is shown with set-group-ID */
};

static int creation_begin(fuse_req_t req, fuse_ino_t parent, const char *name,
			  struct creation *ret_new)
{
	struct creation new = { .ov = ops_overlay(req), .dir_fd = -1, .name = name };
	struct stat real;
	int r;

	r = name ? tree_name_check(name) : 0;
	if (r < 0)
		return r;
	ops_caller(req, &new.caller);
	/* Through an idmapped mount that has no id for him. */
	if (new.caller.uid == (uid_t)-1 || new.caller.gid == GID_UNSET)
		return -EOVERFLOW;
	r = node_open(new.ov->nodes, parent, &new.dir_fd, &new.dir);
	if (r == 0)
		r = tree_stat(new.dir_fd, &real);
	if (r < 0) {
		cleanup_fd(&new.dir_fd);
		return r;
	}
	if (name)
		listing_drop(new.ov, &new.dir);
	new.shown_dir = real;
	/* In a virtual view the lower's own group rule decides: nothing there is written for the view. */
	if (new.ov->options->ownership == OWNERSHIP_CONVERGE)
		run_show(&new.ov->run, &new.dir, new.dir_fd, &new.shown_dir);
	new.inherits = new.shown_dir.st_mode &S_ISGID;
	new.gid = new.inherits ? new.shown_dir.st_gid : new.caller.gid;
	/*
	 * Where the real directory gives its group, and no server far away asks who we are, root's, which this thread has,
	 * is as good, and two calls less. Should the directory change now, adjust() sees to it.
	 */
	if (new.ov->tree.is_local &&new.inherits && real.st_gid == new.gid)
		new.fsgid = real.st_mode &S_ISGID ? 0 : new.gid;
	else
		new.fsgid = new.gid;
	*ret_new = new;
	return 0;
}

/*
 * A set-group-ID executable made in a set-group-ID directory by somebody outside its group: the kernel
 * takes the bit (mode_strip_sgid); ours cannot, because the real directory may have neither.
 */
static mode_t allowed_mode(const struct creation *new, mode_t mode)
{
	const mode_t both = S_ISGID | S_IXGRP;

	if ((mode & both) != both || S_ISDIR(mode) || !new->inherits)
		return mode;
	/* It has done so, by the map of the mount, which we do not know (caller.h). */
	if (new->caller.is_idmapped)
		return mode;
	if (caller_in_group_or_capable(&new->caller, &new->shown_dir) == CALLER_YES)
		return mode;
	return mode & ~(mode_t)S_ISGID;
}

enum { SET_IDS = S_ISUID | S_ISGID };

/*
 * What the real directory could not give the new object: the group, where it has set-group-ID and
 * another group; set-group-ID of a directory, where it has none.
 */
static int adjust(const struct creation *new, int fd, mode_t wanted, struct stat *io_st)
{
	bool was_made = ledger_phase() != LEDGER_BEGUN; /* by a server that may have died in here */
	bool wants_sgid = S_ISDIR(io_st->st_mode) && new->inherits;
	bool has_equal_times = was_made || (io_st->st_mtim.tv_sec == io_st->st_ctim.tv_sec &&
					    io_st->st_mtim.tv_nsec == io_st->st_ctim.tv_nsec);
	mode_t mode = was_made ? ledger_current()->mode : io_st->st_mode, kept;
	int r = 0;

	if (io_st->st_gid == new->gid && (!wants_sgid || mode & S_ISGID) && mode == io_st->st_mode)
		return 0;
	/* Only what we have just made is touched: not something that was put in its place. */
	if (io_st->st_uid != new->caller.uid || (io_st->st_mode & S_IFMT) != (wanted & S_IFMT))
		return -ESTALE;
	if (io_st->st_gid != new->gid || was_made) {
		if (fchownat(fd, "", (uid_t)-1, new->gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		ledger_pass(POINT_CHANGING);
		/*
		 * The change of group took set-ID bits that creation had allowed. Those and no others come
		 * back: the caller may have put a program of his own here meanwhile.
		 */
		kept = mode & wanted & SET_IDS;
		if (!S_ISDIR(mode) && kept)
			r = apply_mode(fd, TREE_FD_DIR, (mode & 01777) | kept);
	}
	if (r == 0 && wants_sgid && !(mode & S_ISGID))
		r = apply_mode(fd, TREE_FD_DIR, (mode & 07777) | S_ISGID);
	if (r < 0)
		return r;
	/* Where the times of what was just made are equal, they still are. */
	if (has_equal_times && utimensat(fd, "", NULL, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return tree_stat(fd, io_st);
}

/* What a dead server made for this very request: 1, 0 when there is nothing, or -errno. */
static int find_made(const struct creation *new, int *ret_fd, struct stat *ret_st)
{
	AUTO_FD int fd = -1;
	int r;

	if (ledger_phase() == LEDGER_BEGUN)
		return 0;
	r = tree_pin(new->dir_fd, new->name, &fd, ret_st);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!recovery_was_made(ledger_current(), fd, ret_st))
		return 0;
	/* The mode as made is known already where a server died in adjust(). */
	if (ledger_phase() != LEDGER_DONE)
		ledger_made(ret_st);
	*ret_fd = take_fd(&fd);
	return 1;
}

/* A new object that cannot be made right does not stay. */
static void creation_undo(const struct creation *new, mode_t type)
{
	if (new->name)
		unlinkat(new->dir_fd, new->name, S_ISDIR(type) ? AT_REMOVEDIR : 0);
}

/* Makes the new object right, settled and known; @fd is a descriptor of it. */
static int creation_finish(const struct creation *new, int fd, mode_t type, struct stat *io_st,
			   struct fuse_entry_param *ret_entry)
{
	uint64_t exclude = new->name ? exclude_child(new->ov->options->exclude, new->dir.exclude,
						     new->name, S_ISDIR(type)) :
				       0;
	uint32_t flags;
	int r = adjust(new, fd, type, io_st);

	if (r == 0)
		r = run_note_created(&new->ov->run, fd, io_st, &flags);
	if (r == 0)
		r = ops_entry_made(new->ov, fd, io_st, exclude, flags, ret_entry);
	if (r < 0)
		creation_undo(new, type);
	return r;
}

static int make(const struct creation *new, mode_t mode, dev_t rdev, const char *link_target)
{
	int r;

	ledger_start_creation(new->dir.id, new->name, mode, new->caller.uid);
	caller_enter(&new->caller, new->fsgid);
	if (link_target)
		r = symlinkat(link_target, new->dir_fd, new->name);
	else if (S_ISDIR(mode))
		r = mkdirat(new->dir_fd, new->name, mode & 07777);
	else
		r = mknodat(new->dir_fd, new->name, mode, rdev);
	r = r < 0 ? -errno : 0;
	caller_leave();
	if (r < 0)
		ledger_failed();
	return r;
}

/* Where there is no descriptor for what was just made, the request may be begun again (overlay_make_room()), and is to find nothing. */
static int pin_made(const struct creation *new, mode_t type, int *ret_fd, struct stat *ret_st)
{
	int r = tree_pin(new->dir_fd, new->name, ret_fd, ret_st);

	if (r < 0)
		creation_undo(new, type);
	return r;
}

/* mkdir, mknod, symlink: made by name, then pinned. */
static void make_named(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
		       const char *link_target, const char *op)
{
	struct creation new;
	AUTO_FD int dir_fd = -1;
	AUTO_FD int fd = -1;
	struct fuse_entry_param entry;
	unsigned creation;
	struct stat st;
	int r = creation_begin(req, parent, name, &new);

	if (r < 0) {
		ops_reply_error(req, op, parent, r);
		return;
	}
	dir_fd = new.dir_fd;
	mode = allowed_mode(&new, mode);
	creation = run_creation_begin(&new.ov->run);
	r = find_made(&new, &fd, &st);
	if (r == 0) {
		r = make(&new, mode, rdev, link_target);
		if (r == 0)
			r = pin_made(&new, mode, &fd, &st);
		if (r == 0)
			ledger_made(&st);
	}
	if (r >= 0)
		r = creation_finish(&new, fd, mode, &st, &entry);
	run_creation_end(&new.ov->run, creation);
	if (r < 0)
		ops_reply_error(req, op, parent, r);
	else
		ops_reply_entry(req, &entry);
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make_named(req, parent, name, (mode & 07777) | S_IFDIR, 0, NULL, "mkdir");
}

void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	make_named(req, parent, name, mode, rdev, NULL, "mknod");
}

void ops_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	make_named(req, parent, name, S_IFLNK, 0, link, "symlink");
}

static void reply_created(fuse_req_t req, const struct creation *new,
			  struct fuse_entry_param *entry, int file, struct fuse_file_info *fi)
{
	struct overlay *ov = new->ov;
	fuse_ino_t ino = entry->ino;
	struct node_info node;
	int r = node_get(ov->nodes, ino, &node);

	if (r == 0)
		r = backing_open_created(ov, &node, file, fi);
	else
		cleanup_fd(&file);
	if (r < 0) {
		creation_undo(new, S_IFREG);
		node_forget(ov->nodes, ino, 1);
		ops_reply_error(req, "create", ino, r);
	} else if (fuse_reply_create(req, entry, fi) < 0) {
		backing_release(ov, ino, fi->fh);
		node_forget(ov->nodes, ino, 1);
	}
}

/* The flags of open(2) that mean something to a file that is being made. */
enum { CREATE_FLAGS = O_ACCMODE | O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_LARGEFILE };

/* Makes the file, or opens what a dead server made for this request. */
static int create_file(const struct creation *new, mode_t mode, int flags, int *ret_file,
		       struct stat *ret_st)
{
	AUTO_FD int made = -1;
	AUTO_FD int file = -1;
	int r = find_made(new, &made, ret_st);

	if (r < 0)
		return r;
	if (r > 0)
		return tree_reopen(made, S_IFREG, flags & CREATE_FLAGS, ret_file);
	ledger_start_creation(new->dir.id, new->name, mode, new->caller.uid);
	caller_enter(&new->caller, new->fsgid);
	file = openat(new->dir_fd, new->name,
		      (flags & CREATE_FLAGS) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      mode & 07777);
	r = file < 0 ? -errno : 0;
	caller_leave();
	if (r < 0) {
		ledger_failed();
		return r;
	}
	r = tree_stat(file, ret_st);
	if (r < 0)
		return r;
	ledger_made(ret_st);
	*ret_file = take_fd(&file);
	return 0;
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi)
{
	struct creation new;
	AUTO_FD int dir_fd = -1;
	AUTO_FD int file = -1;
	struct fuse_entry_param entry;
	unsigned creation;
	struct stat st;
	int r = creation_begin(req, parent, name, &new);

	if (r < 0) {
		ops_reply_error(req, "create", parent, r);
		return;
	}
	dir_fd = new.dir_fd;
	mode = allowed_mode(&new, S_IFREG | (mode & 07777));
	creation = run_creation_begin(&new.ov->run);
	r = create_file(&new, mode, fi->flags, &file, &st);
	/*
	 * Somebody was faster, behind the kernel's back. It has not checked that the caller may open what
	 * is there now: it must look again.
	 */
	if (r == -EEXIST && !(fi->flags & O_EXCL))
		r = -ESTALE;
	if (r == 0)
		r = creation_finish(&new, file, mode, &st, &entry);
	run_creation_end(&new.ov->run, creation);
	if (r < 0)
		ops_reply_error(req, "create", parent, r);
	else
		reply_created(req, &new, &entry, take_fd(&file), fi);
}

void ops_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	struct creation new;
	AUTO_FD int dir_fd = -1;
	AUTO_FD int file = -1;
	struct fuse_entry_param entry;
	char path[TREE_FD_PATH_MAX];
	struct stat st;
	int r = creation_begin(req, parent, NULL, &new);

	if (r < 0) {
		ops_reply_error(req, "tmpfile", parent, r);
		return;
	}
	dir_fd = new.dir_fd;
	mode = allowed_mode(&new, S_IFREG | (mode & 07777));
	caller_enter(&new.caller, new.fsgid);
	file = open(tree_fd_path(dir_fd, path),
		    (fi->flags & (CREATE_FLAGS | O_EXCL)) | O_TMPFILE | O_CLOEXEC, mode & 07777);
	r = file < 0 ? -errno : 0;
	caller_leave();
	if (r == 0)
		r = tree_stat(file, &st);
	if (r == 0)
		r = creation_finish(&new, file, mode, &st, &entry);
	if (r == 0) {
		/* Without a name only descriptors hold it: this pin until the kernel forgets it. */
		r = node_unlinked(new.ov->nodes, file, &st);
		if (r < 0)
			node_forget(new.ov->nodes, entry.ino, 1);
	}
	if (r < 0)
		ops_reply_error(req, "tmpfile", parent, r);
	else
		reply_created(req, &new, &entry, take_fd(&file), fi);
}
