/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_DRY_RUN_H
#define MOUNTD_DRY_RUN_H

/*
 * dry_run: what a request would do to a volume, with every check that can be made by looking. Nothing is written: no
 * record, no event, no directory. Part of the manager; called with the volume's key locked.
 */

#include "mountd/manager_impl.h"

/*
 * dry_run_ownership: what would become of the owners of a volume that is to be as @vol says.
 * @source_fd: its tree, where that can be looked at before it is set up; else -1: other volumes on it are not looked for
 * @conflict_is_refused: whether another volume's ownership on the tree is a failure
 */
enum proto_exit dry_run_ownership(struct manager *m, const struct volume_record *vol,
				  const struct volume_plugin *plugin, int source_fd,
				  bool conflict_is_refused, struct answer *answer);

/* dry_run_detach: whether the volume could be taken off its target now; a busy or foreign mount is a failure. */
enum proto_exit dry_run_detach(struct manager *m, const struct volume_record *vol, bool lazy,
			       struct answer *answer);

/* dry_run_unmount: an unmount of a volume that is on record. */
enum proto_exit dry_run_unmount(struct manager *m, const struct volume_record *vol, bool lazy,
				struct answer *answer);

#endif
