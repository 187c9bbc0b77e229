// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/acl.h"

#include <endian.h>
#include <string.h>

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

static size_t add(unsigned char *bytes, size_t len, uint16_t tag, uint32_t perm, uint32_t id)
{
	struct entry entry = { htole16(tag), htole16((uint16_t)perm), htole32(id) };

	memcpy(bytes + len, &entry, sizeof(entry));
	return len + sizeof(entry);
}

size_t acl_random(struct random *random, bool may_be_invalid, unsigned char ret[ACL_BYTES_MAX])
{
	static const uint32_t users[] = { 1001, 1002, 1003, 1004 };
	static const uint32_t groups[] = { 1001, 2000, 4242 };
	const uint32_t nobody = UINT32_MAX;
	uint32_t version = htole32(2);
	bool named = random_percent(random, 60), has_mask = named || random_percent(random, 40);
	size_t len = sizeof(version);

	if (may_be_invalid && random_percent(random, 5))
		has_mask = !has_mask;
	memcpy(ret, &version, sizeof(version));
	len = add(ret, len, USER_OBJ, random_below(random, 8), nobody);
	if (named && random_percent(random, 70))
		len = add(ret, len, USER, random_below(random, 8), random_pick(random, users));
	len = add(ret, len, GROUP_OBJ, random_below(random, 8), nobody);
	if (named)
		len = add(ret, len, GROUP, random_below(random, 8), random_pick(random, groups));
	if (has_mask)
		len = add(ret, len, MASK, random_below(random, 8), nobody);
	return add(ret, len, OTHER, random_below(random, 8), nobody);
}
