// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/request.h"

enum { HEADER = sizeof(struct fuse_in_header), TMPFILE = 51, GROUPS = 32 };

/* A request under construction. */
struct bytes {
	unsigned char data[512];
	size_t len;
};

static void put(struct bytes *b, const void *data, size_t len)
{
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void put_u32(struct bytes *b, uint32_t value)
{
	put(b, &value, sizeof(value));
}

static struct bytes make(uint32_t opcode)
{
	struct fuse_in_header in = { .len = HEADER,
				     .opcode = opcode,
				     .unique = 0x1122334455667788,
				     .nodeid = 77,
				     .pid = 99 };
	struct bytes b = { .len = 0 };

	put(&b, &in, sizeof(in));
	return b;
}

/* total_extlen lies where older headers have the low half of "padding". */
static void set_extension_words(struct bytes *b, uint16_t words)
{
	memcpy(b->data + HEADER - 4, &words, sizeof(words));
}

/*
 * Calls every function on a copy of exactly @len bytes, so that a sanitizer sees each byte too many. The
 * reply is wiped each time.
 */
static void ask_all(const struct bytes *b, size_t len)
{
	unsigned char *copy = malloc(len ? len : 1);
	unsigned char reply[128];
	struct request_forget forgets[2];
	uint64_t node;
	uint32_t pid;

	assert_non_null(copy);
	memcpy(copy, b->data, len);
	request_begin(copy, len);
	(void)request_opens_file(copy, len, &node, &pid);
	(void)request_unique(copy, len);
	(void)request_waiter(copy, len);
	(void)request_takes_long(copy, len);
	(void)request_is_init(copy, len);
	(void)request_forgets(copy, len, forgets, 2);
	(void)request_supplementary_group();
	(void)request_kills_acl_sgid();
	(void)request_kills_write_set_ids();
	(void)request_open_flags();
	memset(reply, 0, sizeof(reply));
	(void)request_patch_init_reply(copy, len, ~0U, reply, sizeof(reply));
	request_begin(NULL, 0);
	free(copy);
}

static void put_u64(struct bytes *b, uint64_t value)
{
	put(b, &value, sizeof(value));
}

static void request_forgets_one_is_the_headers_node(void **state)
{
	struct request_forget forgets[2] = { { 0 } };
	struct bytes b = make(FUSE_FORGET);

	(void)state;
	put_u64(&b, 5);
	assert_int_equal(request_forgets(b.data, b.len, forgets, 2), 1);
	assert_int_equal(forgets[0].node, 77);
	assert_int_equal(forgets[0].lookups, 5);
	assert_int_equal(request_forgets(b.data, b.len - 1, forgets, 2), 0);
	assert_int_equal(request_forgets(b.data, b.len, forgets, 0), 0);
}

static void request_forgets_many_are_all_or_none(void **state)
{
	struct request_forget forgets[4] = { { 0 } };
	struct bytes b = make(FUSE_BATCH_FORGET);

	(void)state;
	put_u32(&b, 3);
	put_u32(&b, 0);
	for (uint64_t node = 1; node <= 3; node++) {
		put_u64(&b, node);
		put_u64(&b, 10 * node);
	}
	assert_int_equal(request_forgets(b.data, b.len, forgets, 4), 3);
	for (uint64_t node = 1; node <= 3; node++) {
		assert_int_equal(forgets[node - 1].node, node);
		assert_int_equal(forgets[node - 1].lookups, 10 * node);
	}
	assert_int_equal(request_forgets(b.data, b.len, forgets, 3), 3);
	assert_int_equal(request_forgets(b.data, b.len, forgets, 2), 0);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(request_forgets(b.data, len, forgets, 4), 0);
}

static void request_forgets_others_are_none(void **state)
{
	struct request_forget forgets[4];

	(void)state;
	for (uint32_t opcode = 0; opcode < 64; opcode++) {
		struct bytes b = make(opcode);

		put_u64(&b, 1);
		put_u64(&b, 1);
		put_u64(&b, 1);
		assert_int_equal(request_forgets(b.data, b.len, forgets, 4) > 0,
				 opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET);
	}
}

static gid_t group_of(const struct bytes *b, size_t len)
{
	gid_t gid;

	request_begin(b->data, len);
	gid = request_supplementary_group();
	request_begin(NULL, 0);
	return gid;
}

static void request_opens_file_only_opens_are_told(void **state)
{
	(void)state;
	for (uint32_t opcode = 0; opcode < 64; opcode++) {
		struct bytes b = make(opcode);
		uint64_t node = 0;
		uint32_t pid = 0;
		bool opens = opcode == FUSE_OPEN || opcode == FUSE_CREATE || opcode == TMPFILE;

		assert_int_equal(request_opens_file(b.data, b.len, &node, &pid), opens);
		assert_int_equal(node, opens ? 77 : 0);
		assert_int_equal(pid, opens ? 99 : 0);
		assert_int_equal(request_is_init(b.data, b.len), opcode == FUSE_INIT);
		assert_true(request_unique(b.data, b.len) == 0x1122334455667788);
	}
}

static void request_opens_file_short_header_is_none(void **state)
{
	struct bytes b = make(FUSE_OPEN);
	uint64_t node;
	uint32_t pid;

	(void)state;
	for (size_t len = 0; len < HEADER; len++) {
		assert_false(request_opens_file(b.data, len, &node, &pid));
		assert_false(request_is_init(b.data, len));
		assert_int_equal(request_unique(b.data, len), 0);
	}
}

/* A CREATE with a body and a group extension at its end. */
static struct bytes make_create(uint32_t count, uint32_t group)
{
	struct bytes b = make(FUSE_CREATE);

	put(&b, "0123456789abcdefname\0\0\0", 24);
	put_u32(&b, 16);
	put_u32(&b, GROUPS);
	put_u32(&b, count);
	put_u32(&b, group);
	set_extension_words(&b, 2);
	return b;
}

static void request_takes_long_what_sets_a_length_does(void **state)
{
	struct bytes b = make(FUSE_SETATTR), copy = make(FUSE_COPY_FILE_RANGE);
	struct bytes allocate = make(FUSE_FALLOCATE), open = make(FUSE_OPEN);
	struct fuse_setattr_in set = { .valid = FATTR_MODE | FATTR_SIZE };
	struct fuse_open_in truncating = { .flags = O_WRONLY | O_TRUNC };

	(void)state;
	put(&b, &set, sizeof(set));
	assert_true(request_takes_long(b.data, b.len));
	assert_false(request_takes_long(b.data, b.len - 1));
	put(&open, &truncating, sizeof(truncating));
	assert_true(request_takes_long(open.data, open.len));
	assert_false(request_takes_long(open.data, open.len - 1));
	assert_true(request_takes_long(copy.data, copy.len));
	assert_true(request_takes_long(allocate.data, allocate.len));
	assert_false(request_takes_long(copy.data, HEADER - 1));
}

static void request_takes_long_others_do_not(void **state)
{
	struct bytes b = make(FUSE_SETATTR), unlink = make(FUSE_UNLINK), open = make(FUSE_OPEN);
	struct fuse_setattr_in set = { .valid = FATTR_MODE | FATTR_MTIME };
	struct fuse_open_in reading = { .flags = O_RDWR };

	(void)state;
	put(&b, &set, sizeof(set));
	assert_false(request_takes_long(b.data, b.len));
	put(&open, &reading, sizeof(reading));
	assert_false(request_takes_long(open.data, open.len));
	put(&unlink, "name", sizeof("name"));
	assert_false(request_takes_long(unlink.data, unlink.len));
}

static void request_waiter_of_what_nobody_waits_for_is_none(void **state)
{
	static const uint32_t awaited[] = { FUSE_LOOKUP, FUSE_OPEN, FUSE_WRITE, TMPFILE };
	static const uint32_t others[] = { FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT,
					   FUSE_RELEASE, FUSE_RELEASEDIR };
	struct bytes b;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(awaited); i++) {
		b = make(awaited[i]);
		assert_true(request_is_awaited(awaited[i]));
		assert_int_equal(request_waiter(b.data, b.len), 99);
		assert_int_equal(request_waiter(b.data, HEADER - 1), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		b = make(others[i]);
		assert_false(request_is_awaited(others[i]));
		assert_int_equal(request_waiter(b.data, b.len), 0);
	}
}

static void request_supplementary_group_is_found(void **state)
{
	struct bytes b = make_create(1, 4242);

	(void)state;
	assert_int_equal(group_of(&b, b.len), 4242);
}

static void request_supplementary_group_after_another_extension_is_found(void **state)
{
	struct bytes b = make(FUSE_CREATE);

	(void)state;
	/* A security context of 13 bytes, padded to 16. */
	put_u32(&b, 13);
	put_u32(&b, 5);
	put(&b, "label\0\0\0", 8);
	put_u32(&b, 16);
	put_u32(&b, GROUPS);
	put_u32(&b, 1);
	put_u32(&b, 4242);
	set_extension_words(&b, 4);
	assert_int_equal(group_of(&b, b.len), 4242);
}

static void request_supplementary_group_none_is_unset(void **state)
{
	struct bytes b = make(FUSE_CREATE);

	(void)state;
	assert_int_equal(group_of(&b, b.len), GID_UNSET);
	b = make_create(0, 4242);
	assert_int_equal(group_of(&b, b.len), GID_UNSET);
	request_begin(NULL, 0);
	assert_int_equal(request_supplementary_group(), GID_UNSET);
}

static void request_supplementary_group_bad_lengths_are_unset(void **state)
{
	static const uint32_t sizes[] = {
		0, 1, 7, 8, 15, 17, 24, 0x80000000, 0xfffffff8, 0xffffffff
	};

	(void)state;
	/* The extension's own size. */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct bytes b = make_create(1, 4242);

		memcpy(b.data + b.len - 16, &sizes[i], sizeof(sizes[i]));
		assert_int_equal(group_of(&b, b.len), GID_UNSET);
		ask_all(&b, b.len);
	}
	/* The length of all of them. */
	for (uint32_t words = 0; words <= 0xffff; words++) {
		struct bytes b = make_create(1, 4242);
		gid_t gid;

		set_extension_words(&b, (uint16_t)words);
		gid = group_of(&b, b.len);
		assert_int_equal(gid, words == 2 ? 4242 : GID_UNSET);
	}
}

