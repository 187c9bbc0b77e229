// SPDX-License-Identifier: Apache-2.0
#include "fs/request.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <string.h>

#include "fs/base/parse.h"

/* Newer than some distributions' linux/fuse.h; values of the kernel's uapi. */
enum {
	EXTENSION_GROUPS = 32,
	WRITE_KILL_SUIDGID = 1 << 2,
	SETXATTR_ACL_KILL_SGID = 1 << 0,
};
#define INIT_CREATE_SUPP_GROUP (1ULL << 34)
#define INIT_EXT (1u << 30)
#define INIT_HAS_RESEND (1ULL << 39)
#define INIT_ALLOW_IDMAP (1ULL << 40)
#define INIT_OVER_IO_URING (1ULL << 41)
#define UNIQUE_RESEND (1ULL << 63)
enum { NOTIFY_RESEND = 7, NOTIFY_PRUNE = 9, MINOR_OF_PRUNE = 45 };

/* fuse_in_header with the field that older headers call padding. */
struct in_header {
	uint32_t len, opcode;
	uint64_t unique, nodeid;
	uint32_t uid, gid, pid;
	uint16_t total_extlen; /* in units of 8 bytes */
	uint16_t padding;
};
_Static_assert(sizeof(struct in_header) == sizeof(struct fuse_in_header), "same layout");

struct extension_header {
	uint32_t size, type;
};

/* The request that this thread serves. */
static __thread const unsigned char *current;
static __thread size_t current_len;

static bool read_header(const void *bytes, size_t len, struct in_header *ret_header)
{
	if (len < sizeof(*ret_header))
		return false;
	memcpy(ret_header, bytes, sizeof(*ret_header));
	return true;
}

/* The first @size bytes of what follows the header. */
static bool read_body(const void *bytes, size_t len, void *ret_body, size_t size)
{
	if (len < sizeof(struct in_header) + size)
		return false;
	memcpy(ret_body, (const char *)bytes + sizeof(struct in_header), size);
	return true;
}

void request_begin(const void *bytes, size_t len)
{
	current = bytes;
	current_len = len;
}

bool request_opens_file(const void *bytes, size_t len, uint64_t *ret_node, uint32_t *ret_pid)
{
	struct in_header in;

	if (!read_header(bytes, len, &in))
		return false;
	if (in.opcode != FUSE_OPEN && in.opcode != FUSE_CREATE && in.opcode != OPCODE_TMPFILE)
		return false;
	*ret_node = in.nodeid;
	*ret_pid = in.pid;
	return true;
}

enum brake_kind request_kind(const void *bytes, size_t len)
{
	struct in_header in;

	if (!read_header(bytes, len, &in))
		return BRAKE_NONE;
	switch (in.opcode) {
	case FUSE_LOOKUP:
	case FUSE_GETATTR:
	case OPCODE_STATX:
	case FUSE_READLINK:
	case FUSE_GETXATTR:
	case FUSE_LISTXATTR:
	case FUSE_STATFS:
		return BRAKE_LOOK;
	case FUSE_CREATE:
	case OPCODE_TMPFILE:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_SYMLINK:
	case FUSE_LINK:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_RENAME:
	case FUSE_RENAME2:
	case FUSE_SETATTR:
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR:
		return BRAKE_NAME;
	case FUSE_OPEN:
	case FUSE_RELEASE:
	case FUSE_READ:
	case FUSE_WRITE:
		return BRAKE_DATA;
	default:
		/* Directories, syncs, and what waits for no answer: as long as they are large. */
		return BRAKE_NONE;
	}
}

bool request_opcode(const void *bytes, size_t len, uint32_t *ret_opcode)
{
	struct in_header in;

	if (!read_header(bytes, len, &in))
		return false;
	*ret_opcode = in.opcode;
	return true;
}

uint64_t request_node(const void *bytes, size_t len)
{
	struct in_header in;

	return read_header(bytes, len, &in) ? in.nodeid : 0;
}

bool request_is_forget(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET;
}

bool request_is_awaited(uint32_t opcode)
{
	return !request_is_forget(opcode) && opcode != FUSE_INTERRUPT && opcode != FUSE_RELEASE &&
	       opcode != FUSE_RELEASEDIR;
}

bool request_takes_long(const void *bytes, size_t len)
{
	struct fuse_setattr_in set;
	struct fuse_open_in open;
	struct in_header in;

	if (!read_header(bytes, len, &in))
		return false;
	switch (in.opcode) {
	case FUSE_COPY_FILE_RANGE:
	case FUSE_FALLOCATE:
		return true;
	case FUSE_SETATTR:
		return read_body(bytes, len, &set, sizeof(set)) && (set.valid & FATTR_SIZE);
	case FUSE_OPEN:
		return read_body(bytes, len, &open, sizeof(open)) && (open.flags & O_TRUNC);
	default:
		return false;
	}
}

