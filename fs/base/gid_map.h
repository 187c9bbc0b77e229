/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_GID_MAP_H
#define FS_BASE_GID_MAP_H

/* gid_map: which gids exist in a user namespace (user_namespaces(7)). No state, any thread. */

#include <stdbool.h>
#include <sys/types.h>

/* gid_map_has: whether the text of a gid_map file maps @gid. */
bool gid_map_has(const char *map, gid_t gid);

/* gid_is_mapped: the same of our own user namespace; true where that cannot be read. */
bool gid_is_mapped(gid_t gid);

#endif