static void request_kills_acl_sgid_follows_the_flag(void **state)
{
	(void)state;
	for (uint32_t flag = 0; flag < 4; flag++) {
		struct bytes b = make(FUSE_SETXATTR);

		put_u32(&b, 1);	   /* size */
		put_u32(&b, 3);	   /* flags of setxattr(2) */
		put_u32(&b, flag); /* setxattr_flags */
		put_u32(&b, 0);
		put(&b, "name\0v", 6);
		request_begin(b.data, b.len);
		assert_int_equal(request_kills_acl_sgid(), flag & 1);
		assert_false(request_kills_write_set_ids());
		request_begin(b.data, HEADER + 15);
		assert_false(request_kills_acl_sgid());
		request_begin(NULL, 0);
	}
}

static void request_kills_write_set_ids_follows_the_flag(void **state)
{
	(void)state;
	for (uint32_t flags = 0; flags < 16; flags++) {
		struct fuse_write_in in = { .size = 1, .write_flags = flags };
		struct bytes b = make(FUSE_WRITE);

		put(&b, &in, sizeof(in));
		put(&b, "x", 1);
		request_begin(b.data, b.len);
		assert_int_equal(request_kills_write_set_ids(), (flags & 4) != 0);
		assert_false(request_kills_acl_sgid());
		request_begin(b.data, HEADER + sizeof(in) - 1);
		assert_false(request_kills_write_set_ids());
		request_begin(NULL, 0);
	}
}

