// SPDX-License-Identifier: Apache-2.0
#include "fs/handoff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/users.h"

/* Makes one of the two results of all that may fail: 0, or 1 with the reason. */
static int refuse(int r, const char *what, char ret_reason[256])
{
	if (r >= 0)
		return r;
	if (r == -ETIMEDOUT)
		snprintf(ret_reason, 256, "files are opened all the time");
	else
		snprintf(ret_reason, 256, "hand-off: %s: %s", what, strerror(-r));
	return 1;
}

static int find_mappings(const struct handoff *h, int64_t budget_ms, char ret_reason[256])
{
	int r = h->with_mappings ? users_find_mappings(h->overlay, budget_ms, ret_reason) : 0;

	return refuse(r, "mappings cannot be told", ret_reason);
}

static void name_copy(const struct copies *copies, char ret_reason[256])
{
	const struct copy *copy = &copies->list[0];
	char name[96] = "nobody";

	if (copies->spaces[copy->space].fd < 0) {
		snprintf(ret_reason, 256, "it is mounted at another place too");
		return;
	}
	users_name_space(copies->spaces[copy->space].ino, name, sizeof(name));
	snprintf(ret_reason, 256, "it is mounted in the mount namespace of %s", name);
}

/* Mounts that stand in the way; *ret_copies are those that do not, to be replaced. */
static int find_mounts(const struct handoff *h, struct copies *ret_copies, char ret_reason[256])
{
	int r = copies_find(h->overlay, ret_copies, ret_reason);

	if (r == -ENOSYS) {
		copies_fini(ret_copies);
		r = users_find_mounts(h->overlay, ret_reason);
	} else if (r == 0 && ret_copies->count > 0 && !h->in_namespaces) {
		name_copy(ret_copies, ret_reason);
		r = 1;
	}
	return refuse(r, "mounts cannot be told", ret_reason);
}

int handoff_survey(const struct handoff *h, char ret_reason[256])
{
	struct copies copies = { .count = 0 };
	int r = find_mounts(h, &copies, ret_reason);

	copies_fini(&copies);
	return r == 0 ? find_mappings(h, 0, ret_reason) : r;
}

static int swap_target(const struct handoff *h, char ret_reason[256], uint64_t *ret_id)
{
	int r = mounting_swap(h->target, h->overlay, h->native_tree_fd, ret_id);

	if (r == 0)
		return 0;
	if (r == -ENOENT)
		snprintf(ret_reason, 256, "something is mounted over it");
	else if (r == -EINVAL || r == -ENOSYS)
		snprintf(ret_reason, 256, "kernel too old");
	else
		snprintf(ret_reason, 256, "hand-off: %s", strerror(-r));
	return 1;
}

/* The copies with the target: all or none. */
static int swap_all(const struct handoff *h, const struct copies *copies, char ret_reason[256],
		    uint64_t *ret_id)
{
	struct replacement *replacement = NULL;
	char late[256];
	int r = replacement_prepare(copies, h->native_tree_fd, h->io_buried, &replacement,
				    ret_reason);

	if (r == 0)
		r = replacement_bury(replacement, h->io_buried, ret_reason);
	if (r == 0)
		r = swap_target(h, ret_reason, ret_id);
	/* From here on there is no way back: what stays an overlay goes on being served. */
	if (r == 0 && replacement_uncover(replacement, late) < 0)
		log_line(LOG_ERROR, "handoff", "a copy stays an overlay: %s", late);
	replacement_free(replacement);
	return r < 0 ? 1 : r;
}

int handoff_swap(const struct handoff *h, bool is_quiet, char ret_reason[256], uint64_t *ret_id)
{
	struct copies copies = { .count = 0 };
	int r = find_mounts(h, &copies, ret_reason);

	if (r == 0 && !is_quiet)
		r = find_mappings(h, HANDOFF_HOLD_MS, ret_reason);
	if (r == 0 && copies.count > 0)
		r = swap_all(h, &copies, ret_reason, ret_id);
	else if (r == 0)
		r = swap_target(h, ret_reason, ret_id);
	copies_fini(&copies);
	return r;
}
