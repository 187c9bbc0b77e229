// SPDX-License-Identifier: Apache-2.0
#include "fs/backing.h"

#define FUSE_USE_VERSION 318
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/fuse_ioctl.h"

/* Registers @file with the kernel: an id above 0, or -errno. */
static int register_file(struct overlay *ov, int file)
{
	struct backing_map map = { .fd = file };
	int id = ioctl(ov->device_fd, DEVICE_BACKING_OPEN, &map);

	return id > 0 ? id : id == 0 ? -EIO : -errno;
}

static void unregister_file(struct overlay *ov, int32_t id)
{
	struct ledger_record *rec = ledger_current();
	uint32_t argument = (uint32_t)id;

	/* -ENOENT: a server that died did it. */
	if (ioctl(ov->device_fd, DEVICE_BACKING_CLOSE, &argument) < 0 && errno != ENOENT)
		log_line(LOG_WARNING, "release", "backing id %d: %m (ignoring)", (int)id);
	if (rec)
		rec->closing_id = 0;
}

/* A descriptor means something to the server that has it: the upper half says which that is. */
static uint64_t handle_of(const struct overlay *ov, int file)
{
	uint64_t server = shared_servers(&ov->shared) & 0x7fffffff;

	return server << 32 | (uint32_t)file;
}

int backing_file(const struct overlay *ov, uint64_t fh)
{
	int file = (int)(uint32_t)fh;

	return !file_handle_is_none(fh) && handle_of(ov, file) == fh ? file : -1;
}

/*
 * The kernel does not do it here, and will not for the next file: not allowed in a user namespace,
 * too many layers, no such ioctl. Other errors are this file's alone.
 */
static bool is_refused_for_all(int error)
{
	return error == EPERM || error == ELOOP || error == EOPNOTSUPP || error == ENOTTY;
}

static void choose_cached(struct overlay *ov)
{
	atomic_store(&ov->has_passthrough, false);
	atomic_store(&ov->shared.header->data_path_cached, 1);
}

void backing_probe(struct overlay *ov)
{
	int id;

	if (!atomic_load(&ov->has_passthrough))
		return;
	/* Any regular file will do; the lower file system's own word comes with the first open. */
	id = register_file(ov, ov->shared.fd);
	if (id > 0)
		unregister_file(ov, id);
	else if (is_refused_for_all(-id))
		choose_cached(ov);
}

/* The first open of an inode: passthrough if it can be had. Returns the error of a hard failure. */
static int choose(struct overlay *ov, int file, struct node_open_state *io_state)
{
	int id;

	io_state->flags &= ~(uint32_t)NODE_PASSTHROUGH;
	io_state->backing_id = 0;
	if (!atomic_load(&ov->has_passthrough))
		return 0;
	id = register_file(ov, file);
	if (id > 0) {
		io_state->flags |= NODE_PASSTHROUGH;
		io_state->backing_id = id;
	} else if (is_refused_for_all(-id)) {
		log_line(LOG_INFO, "open",
			 "no kernel passthrough (%d): file data goes through the page cache", -id);
		choose_cached(ov);
	} else if (id == -ENOMEM || id == -ENFILE || id == -EMFILE) {
		return id;
	}
	return 0;
}

/*
 * In the page cache the kernel has resolved append and direct I/O already: it names the offset, and its
 * buffers are not aligned for the lower file. An append-only file can be opened no other way.
 */
static int open_for_cache(int file)
{
	int flags = fcntl(file, F_GETFL);

	if (flags < 0)
		return -errno;
	if (flags & O_DIRECT && fcntl(file, F_SETFL, flags & ~O_DIRECT) < 0)
		return -errno;
	flags &= ~O_DIRECT;
	if (flags & O_APPEND && fcntl(file, F_SETFL, flags & ~O_APPEND) < 0 && errno != EPERM)
		return -errno;
	return 0;
}

/* Returns 1 for the first open for writing in passthrough, 0 for any other, or -errno. */
static int count_open(struct overlay *ov, const struct node_info *node, int file,
		      struct fuse_file_info *io_fi)
{
	bool is_writable = (io_fi->flags & O_ACCMODE) != O_RDONLY;
	AUTO_FD int lower = file;
	struct node_open_state state;
	bool first_write = false;
	int r;

	node_lock(ov->nodes, node->ino);
	r = node_open_state_get(ov->nodes, node->id, &state);
	if (r == 0 && state.nopen == 0)
		r = choose(ov, lower, &state);
	if (r == 0 && state.flags & NODE_PASSTHROUGH) {
		first_write = is_writable && !(state.flags & NODE_WRITTEN);
		if (is_writable)
			state.flags |= NODE_WRITTEN;
		io_fi->backing_id = state.backing_id;
		io_fi->fh = FILE_HANDLE_NONE | (uint64_t)(io_fi->flags & FILE_HANDLE_FLAGS);
		io_fi->noflush = 1;
	} else if (r == 0) {
		r = open_for_cache(lower);
		io_fi->fh = handle_of(ov, lower);
		/* What is cached stays right where nothing is written but through the cache. */
		io_fi->keep_cache = ov->is_exclusive && !atomic_load(&ov->has_passthrough);
		io_fi->noflush = 1;
	}
	if (r == 0) {
		if (is_writable)
			state.flags |= NODE_WRITER;
		state.nopen++;
		r = node_open_state_set(ov->nodes, node->id, &state);
	}
	node_unlock(ov->nodes, node->ino);
	if (r < 0)
		return r;
	if (!(state.flags & NODE_PASSTHROUGH))
		take_fd(&lower);
	return first_write;
}

