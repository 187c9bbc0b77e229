/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_IDMAP_H
#define FS_IDMAP_H

/*
 * idmap: which group ids this user namespace has.
 */

#include <sys/types.h>

/*
 * idmap_check_gid: whether @gid is mapped here (user_namespaces(7)).
 * Returns 0, -EINVAL with one line in @ret_reason (unset, not mapped), or -errno.
 */
int idmap_check_gid(gid_t gid, char ret_reason[256]);

#endif
