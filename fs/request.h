/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

/*
 * request: the parts of a FUSE request that libfuse parses over or drops: the supplementary group that
 * comes with creations (FUSE_CREATE_SUPP_GROUP), the set-group-ID flag of an ACL
 * (FUSE_SETXATTR_ACL_KILL_SGID), the set-ID flag of a write (FUSE_WRITE_KILL_SUIDGID).
 *
 * The source of the bytes is the kernel, but every length is checked all the same. The request that a
 * thread is serving is that thread's: request_begin() notes it, handlers ask while they run.
 * Layouts: linux/fuse.h, protocol 7.31 and later.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/brake.h"

/* Newer than some distributions' linux/fuse.h. */
enum { OPCODE_TMPFILE = 51, OPCODE_STATX = 52 };

void request_begin(const void *bytes, size_t len);

/* request_opens_file: whether the bytes are an OPEN, CREATE or TMPFILE; then *ret_node and *ret_pid. */
bool request_opens_file(const void *bytes, size_t len, uint64_t *ret_node, uint32_t *ret_pid);

/* request_kind: which other requests take about as long. */
enum brake_kind request_kind(const void *bytes, size_t len);

/* request_opcode: false when the bytes are no request at all. */
bool request_opcode(const void *bytes, size_t len, uint32_t *ret_opcode);

/* request_node: the node it is about; 0: none. */
uint64_t request_node(const void *bytes, size_t len);

/* request_is_forget: FORGET or BATCH_FORGET. */
bool request_is_forget(uint32_t opcode);

/* request_is_awaited: whether somebody waits for its end. Else it is the kernel's own: whose call led to it has gone on. */
bool request_is_awaited(uint32_t opcode);

/* request_takes_long: whether it may keep a processor for long, by itself: what copies, allocates, or sets a length. */
bool request_takes_long(const void *bytes, size_t len);

/* request_waiter: the thread that waits for its end; 0: nobody does, or one of another pid namespace. */
pid_t request_waiter(const void *bytes, size_t len);

/* request_unique: what a reply must name. */
uint64_t request_unique(const void *bytes, size_t len);

/*
 * request_is_answered: whether the bytes are a request that gets one answer of ours; then *ret_unique
 * without, and *ret_is_resent from, the bit of what the kernel sends again (FUSE_UNIQUE_RESEND).
 */
bool request_is_answered(const void *bytes, size_t len, uint32_t *ret_opcode, uint64_t *ret_unique,
			 bool *ret_is_resent);

/*
 * request_forgets: whether the bytes are a FORGET or BATCH_FORGET of at most @max nodes: these go to @ret_list, of which each is
 * looked up so many times less. Returns how many; 0: they are not.
 */
struct request_forget {
	uint64_t node, lookups;
};
size_t request_forgets(const void *bytes, size_t len, struct request_forget *ret_list, size_t max);

/* request_releases_file: whether the bytes are a RELEASE; then *ret_node. */
bool request_releases_file(const void *bytes, size_t len, uint64_t *ret_node);

/* request_can_resend: whether the kernel of this INIT request can send requests again (FUSE_HAS_RESEND). */
bool request_can_resend(const void *init, size_t len);

/* request_can_ring: whether it can send requests over io_uring, and is allowed to (FUSE_OVER_IO_URING). */
bool request_can_ring(const void *init, size_t len);

/* request_can_idmap: whether mounts of the kernel of this INIT request can be idmapped (FUSE_ALLOW_IDMAP). */
bool request_can_idmap(const void *init, size_t len);

/* request_can_prune: whether the kernel of this INIT request can be asked to forget nodes (FUSE_NOTIFY_PRUNE, Linux 6.18). */
bool request_can_prune(const void *init, size_t len);

/* request_reply_revalidates: whether by this reply to INIT the kernel drops what it has cached of a file whose times are other ones. */
bool request_reply_revalidates(const void *reply, size_t len);

/* request_resend: the bytes that ask the kernel for it: 16, into @ret_notification. */
size_t request_resend(void *ret_notification);

/*
 * request_prune: the bytes that ask the kernel to drop what nobody uses of @nodes, which it then forgets.
 * @ret_notification: REQUEST_PRUNE_BYTES(count)
 */
#define REQUEST_PRUNE_BYTES(count) (32 + 8 * (count))
size_t request_prune(const uint64_t *nodes, uint32_t count, void *ret_notification);

/* request_is_init */
bool request_is_init(const void *bytes, size_t len);

/* request_supplementary_group: the group of the extension, or GID_UNSET. */
gid_t request_supplementary_group(void);

/* request_open_flags: of a request to read a file or a directory: the flags that it is open with now; 0: of another request. */
int request_open_flags(void);

bool request_kills_acl_sgid(void);
bool request_kills_write_set_ids(void);

/* request_reply_error: the bytes of an error reply: 16, into @ret_reply. */
size_t request_error_reply(uint64_t unique, int error, void *ret_reply);

/*
 * request_patch_init_reply: adds to libfuse's INIT reply the features that it does not negotiate and we
 * rely on, as far as the kernel's @request offers them. False when the bytes are not such a reply.
 * @features: what else: REQUEST_OVER_RING: requests come over io_uring (ring.h). REQUEST_IDMAP: mounts may be idmapped;
 * then requests name nobody but in creations (caller.h).
 */
enum { REQUEST_OVER_RING = 1 << 0, REQUEST_IDMAP = 1 << 1 };
bool request_patch_init_reply(const void *request, size_t request_len, unsigned features,
			      void *io_reply, size_t reply_len);

#endif
