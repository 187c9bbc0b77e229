/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_VOLUME_PATH_H
#define MOUNTD_VOLUME_PATH_H

/*
 * volume_path: which volume a path leads into. The path is walked component by component, links are followed by hand,
 * and the walk ends at the first target on record: neither that nor anything below it is looked at, for its server may
 * be down. The last component of a path that leads into no volume is not looked at either. No state, any thread.
 */

#include "store/store.h"

/*
 * volume_of_path: @path is absolute.
 * @ret_rest: what follows the target, without slashes before it; "" for the target itself; the caller's to free
 * Returns 0, -ENOENT (leads into no volume), -EXDEV (".." below a target), -ELOOP, -ENOTDIR, -EACCES, -ENAMETOOLONG,
 * -ENOMEM, or the store's errors.
 */
int volume_of_path(struct store *store, const char *path, struct volume_record **ret_vol,
		   char **ret_rest);

#endif