pid_t request_waiter(const void *bytes, size_t len)
{
	struct in_header in;

	return read_header(bytes, len, &in) && request_is_awaited(in.opcode) ? (pid_t)in.pid : 0;
}

uint64_t request_unique(const void *bytes, size_t len)
{
	struct in_header in;

	return read_header(bytes, len, &in) ? in.unique : 0;
}

bool request_is_answered(const void *bytes, size_t len, uint32_t *ret_opcode, uint64_t *ret_unique,
			 bool *ret_is_resent)
{
	struct in_header in;

	if (!read_header(bytes, len, &in) || request_is_forget(in.opcode) ||
	    in.opcode == FUSE_INTERRUPT || in.opcode == FUSE_INIT || in.opcode == FUSE_DESTROY)
		return false;
	*ret_opcode = in.opcode;
	*ret_unique = in.unique & ~UNIQUE_RESEND;
	*ret_is_resent = in.unique & UNIQUE_RESEND;
	return true;
}

size_t request_forgets(const void *bytes, size_t len, struct request_forget *ret_list, size_t max)
{
	const size_t body = sizeof(struct fuse_in_header);
	struct fuse_forget_in one;
	struct fuse_batch_forget_in batch;
	struct fuse_forget_one each;
	struct in_header in;

	if (!read_header(bytes, len, &in) || max == 0)
		return 0;
	if (in.opcode == FUSE_FORGET && read_body(bytes, len, &one, sizeof(one))) {
		ret_list[0] = (struct request_forget){ in.nodeid, one.nlookup };
		return 1;
	}
	if (in.opcode != FUSE_BATCH_FORGET || !read_body(bytes, len, &batch, sizeof(batch)))
		return 0;
	if (batch.count > max || batch.count > (len - body - sizeof(batch)) / sizeof(each))
		return 0;
	for (size_t i = 0; i < batch.count; i++) {
		memcpy(&each, (const char *)bytes + body + sizeof(batch) + i * sizeof(each),
		       sizeof(each));
		ret_list[i] = (struct request_forget){ each.nodeid, each.nlookup };
	}
	return batch.count;
}

bool request_releases_file(const void *bytes, size_t len, uint64_t *ret_node)
{
	struct in_header in;

	if (!read_header(bytes, len, &in) || in.opcode != FUSE_RELEASE)
		return false;
	*ret_node = in.nodeid;
	return true;
}

/* The second word of an INIT request's flags; false where there is none. */
static bool read_init_flags2(const void *init, size_t len, uint32_t *ret_flags2)
{
	/* flags at 12 and flags2 at 16 of fuse_init_in. */
	enum { FLAGS = 40 + 12, FLAGS2 = 40 + 16 };
	uint32_t flags;

	if (len < FLAGS2 + sizeof(*ret_flags2))
		return false;
	memcpy(&flags, (const char *)init + FLAGS, sizeof(flags));
	memcpy(ret_flags2, (const char *)init + FLAGS2, sizeof(*ret_flags2));
	return flags & INIT_EXT;
}

bool request_can_resend(const void *init, size_t len)
{
	uint32_t flags2;

	return read_init_flags2(init, len, &flags2) && flags2 & INIT_HAS_RESEND >> 32;
}

bool request_can_ring(const void *init, size_t len)
{
	uint32_t flags2;

	return read_init_flags2(init, len, &flags2) && flags2 & INIT_OVER_IO_URING >> 32;
}

bool request_can_idmap(const void *init, size_t len)
{
	uint32_t flags2;

	return read_init_flags2(init, len, &flags2) && flags2 & INIT_ALLOW_IDMAP >> 32;
}

bool request_can_prune(const void *init, size_t len)
{
	uint32_t version[2]; /* major and minor: the first two of fuse_init_in */

	return read_body(init, len, version, sizeof(version)) &&
	       version[0] == FUSE_KERNEL_VERSION && version[1] >= MINOR_OF_PRUNE;
}

bool request_reply_revalidates(const void *reply, size_t len)
{
	struct fuse_init_out out;
	/* It is shorter where the kernel is older. */
	const size_t needed = offsetof(struct fuse_init_out, flags) + sizeof(out.flags);

	if (len < sizeof(struct fuse_out_header) + needed)
		return false;
	memcpy(&out, (const char *)reply + sizeof(struct fuse_out_header), needed);
	return out.flags & FUSE_AUTO_INVAL_DATA;
}