static void request_open_flags_only_reads_have_them(void **state)
{
	(void)state;
	for (uint32_t opcode = 0; opcode < 64; opcode++) {
		struct fuse_read_in in = { .size = 1, .flags = O_RDWR | O_APPEND };
		struct bytes b = make(opcode);
		bool reads =
			opcode == FUSE_READ || opcode == FUSE_READDIR || opcode == FUSE_READDIRPLUS;

		put(&b, &in, sizeof(in));
		request_begin(b.data, b.len);
		assert_int_equal(request_open_flags(), reads ? O_RDWR | O_APPEND : 0);
		request_begin(b.data, HEADER + sizeof(in) - 1);
		assert_int_equal(request_open_flags(), 0);
		request_begin(NULL, 0);
	}
}

static void request_error_reply_is_a_header(void **state)
{
	struct fuse_out_header out;

	(void)state;
	assert_int_equal(request_error_reply(42, ESTALE, &out), sizeof(out));
	assert_int_equal(out.len, sizeof(out));
	assert_int_equal(out.error, -ESTALE);
	assert_int_equal(out.unique, 42);
}

/* Offsets are the protocol's: flags2 of an INIT request lies behind its flags. */
static struct bytes make_init(uint32_t flags, uint32_t flags2)
{
	struct bytes b = make(FUSE_INIT);

	put_u32(&b, 7);
	put_u32(&b, 44);
	put_u32(&b, 65536);
	put_u32(&b, flags);
	put_u32(&b, flags2);
	for (int i = 0; i < 11; i++)
		put_u32(&b, 0);
	return b;
}

static struct bytes make_init_reply(uint32_t flags, uint32_t flags2)
{
	struct bytes b = { .len = 0 };