int backing_open_created(struct overlay *ov, const struct node_info *node, int file,
			 struct fuse_file_info *io_fi)
{
	int r = count_open(ov, node, file, io_fi);

	return r < 0 ? r : 0;
}

int backing_open(struct overlay *ov, const struct node_info *node, int file,
		 struct fuse_file_info *io_fi)
{
	int r = count_open(ov, node, file, io_fi);

	/* What the kernel has cached with a long time may change from now on without a request. */
	if (r > 0 && ov->attr_timeout > 0)
		overlay_invalidate(ov, node->id);
	return r < 0 ? r : 0;
}

/* The owner's own question, and ours only with his identity. */
static bool has_no_writer(int fd)
{
	struct stat st;
	bool has_none;

	if (tree_stat(fd, &st) < 0)
		return false;
	caller_enter_owner(st.st_uid);
	has_none = tree_has_no_writer(fd);
	caller_leave();
	return has_none;
}

int backing_open_to_look(struct overlay *ov, uint64_t node_id, int *ret_fd,
			 struct node_info *ret_node)
{
	struct node_open_state state;

	/*
	 * Not while somebody has it open: file systems take the first close after a truncation for the end of the rewriting,
	 * and write it out then (ext4: auto_da_alloc; xfs). That is his.
	 */
	if (ov->is_exclusive && node_open_state_get(ov->nodes, node_id, &state) == 0 &&
	    state.flags & NODE_WRITTEN && state.nopen == 0 &&
	    node_open_regular(ov->nodes, node_id, O_RDONLY | O_NONBLOCK, ret_fd, ret_node) == 0)
		return 0;
	return node_open(ov->nodes, node_id, ret_fd, ret_node);
}

void backing_look_for_rest(struct overlay *ov, struct node_info *io_node, int fd)
{
	struct node_open_state state;

	if (!(io_node->flags & NODE_WRITTEN))
		return;
	if (!ov->is_exclusive) {
		if (node_open_state_get(ov->nodes, io_node->id, &state) == 0 && state.nopen == 0)
			rest_ask(&ov->rest, io_node->id);
		return;
	}
	node_lock(ov->nodes, io_node->ino);
	if (node_open_state_get(ov->nodes, io_node->id, &state) == 0 && state.nopen == 0 &&
	    has_no_writer(fd)) {
		node_rest(ov->nodes, io_node->id);
		io_node->flags &= ~(uint32_t)NODE_WRITTEN;
	}
	node_unlock(ov->nodes, io_node->ino);
}

void backing_release(struct overlay *ov, uint64_t node_id, uint64_t fh)
{
	struct node_open_state state;
	struct node_info node;
	bool may_rest = false;
	int32_t unused = 0;

	if (backing_file(ov, fh) >= 0)
		close(backing_file(ov, fh));
	if (node_get(ov->nodes, node_id, &node) < 0)
		return;
	node_lock(ov->nodes, node.ino);
	if (node_open_state_get(ov->nodes, node_id, &state) == 0 && state.nopen > 0) {
		state.nopen--;
		may_rest = state.nopen == 0 && state.flags & NODE_WRITTEN;
		if (state.nopen == 0 && state.flags & NODE_PASSTHROUGH) {
			unused = state.backing_id;
			state.backing_id = 0;
			state.flags &= ~(uint32_t)NODE_PASSTHROUGH;
		}
		node_open_state_set(ov->nodes, node_id, &state);
	}
	if (unused > 0)
		unregister_file(ov, unused);
	node_unlock(ov->nodes, node.ino);
	if (may_rest && !ov->is_exclusive)
		rest_note_closed(&ov->rest, node_id);
	if (node_opens(ov->nodes) == 0)
		overlay_note_idle(ov);
}

void backing_take_back(struct overlay *ov, struct ledger_record *rec)
{
	/* A release that was counted stays so: to be repeated is only its answer. */
	if (rec->opcode != FUSE_RELEASE)
		node_take_back(ov->nodes, rec);
	if (rec->closing_id > 0)
		unregister_file(ov, rec->closing_id);
}

void backing_recover(struct overlay *ov)
{
	/* Each thread may have had one id that stood nowhere yet; the kernel counts upwards. */
	enum { SPAN = 2 * LEDGER_THREADS_MAX };
	int32_t first = ov->shared.header->backing_last - LEDGER_THREADS_MAX;
	bool used[SPAN];

	if (!atomic_load(&ov->has_passthrough))
		return;
	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++) {
		struct ledger_record *rec = ledger_left(&ov->shared, i);

		if (rec && rec->closing_id > 0) {
			unregister_file(ov, rec->closing_id);
			rec->closing_id = 0;
		}
	}
	if (first < 1)
		first = 1;
	node_find_backing(ov->nodes, first, SPAN, used);
	for (int32_t i = 0; i < SPAN; i++) {
		if (!used[i])
			unregister_file(ov, first + i);
	}
}
