/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_NEIGHBOURS_H
#define MOUNTD_NEIGHBOURS_H

/*
 * neighbours: the live volumes whose lower tree is that of a volume to come, encloses it or lies in it
 * (design, section 2). Part of the manager.
 */

#include "mountd/manager_impl.h"

struct neighbours {
	char equal[VOLUME_ID_MAX + 1]; /* shows the same tree with the same ownership, or "" */
	char other[VOLUME_ID_MAX + 1]; /* writes, or has written, another ownership; or "" */
	const char *where; /* how the other's tree lies to this one: "the same tree", ... */
};

/*
 * neighbours_find: of the volume @id, which is to show the tree @lower_fd (identity @tree) with @wanted.
 * @writes: whether it is to write its ownership; one that does not disturbs nobody.
 * Blocks on the file system once for each live volume there. 0 or -ENOMEM; what cannot be looked at is
 * passed over.
 */
int neighbours_find(struct manager *m, const char *id, int lower_fd, const char *tree,
		    const char *wanted, bool writes, struct neighbours *ret_neighbours);

#endif
