/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_HANDOFF_H
#define FS_HANDOFF_H

/*
 * handoff: the keeper's part of the hand-off: whether nobody else uses the overlay, and the swap.
 *
 *   survey   while everybody works: all mappings and mounts of the machine. It takes as long as there are
 *            processes, and finds nearly every reason why there can be no swap.
 *   swap     while the server holds all opens and no file is open: mounts again, which takes as long as
 *            there are mounts. A mapping needs an open before it: only when there was one since the survey
 *            began are mappings looked for again, for HANDOFF_HOLD_MS of processor time at most.
 *
 * With @in_namespaces copies of the overlay, wherever they are, are replaced under the same condition for
 * all together; if one cannot be replaced, none is. Single-threaded.
 */

#include <stdbool.h>

#include "fs/mounting.h"
#include "fs/replacement.h"

enum { HANDOFF_HOLD_MS = 50 };

struct handoff {
	const struct mount_target *target;
	const struct overlay_mount *overlay;
	int native_tree_fd; /* a detached mount of the lower tree; borrowed */
	bool in_namespaces;
	bool with_mappings; /* mappings leave no trace in the server (passthrough) */
	struct buried *io_buried;
};

/*
 * handoff_survey, handoff_swap: 0; or 1, with one line that says why not in @ret_reason.
 * @is_quiet: no file has been opened since the survey began
 * *ret_id: the unique id of the mount at the target
 */
int handoff_survey(const struct handoff *h, char ret_reason[256]);
int handoff_swap(const struct handoff *h, bool is_quiet, char ret_reason[256], uint64_t *ret_id);

#endif
