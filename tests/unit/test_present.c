// SPDX-License-Identifier: Apache-2.0
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/ownership/present.h"

static const struct ownership_rule plain = { .gid = 2000 };
static const struct ownership_rule read_only = { .gid = 2000, .read_only = true };
static const struct ownership_rule private_kept = { .gid = 2000, .keep_private = true };
static const struct ownership_rule unset = { .gid = GID_UNSET };

static mode_t shown_mode(const struct ownership_rule *rule, mode_t mode)
{
	struct stat st = { .st_mode = mode, .st_gid = 1 };

	present(rule, &st);
	return st.st_mode;
}

/* Every type of file under the three masks. */
static void present_mask_every_type(void **state)
{
	static const struct {
		mode_t type, mask, mask_read_only;
	} cases[] = {
		{ S_IFREG, 0660, 0440 }, { S_IFDIR, 02770, 02550 }, { S_IFLNK, 0, 0 },
		{ S_IFIFO, 0660, 0440 }, { S_IFSOCK, 0660, 0440 },  { S_IFCHR, 0660, 0440 },
		{ S_IFBLK, 0660, 0440 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(present_mask(&plain, cases[i].type), cases[i].mask);
		assert_int_equal(present_mask(&read_only, cases[i].type), cases[i].mask_read_only);
	}
}

static void present_bits_are_only_added(void **state)
{
	(void)state;
	for (mode_t mode = 0; mode <= 07777; mode++) {
		assert_int_equal(shown_mode(&plain, S_IFREG | mode), S_IFREG | mode | 0660);
		assert_int_equal(shown_mode(&plain, S_IFDIR | mode), S_IFDIR | mode | 02770);
		assert_int_equal(shown_mode(&read_only, S_IFREG | mode), S_IFREG | mode | 0440);
		assert_int_equal(shown_mode(&read_only, S_IFDIR | mode), S_IFDIR | mode | 02550);
		assert_int_equal(shown_mode(&plain, S_IFLNK | mode), S_IFLNK | mode);
	}
}

static void present_only_group_and_mode_change(void **state)
{
	struct stat st, before;

	(void)state;
	memset(&st, 0x5a, sizeof(st));
	st.st_mode = S_IFREG | 0600;
	before = st;
	present(&plain, &st);
	assert_int_equal(st.st_gid, 2000);
	before.st_gid = 2000;
	before.st_mode = S_IFREG | 0660;
	assert_memory_equal(&st, &before, sizeof(st));
}

static void present_symlink_gets_the_group_only(void **state)
{
	struct stat st = { .st_mode = S_IFLNK | 0777, .st_gid = 1 };

	(void)state;
	present(&plain, &st);
	assert_int_equal(st.st_gid, 2000);
	assert_int_equal(st.st_mode, S_IFLNK | 0777);
}

static void present_unset_changes_nothing(void **state)
{
	struct stat st = { .st_mode = S_IFDIR | 0700, .st_gid = 1 }, before = st;

	(void)state;
	present(&unset, &st);
	assert_memory_equal(&st, &before, sizeof(st));
	assert_true(present_is_right(&unset, &st));
}

static void present_keep_private_keeps_private_bits(void **state)
{
	static const mode_t kept[] = { S_IFREG | 0600, S_IFREG | 0400, S_IFDIR | 0700 };
	static const mode_t not_kept[] = { S_IFREG | 0700, S_IFREG | 0640, S_IFREG | 0200, S_IFREG,
					   S_IFDIR | 0750, S_IFDIR | 0600, S_IFDIR | 0500 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		struct stat st = { .st_mode = kept[i], .st_gid = 1 };

		present(&private_kept, &st);
		assert_int_equal(st.st_mode, kept[i]);
		assert_int_equal(st.st_gid, 2000);
		assert_int_not_equal(shown_mode(&plain, kept[i]), kept[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(not_kept); i++)
		assert_int_equal(shown_mode(&private_kept, not_kept[i]),
				 shown_mode(&plain, not_kept[i]));
}

static void present_set_id_and_sticky_stay(void **state)
{
	(void)state;
	assert_int_equal(shown_mode(&plain, S_IFREG | 06755), S_IFREG | 06775);
	assert_int_equal(shown_mode(&plain, S_IFDIR | 01777), S_IFDIR | 03777);
	assert_int_equal(shown_mode(&plain, S_IFREG | 0755),
			 S_IFREG | 0775); /* no setgid on files */
}

static void present_is_right_needs_group_and_mask(void **state)
{
	struct stat st = { .st_mode = S_IFREG | 0664, .st_gid = 2000 };

	(void)state;
	assert_true(present_is_right(&plain, &st));
	st.st_gid = 2001;
	assert_false(present_is_right(&plain, &st));
	st.st_gid = 2000;
	st.st_mode = S_IFREG | 0640;
	assert_false(present_is_right(&plain, &st));
	assert_true(present_is_right(&read_only, &st));
	st.st_mode = S_IFDIR | 0770;
	assert_false(present_is_right(&plain, &st)); /* no setgid */
	st.st_mode = S_IFLNK;
	assert_true(present_is_right(&plain, &st));
}

/* What is shown is right: showing it again changes nothing. */
static void present_is_idempotent(void **state)
{
	static const struct ownership_rule *const rules[] = { &plain, &read_only, &private_kept,
							      &unset };
	static const mode_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO };

	(void)state;
	for (size_t r = 0; r < ARRAY_SIZE(rules); r++) {
		for (mode_t mode = 0; mode <= 07777; mode++) {
			struct stat st = { .st_mode = types[mode % 4] | mode };

			present(rules[r], &st);
			assert_true(present_is_right(rules[r], &st));
		}
	}
}

/* Source: kubelet, pkg/volume/volume_linux.go, requiresPermissionChange. */
static void present_root_matches_as_kubelet_does(void **state)
{
	static const struct {
		mode_t mode;
		gid_t gid;
		bool matches, matches_read_only;
	} cases[] = {
		{ S_IFDIR | 02770, 2000, true, true },	 { S_IFDIR | 03777, 2000, true, true },
		{ S_IFDIR | 02550, 2000, false, true },	 { S_IFDIR | 0770, 2000, false, false },
		{ S_IFDIR | 02760, 2000, false, false }, { S_IFDIR | 02770, 2001, false, false },
		{ S_IFREG | 02770, 2000, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stat root = { .st_mode = cases[i].mode, .st_gid = cases[i].gid };

		assert_int_equal(present_root_matches(&plain, &root), cases[i].matches);
		assert_int_equal(present_root_matches(&read_only, &root),
				 cases[i].matches_read_only);
	}
}

/* --- ACLs: source: linux/posix_acl_xattr.h -------------------------------------------------------- */

struct acl_text {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entries[6];
};

enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

static void acl_add(struct acl_text *acl, size_t index, int tag, int perm)
{
	acl->entries[index].tag = htole16((uint16_t)tag);
	acl->entries[index].perm = htole16((uint16_t)perm);
	acl->entries[index].id = htole32(4711);
}

static int acl_perm(const struct acl_text *acl, size_t index)
{
	return le16toh(acl->entries[index].perm);
}

static size_t acl_len(size_t entries)
{
	return offsetof(struct acl_text, entries) + entries * 8;
}

static void present_acl_with_mask_changes_the_mask(void **state)
{
	struct acl_text acl = { .version = htole32(2) };

	(void)state;
	acl_add(&acl, 0, USER_OBJ, 4);
	acl_add(&acl, 1, USER, 7);
	acl_add(&acl, 2, GROUP_OBJ, 4);
	acl_add(&acl, 3, GROUP, 5);
	acl_add(&acl, 4, MASK, 4);
	acl_add(&acl, 5, OTHER, 0);
	assert_int_equal(present_acl(S_IFREG | 0664, &acl, acl_len(6)), 0);
	assert_int_equal(acl_perm(&acl, 0), 6);
	assert_int_equal(acl_perm(&acl, 1), 7);
	assert_int_equal(acl_perm(&acl, 2), 4);
	assert_int_equal(acl_perm(&acl, 3), 5);
	assert_int_equal(acl_perm(&acl, 4), 6);
	assert_int_equal(acl_perm(&acl, 5), 4);
	assert_int_equal(le32toh(acl.entries[1].id), 4711);
}

static void present_acl_without_mask_changes_the_group(void **state)
{
	struct acl_text acl = { .version = htole32(2) };

	(void)state;
	acl_add(&acl, 0, USER_OBJ, 4);
	acl_add(&acl, 1, GROUP_OBJ, 0);
	acl_add(&acl, 2, OTHER, 1);
	assert_int_equal(present_acl(S_IFREG | 0661, &acl, acl_len(3)), 0);
	assert_int_equal(acl_perm(&acl, 0), 6);
	assert_int_equal(acl_perm(&acl, 1), 6);
	assert_int_equal(acl_perm(&acl, 2), 1);
}

static void present_acl_set_id_bits_stay_out(void **state)
{
	struct acl_text acl = { .version = htole32(2) };

	(void)state;
	acl_add(&acl, 0, USER_OBJ, 7);
	acl_add(&acl, 1, GROUP_OBJ, 7);
	acl_add(&acl, 2, OTHER, 7);
	assert_int_equal(present_acl(S_IFDIR | 07750, &acl, acl_len(3)), 0);
	assert_int_equal(acl_perm(&acl, 0), 7);
	assert_int_equal(acl_perm(&acl, 1), 5);
	assert_int_equal(acl_perm(&acl, 2), 0);
}

static void present_acl_malformed_is_einval_untouched(void **state)
{
	struct acl_text acl, before;

	(void)state;
	memset(&acl, 0xff, sizeof(acl));
	acl.version = htole32(2);
	acl_add(&acl, 0, USER_OBJ, 7);
	before = acl;
	for (size_t len = 0; len <= acl_len(6); len++) {
		if (len >= 4 && (len - 4) % 8 == 0)
			continue;
		assert_int_equal(present_acl(0664, &acl, len), -EINVAL);
		assert_memory_equal(&acl, &before, sizeof(acl));
	}
	acl.version = htole32(1);
	before = acl;
	assert_int_equal(present_acl(0664, &acl, acl_len(1)), -EINVAL);
	assert_memory_equal(&acl, &before, sizeof(acl));
	acl.version = htole32(2);
	assert_int_equal(present_acl(0664, &acl, acl_len(0)), 0); /* empty, and stays so */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(present_mask_every_type),
		cmocka_unit_test(present_bits_are_only_added),
		cmocka_unit_test(present_only_group_and_mode_change),
		cmocka_unit_test(present_symlink_gets_the_group_only),
		cmocka_unit_test(present_unset_changes_nothing),
		cmocka_unit_test(present_keep_private_keeps_private_bits),
		cmocka_unit_test(present_set_id_and_sticky_stay),
		cmocka_unit_test(present_is_right_needs_group_and_mask),
		cmocka_unit_test(present_is_idempotent),
		cmocka_unit_test(present_root_matches_as_kubelet_does),
		cmocka_unit_test(present_acl_with_mask_changes_the_mask),
		cmocka_unit_test(present_acl_without_mask_changes_the_group),
		cmocka_unit_test(present_acl_set_id_bits_stay_out),
		cmocka_unit_test(present_acl_malformed_is_einval_untouched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
