// SPDX-License-Identifier: Apache-2.0
#include "fs/ownership/present.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fs/base/parse.h"

static const mode_t FILE_MASK = 0660, FILE_MASK_READ_ONLY = 0440;
static const mode_t DIR_MASK = 02770, DIR_MASK_READ_ONLY = 02550;

static bool is_kept_private(const struct ownership_rule *rule, mode_t mode)
{
	mode_t perm = mode & 0777;

	if (!rule->keep_private)
		return false;
	return S_ISDIR(mode) ? perm == 0700 : perm == 0600 || perm == 0400;
}

mode_t present_mask(const struct ownership_rule *rule, mode_t mode)
{
	if (S_ISLNK(mode) || is_kept_private(rule, mode))
		return 0;
	if (S_ISDIR(mode))
		return rule->read_only ? DIR_MASK_READ_ONLY : DIR_MASK;
	return rule->read_only ? FILE_MASK_READ_ONLY : FILE_MASK;
}

void present(const struct ownership_rule *rule, struct stat *io_st)
{
	if (rule->gid == GID_UNSET)
		return;
	io_st->st_gid = rule->gid;
	io_st->st_mode |= present_mask(rule, io_st->st_mode);
}

bool present_is_right(const struct ownership_rule *rule, const struct stat *st)
{
	struct stat shown = *st;

	present(rule, &shown);
	return shown.st_gid == st->st_gid && shown.st_mode == st->st_mode;
}

bool present_root_matches(const struct ownership_rule *rule, const struct stat *root)
{
	mode_t mask = rule->read_only ? DIR_MASK_READ_ONLY : DIR_MASK;

	return S_ISDIR(root->st_mode) && root->st_gid == rule->gid &&
	       (root->st_mode & mask) == mask;
}

/*
 * The extended attribute form of a POSIX ACL: a little-endian version word, then entries of tag,
 * permissions and id (source: linux/posix_acl_xattr.h).
 */
struct acl_entry {
	uint16_t tag;
	uint16_t perm;
	uint32_t id;
};

enum { ACL_VERSION = 2, ACL_USER_OBJ = 1, ACL_GROUP_OBJ = 4, ACL_MASK = 16, ACL_OTHER = 32 };

int present_acl(mode_t shown_mode, void *io_acl, size_t len)
{
	unsigned char *bytes = io_acl;
	uint32_t version;
	size_t count, group = SIZE_MAX, mask = SIZE_MAX;

	if (len < sizeof(version) || (len - sizeof(version)) % sizeof(struct acl_entry) != 0)
		return -EINVAL;
	memcpy(&version, bytes, sizeof(version));
	if (le32toh(version) != ACL_VERSION)
		return -EINVAL;

	bytes += sizeof(version);
	count = (len - sizeof(version)) / sizeof(struct acl_entry);
	for (size_t i = 0; i < count; i++) {
		struct acl_entry entry;

		memcpy(&entry, bytes + i * sizeof(entry), sizeof(entry));
		switch (le16toh(entry.tag)) {
		case ACL_USER_OBJ:
			entry.perm = htole16(shown_mode >> 6 & 7);
			break;
		case ACL_OTHER:
			entry.perm = htole16(shown_mode & 7);
			break;
		case ACL_GROUP_OBJ:
			group = i;
			continue;
		case ACL_MASK:
			mask = i;
			continue;
		default:
			continue;
		}
		memcpy(bytes + i * sizeof(entry), &entry, sizeof(entry));
	}
	if (mask == SIZE_MAX)
		mask = group;
	if (mask != SIZE_MAX) {
		uint16_t perm = htole16(shown_mode >> 3 & 7);

		memcpy(bytes + mask * sizeof(struct acl_entry) + offsetof(struct acl_entry, perm),
		       &perm, sizeof(perm));
	}
	return 0;
}

/* A big-endian count, then entries (source: fs/xfs/libxfs/xfs_format.h, struct xfs_acl). */
struct xfs_acl_entry {
	uint32_t tag, id;
	uint16_t perm, pad;
};

int present_xfs_acl(mode_t shown_mode, void *io_acl, size_t len)
{
	unsigned char *bytes = io_acl;
	struct xfs_acl_entry entry;
	uint32_t wanted;
	size_t count;
	bool has_mask = false;

	if (len < sizeof(uint32_t) || (len - sizeof(uint32_t)) % sizeof(entry) != 0)
		return -EINVAL;
	bytes += sizeof(uint32_t);
	count = (len - sizeof(uint32_t)) / sizeof(entry);
	for (size_t i = 0; i < count; i++) {
		memcpy(&entry, bytes + i * sizeof(entry), sizeof(entry));
		has_mask |= be32toh(entry.tag) == ACL_MASK;
	}
	for (size_t i = 0; i < count; i++) {
		memcpy(&entry, bytes + i * sizeof(entry), sizeof(entry));
		switch (be32toh(entry.tag)) {
		case ACL_USER_OBJ:
			wanted = shown_mode >> 6;
			break;
		case ACL_GROUP_OBJ:
			wanted = has_mask ? be16toh(entry.perm) : shown_mode >> 3;
			break;
		case ACL_MASK:
			wanted = shown_mode >> 3;
			break;
		case ACL_OTHER:
			wanted = shown_mode;
			break;
		default:
			continue;
		}
		entry.perm = htobe16(wanted & 7);
		memcpy(bytes + i * sizeof(entry), &entry, sizeof(entry));
	}
	return 0;
}
