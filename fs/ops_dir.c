// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/listing.h"
#include "fs/ops.h"
#include "fs/request.h"

/*
 * Directories are read without state: a request carries the file system's own cookie of the last entry,
 * and that is where reading goes on. So nothing is lost with a server, and concurrent creations and
 * deletions behave as on the lower tree; where cookies are good only for who has the directory open, it is kept open (cursors.h).
 */

enum { ENTRIES_BYTES = 64 * 1024 };

/* Where it need not ask the kernel learns that from the first answer, for as long as the mount lives. */
void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct overlay *ov = ops_overlay(req);
	struct node_info node;
	int r = listing_needs_open(ov) ? node_get(ov->nodes, ino, &node) : -ENOSYS;

	if (r < 0) {
		ops_reply_error(req, "opendir", ino, r);
		return;
	}
	fi->fh = FILE_HANDLE_NONE;
	fi->cache_readdir = listing_may_keep(ov);
	fi->keep_cache = listing_is_good(ov, &node);
	fuse_reply_open(req, fi);
}

/* A reply in the making. */
struct listing {
	fuse_req_t req;
	struct overlay *ov;
	const struct node_info *dir;
	int dir_fd;
	bool plus;
	bool is_told; /* with attributes, a moment ago: names are enough */
	char *buffer;
	size_t size, used;
	off_t next;   /* the cookie of the last entry */
	bool is_past; /* more was read than is in the reply */
};

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Adds one entry. Returns 1, 0 when it does not fit, -ENOENT when it is gone by now. */
static int add(struct listing *l, const struct tree_entry *entry)
{
	struct fuse_entry_param found = { .attr.st_ino = entry->ino,
					  .attr.st_mode = DTTOIF(entry->type) };
	char *at = l->buffer + l->used;
	size_t room = l->size - l->used, need;
	AUTO_FD int fd = -1;
	struct stat st;
	uint64_t exclude;
	int r;

	if (!l->plus) {
		need = fuse_add_direntry(l->req, at, room, entry->name, &found.attr, entry->next);
		if (need > room)
			return 0;
		l->used += need;
		l->next = entry->next;
		return 1;
	}
	need = fuse_add_direntry_plus(l->req, NULL, 0, entry->name, NULL, 0);
	if (need > room || !ledger_has_room())
		return 0;
	if (!l->is_told && !descriptors_are_short(l->ov) && !is_dot(entry->name) &&
	    tree_name_is_valid(entry->name)) {
		struct ops_look look = ops_look(l->ov);

		r = tree_pin(l->dir_fd, entry->name, &fd, &st);
		if (r == 0) {
			exclude = exclude_child(l->ov->options->exclude, l->dir->exclude,
						entry->name, S_ISDIR(st.st_mode));
			r = ops_entry(l->ov, fd, &st, look, exclude, &found);
		}
		if (r == -ENOENT)
			return r;
		/* Any other error: a name without attributes; the lookup that follows tells the user. */
	}
	l->used += fuse_add_direntry_plus(l->req, at, room, entry->name, &found, entry->next);
	l->next = entry->next;
	return 1;
}

/* Fills the reply from @fd, which stands at the right place. 0 or -errno. */
static int fill(struct listing *l, int fd)
{
	AUTO_FREE char *entries = malloc(ENTRIES_BYTES);
	/* What is read and does not fit is read again: so not much more than fits. */
	size_t chunk = l->size < ENTRIES_BYTES ? l->size : ENTRIES_BYTES;

	if (!entries)
		return -ENOMEM;
	/* With attributes an entry takes about five times as much. */
	if (l->plus)
		chunk /= 4;
	/* The lower's entries take at most as much room as ours, but one must fit. */
	if (chunk < 4096)
		chunk = 4096;
	for (;;) {
		ssize_t n = tree_read_entries(fd, entries, chunk);

		if (n < 0)
			return l->used > 0 ? 0 : (int)n;
		if (n == 0)
			return 0;
		for (ssize_t at = 0; at < n;) {
			const struct tree_entry *entry = (const void *)(entries + at);

			if (add(l, entry) == 0) {
				l->is_past = true;
				return 0;
			}
			at += entry->reclen;
		}
	}
}

/* Opens the directory where the listing goes on behind the entry with the cookie @offset; 0: where it begins. */
static int open_at(const struct listing *l, off_t offset, int flags, int *ret_fd)
{
	int r;

	*ret_fd = offset != 0 ? cursors_take(&l->ov->cursors, l->dir->id, offset, flags) : -1;
	if (*ret_fd >= 0)
		return 0;
	r = tree_reopen(l->dir_fd, S_IFDIR, O_RDONLY | O_DIRECTORY | flags, ret_fd);
	return r == 0 && offset != 0 ? tree_seek(*ret_fd, offset) : r;
}

/* For the request that goes on, if cookies may be good only for @fd, which is taken over. */
static void keep_open(const struct listing *l, int flags, int fd)
{
	AUTO_FD int kept = fd;

	if (!l->ov->tree.is_local && l->used > 0 && (!l->is_past || tree_seek(fd, l->next) == 0))
		cursors_put(&l->ov->cursors, l->dir->id, l->next, flags, take_fd(&kept));
}

static void read_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, bool plus)
{
	int noatime = request_open_flags() & O_NOATIME;
	const char *op = plus ? "readdirplus" : "readdir";
	struct overlay *ov = ops_overlay(req);
	AUTO_FREE char *buffer = malloc(size ? size : 1);
	AUTO_FD int dir_fd = -1;
	AUTO_FD int fd = -1;
	struct node_info dir;
	struct listing l = { .req = req,
			     .ov = ov,
			     .dir = &dir,
			     .plus = plus,
			     .buffer = buffer,
			     .size = size,
			     .next = offset };
	/* Where nobody else uses the lower tree the kernel has kept what it asks for again (listing.h). */
	bool may_be_told = plus && !ov->is_exclusive;
	uint64_t began = may_be_told ? clock_now_ms() : 0;
	int r = buffer ? node_open(ov->nodes, ino, &dir_fd, &dir) : -ENOMEM;

	l.dir_fd = dir_fd;
	if (r == 0)
		r = open_at(&l, offset, noatime, &fd);
	if (r == 0) {
		l.is_told = may_be_told && primed_is_told(&ov->primed, ino, offset, began);
		r = fill(&l, fd);
	}
	if (r == 0)
		keep_open(&l, noatime, take_fd(&fd));
	if (r == 0 && may_be_told && !l.is_told)
		primed_note(&ov->primed, ino, offset, began);
	/* Before the reply, which is what the kernel takes for the end. */
	if (r == 0 && l.used == 0)
		listing_end(ov, &dir, dir_fd);
	if (r < 0)
		ops_reply_error(req, op, ino, r);
	else
		fuse_reply_buf(req, buffer, l.used);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		 struct fuse_file_info *fi)
{
	(void)fi;
	read_dir(req, ino, size, offset, false);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	(void)fi;
	read_dir(req, ino, size, offset, true);
}
