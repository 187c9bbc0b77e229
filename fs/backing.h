/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BACKING_H
#define FS_BACKING_H

/*
 * backing: how the data of an open file travels: kernel passthrough to the lower file, or through
 * the overlay's page cache and the server. One decision an inode, as long as anybody has it open,
 * because the kernel refuses a mixture.
 *
 * The backing id of an inode stands in its slot: it outlives the server, and as long as the inode is
 * open every new open must name the same one. Thread-safe: under the inode's lock.
 */

#include <fcntl.h>

#include "fs/overlay.h"

struct fuse_file_info;

/*
 * fi->fh of an open in passthrough: the server holds nothing. Below it stand the flags of open(2) that later
 * requests must honour (FILE_HANDLE_FLAGS).
 */
#define FILE_HANDLE_NONE (1ULL << 63)
enum { FILE_HANDLE_FLAGS = O_DIRECT | O_NOATIME | O_DSYNC | O_SYNC };

static inline bool file_handle_is_none(uint64_t fh)
{
	return fh & FILE_HANDLE_NONE;
}

/*
 * backing_file: the server's descriptor of an open that is not in passthrough; -1: there is none, in
 * passthrough, or because a server that is dead had it.
 */
int backing_file(const struct overlay *ov, uint64_t fh);

/* backing_probe: finds out, once INIT is answered, whether the kernel does passthrough for us at all. */
void backing_probe(struct overlay *ov);

/*
 * backing_open: counts one more open of @node and decides its data path.
 * @file:  a descriptor of the lower file, opened as the caller asked; taken over: closed in
 *         passthrough, kept as fi->fh otherwise
 * @io_fi: gets backing_id or fh
 *
 * Returns 0 or -errno; then nothing is counted and @file is closed.
 */
int backing_open(struct overlay *ov, const struct node_info *node, int file,
		 struct fuse_file_info *io_fi);

/*
 * backing_open_created: the same for a file that was just made, of which nothing that the kernel gets to know
 * with this request can become wrong: it is empty, what makes it longer the kernel notes itself, and
 * what it asks us for from then on it may not keep.
 */
int backing_open_created(struct overlay *ov, const struct node_info *node, int file,
			 struct fuse_file_info *io_fi);

/*
 * backing_open_to_look: node_open(), where attributes are asked for: what backing_look_for_rest() must open to tell whether it
 * is mapped is opened for reading at once.
 */
int backing_open_to_look(struct overlay *ov, uint64_t node_id, int *ret_fd,
			 struct node_info *ret_node);

/*
 * backing_look_for_rest: where a file was written, nobody has it open, and nobody has it mapped for writing
 * either, its attributes may be cached again: *io_node is no longer NODE_WRITTEN. To be called before the
 * attributes are read. @fd: of backing_open_to_look()
 *
 * Where others use the lower tree, another's open(2) without blocking could meet our look, and his lease: there the
 * kernel is asked (rest.h), and *io_node stays as it is.
 */
void backing_look_for_rest(struct overlay *ov, struct node_info *io_node, int fd);

/* backing_release: undoes one backing_open. */
void backing_release(struct overlay *ov, uint64_t node_id, uint64_t fh);

/* backing_take_back: takes back what a dead server had counted for the request of @rec (node_take_back). */
void backing_take_back(struct overlay *ov, struct ledger_record *rec);

/* backing_recover: closes the backing ids that a dead server got or gave up and could not write down. */
void backing_recover(struct overlay *ov);

#endif