size_t request_resend(void *ret_notification)
{
	/* A notification is an answer to request 0, with its code for an error. */
	return request_error_reply(0, -NOTIFY_RESEND, ret_notification);
}

size_t request_prune(const uint64_t *nodes, uint32_t count, void *ret_notification)
{
	struct {
		struct fuse_out_header out;
		uint32_t count, padding; /* fuse_notify_prune_out */
		uint64_t spare;
	} head = { .count = count };

	head.out.len = (uint32_t)REQUEST_PRUNE_BYTES(count);
	head.out.error = NOTIFY_PRUNE;
	memcpy(ret_notification, &head, sizeof(head));
	memcpy((char *)ret_notification + sizeof(head), nodes, count * sizeof(nodes[0]));
	return head.out.len;
}

bool request_is_init(const void *bytes, size_t len)
{
	struct in_header in;

	return read_header(bytes, len, &in) && in.opcode == FUSE_INIT;
}

gid_t request_supplementary_group(void)
{
	struct in_header in;
	size_t at, end = current_len;

	if (!read_header(current, current_len, &in) || in.total_extlen == 0)
		return GID_UNSET;
	if ((size_t)in.total_extlen * 8 > current_len - sizeof(in))
		return GID_UNSET;
	at = end - (size_t)in.total_extlen * 8;
	while (at + sizeof(struct extension_header) <= end) {
		struct extension_header ext;
		uint32_t count, group;

		memcpy(&ext, current + at, sizeof(ext));
		if (ext.size < sizeof(ext) || ext.size > end - at)
			return GID_UNSET;
		if (ext.type == EXTENSION_GROUPS &&
		    ext.size >= sizeof(ext) + 2 * sizeof(uint32_t)) {
			memcpy(&count, current + at + sizeof(ext), sizeof(count));
			memcpy(&group, current + at + sizeof(ext) + sizeof(count), sizeof(group));
			return count > 0 ? group : GID_UNSET;
		}
		at += (ext.size + 7) & ~(size_t)7;
	}
	return GID_UNSET;
}

bool request_kills_acl_sgid(void)
{
	struct in_header in;
	uint32_t fields[4]; /* size, flags, setxattr_flags, padding */

	return read_header(current, current_len, &in) && in.opcode == FUSE_SETXATTR &&
	       read_body(current, current_len, fields, sizeof(fields)) &&
	       fields[2] & SETXATTR_ACL_KILL_SGID;
}

int request_open_flags(void)
{
	struct in_header in;
	struct fuse_read_in read_in;

	if (!read_header(current, current_len, &in) ||
	    (in.opcode != FUSE_READ && in.opcode != FUSE_READDIR &&
	     in.opcode != FUSE_READDIRPLUS) ||
	    !read_body(current, current_len, &read_in, sizeof(read_in)))
		return 0;
	return (int)read_in.flags;
}

bool request_kills_write_set_ids(void)
{
	struct in_header in;
	struct fuse_write_in write_in;

	return read_header(current, current_len, &in) && in.opcode == FUSE_WRITE &&
	       read_body(current, current_len, &write_in, sizeof(write_in)) &&
	       write_in.write_flags & WRITE_KILL_SUIDGID;
}

size_t request_error_reply(uint64_t unique, int error, void *ret_reply)
{
	struct fuse_out_header out = { .len = sizeof(out), .error = -error, .unique = unique };

	memcpy(ret_reply, &out, sizeof(out));
	return sizeof(out);
}

bool request_patch_init_reply(const void *request, size_t request_len, unsigned features,
			      void *io_reply, size_t reply_len)
{
	/* flags at 12 and flags2 at 32 of fuse_init_out. */
	enum { OUT_FLAGS = 16 + 12, OUT_FLAGS2 = 16 + 32 };
	const uint32_t wanted =
		(INIT_CREATE_SUPP_GROUP | (features & REQUEST_OVER_RING ? INIT_OVER_IO_URING : 0) |
		 (features & REQUEST_IDMAP ? INIT_ALLOW_IDMAP : 0)) >>
		32;
	uint32_t offered, flags, flags2;
	unsigned char *reply = io_reply;

	if (reply_len < OUT_FLAGS2 + sizeof(flags2))
		return false;
	if (!read_init_flags2(request, request_len, &offered))
		return true; /* an old kernel: nothing to add */
	memcpy(&flags, reply + OUT_FLAGS, sizeof(flags));
	memcpy(&flags2, reply + OUT_FLAGS2, sizeof(flags2));
	flags |= INIT_EXT;
	flags2 |= offered & wanted;
	memcpy(reply + OUT_FLAGS, &flags, sizeof(flags));
	memcpy(reply + OUT_FLAGS2, &flags2, sizeof(flags2));
	return true;
}