	for (int i = 0; i < 7; i++)
		put_u32(&b, 1);
	put_u32(&b, flags); /* 16 + 12 */
	for (int i = 0; i < 4; i++)
		put_u32(&b, 1);
	put_u32(&b, flags2); /* 16 + 32 */
	for (int i = 0; i < 7; i++)
		put_u32(&b, 1);
	return b;
}

static void request_patch_init_reply_offered_is_added(void **state)
{
	const uint32_t ext = 1U << 30, supp_group = 1U << 2;
	struct bytes request = make_init(ext, supp_group | 1);
	struct bytes reply = make_init_reply(0x10, 0x8),
		     wanted = make_init_reply(0x10 | ext, 0x8 | supp_group);

	(void)state;
	assert_true(request_patch_init_reply(request.data, request.len, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, wanted.data, reply.len);
}

static void request_patch_init_reply_over_ring_is_added_when_asked_for(void **state)
{
	const uint32_t ext = 1U << 30, over_ring = 1U << 9;
	struct bytes request = make_init(ext, over_ring);
	struct bytes reply = make_init_reply(ext, 0x8),
		     wanted = make_init_reply(ext, 0x8 | over_ring);

	(void)state;
	assert_true(request_can_ring(request.data, request.len));
	assert_true(request_patch_init_reply(request.data, request.len, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, make_init_reply(ext, 0x8).data, reply.len);
	assert_true(request_patch_init_reply(request.data, request.len, REQUEST_OVER_RING,
					     reply.data, reply.len));
	assert_memory_equal(reply.data, wanted.data, reply.len);
	request = make_init(ext, ~over_ring);
	reply = make_init_reply(ext, 0x8);
	assert_false(request_can_ring(request.data, request.len));
	assert_true(request_patch_init_reply(request.data, request.len, REQUEST_OVER_RING,
					     reply.data, reply.len));
	assert_int_equal(memcmp(reply.data, wanted.data, reply.len) == 0, false);
	/* Without INIT_EXT the second word means nothing. */
	request = make_init(0, over_ring);
	assert_false(request_can_ring(request.data, request.len));
}

static void request_patch_init_reply_not_offered_is_not_added(void **state)
{
	const uint32_t ext = 1U << 30;
	struct bytes request = make_init(ext, 1), reply = make_init_reply(0x10, 0x8);

	(void)state;
	assert_true(request_patch_init_reply(request.data, request.len, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, make_init_reply(0x10 | ext, 0x8).data, reply.len);
	/* Without INIT_EXT the second word means nothing. */
	request = make_init(0, 0xffffffff);
	reply = make_init_reply(0x10, 0x8);
	assert_true(request_patch_init_reply(request.data, request.len, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, make_init_reply(0x10, 0x8).data, reply.len);
}

static void request_patch_init_reply_idmap_is_added_where_wanted(void **state)
{
	const uint32_t ext = 1U << 30, allow_idmap = 1U << 8;
	struct bytes request = make_init(ext, allow_idmap), reply = make_init_reply(ext, 0x8);

	(void)state;
	assert_true(request_can_idmap(request.data, request.len));
	assert_true(request_patch_init_reply(request.data, request.len, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, make_init_reply(ext, 0x8).data, reply.len);
	assert_true(request_patch_init_reply(request.data, request.len, REQUEST_IDMAP, reply.data,
					     reply.len));
	assert_memory_equal(reply.data, make_init_reply(ext, 0x8 | allow_idmap).data, reply.len);
	/* A kernel that does not offer it. */
	request = make_init(ext, ~allow_idmap);
	assert_false(request_can_idmap(request.data, request.len));
	reply = make_init_reply(ext, 0);
	assert_true(request_patch_init_reply(request.data, request.len, REQUEST_IDMAP, reply.data,
					     reply.len));
	assert_memory_equal(reply.data, make_init_reply(ext, 1U << 2).data, reply.len);
	request = make_init(0, allow_idmap);
	assert_false(request_can_idmap(request.data, request.len));
}

static void request_patch_init_reply_short_is_refused_or_left(void **state)
{
	struct bytes request = make_init(1U << 30, 1U << 2), reply = make_init_reply(0x10, 0x8);

	(void)state;
	for (size_t len = 0; len < 16 + 32 + 4; len++)
		assert_false(
			request_patch_init_reply(request.data, request.len, 0, reply.data, len));
	/* An old kernel's request: shorter, nothing to add. */
	assert_true(request_patch_init_reply(request.data, HEADER + 16, 0, reply.data, reply.len));
	assert_memory_equal(reply.data, make_init_reply(0x10, 0x8).data, reply.len);
}

static void request_prune_names_the_nodes(void **state)
{
	const uint64_t nodes[] = { 0x100000002, 3 };
	unsigned char bytes[REQUEST_PRUNE_BYTES(2)];
	const struct fuse_out_header *out = (const void *)bytes;
	uint32_t count;

	(void)state;
	assert_int_equal(request_prune(nodes, 2, bytes), sizeof(bytes));
	assert_int_equal(out->len, 48);
	assert_int_equal(out->error, 9);
	assert_int_equal(out->unique, 0);
	memcpy(&count, bytes + 16, sizeof(count));
	assert_int_equal(count, 2);
	assert_memory_equal(bytes + 32, nodes, sizeof(nodes));
}

static void request_can_prune_follows_the_protocol(void **state)
{
	static const struct {
		uint32_t major, minor;
		bool can;
	} cases[] = { { 7, 44, false }, { 7, 45, true }, { 7, 46, true }, { 8, 45, false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes b = make(FUSE_INIT);

		put_u32(&b, cases[i].major);
		put_u32(&b, cases[i].minor);
		assert_int_equal(request_can_prune(b.data, b.len), cases[i].can);
		assert_false(request_can_prune(b.data, b.len - 1));
	}
}

static void request_reply_revalidates_follows_the_flag(void **state)
{
	(void)state;
	for (uint32_t flags = 0; flags < FUSE_AUTO_INVAL_DATA << 1;
	     flags += FUSE_AUTO_INVAL_DATA / 2) {
		const struct fuse_out_header header = { .unique = 1 };
		const struct fuse_init_out out = { .major = 7, .minor = 45, .flags = flags };
		const size_t needed =
			sizeof(header) + offsetof(struct fuse_init_out, max_background);
		struct bytes b = { .len = 0 };

		put(&b, &header, sizeof(header));
		put(&b, &out, sizeof(out));
		assert_int_equal(request_reply_revalidates(b.data, needed),
				 (flags & FUSE_AUTO_INVAL_DATA) != 0);
		assert_false(request_reply_revalidates(b.data, needed - 1));
	}
}

/* Every opcode cut at every byte, and random bytes: nothing is read outside (sanitizers are the judge). */
static void request_any_bytes_are_survived(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (uint32_t opcode = 0; opcode < 64; opcode++) {
		struct bytes b = make_create(1, 4242);

		memcpy(b.data + 4, &opcode, sizeof(opcode));
		for (size_t len = 0; len <= b.len; len++)
			ask_all(&b, len);
	}
	for (int i = 0; i < 200000; i++) {
		struct bytes b = make_create(1, 4242);

		for (int flips = 0; flips < 4; flips++)
			b.data[(size_t)rand_r(&seed) % b.len] = (unsigned char)rand_r(&seed);
		ask_all(&b, (size_t)rand_r(&seed) % (b.len + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_opens_file_only_opens_are_told),
		cmocka_unit_test(request_opens_file_short_header_is_none),
		cmocka_unit_test(request_takes_long_what_sets_a_length_does),
		cmocka_unit_test(request_takes_long_others_do_not),
		cmocka_unit_test(request_waiter_of_what_nobody_waits_for_is_none),
		cmocka_unit_test(request_forgets_one_is_the_headers_node),
		cmocka_unit_test(request_forgets_many_are_all_or_none),
		cmocka_unit_test(request_forgets_others_are_none),
		cmocka_unit_test(request_supplementary_group_is_found),
		cmocka_unit_test(request_supplementary_group_after_another_extension_is_found),
		cmocka_unit_test(request_supplementary_group_none_is_unset),
		cmocka_unit_test(request_supplementary_group_bad_lengths_are_unset),
		cmocka_unit_test(request_kills_acl_sgid_follows_the_flag),
		cmocka_unit_test(request_kills_write_set_ids_follows_the_flag),
		cmocka_unit_test(request_open_flags_only_reads_have_them),
		cmocka_unit_test(request_error_reply_is_a_header),
		cmocka_unit_test(request_patch_init_reply_offered_is_added),
		cmocka_unit_test(request_patch_init_reply_not_offered_is_not_added),
		cmocka_unit_test(request_patch_init_reply_over_ring_is_added_when_asked_for),
		cmocka_unit_test(request_patch_init_reply_idmap_is_added_where_wanted),
		cmocka_unit_test(request_patch_init_reply_short_is_refused_or_left),
		cmocka_unit_test(request_prune_names_the_nodes),
		cmocka_unit_test(request_can_prune_follows_the_protocol),
		cmocka_unit_test(request_reply_revalidates_follows_the_flag),
		cmocka_unit_test(request_any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
