/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_ID_MAP_H
#define FS_ID_MAP_H

/*
 * id_map: which ids stand for which others: of a user namespace (/proc/PID/uid_map), or of an idmapped mount
 * (statmount(2)), which the kernel writes alike: lines "first lower count". For a user namespace "first" is an id in
 * it and "lower" one in ours; for a mount "first" is an id on disk, "lower" what it is seen as.
 *
 * Pure: users and groups alike, no system call. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ID_RANGES_MAX = 340 }; /* the kernel's own limit (user_namespaces(7)) */
#define ID_NONE UINT32_MAX    /* (uid_t)-1 and (gid_t)-1: no id */

struct id_map {
	size_t count;
	struct id_range {
		uint32_t first, lower, count;
	} ranges[ID_RANGES_MAX];
};

/* id_map_parse: 0, or -EINVAL: not such lines, or too many. No line at all is a map that maps nothing. */
int id_map_parse(const char *text, struct id_map *ret_map);

/* id_map_identity: every id stands for itself. */
void id_map_identity(struct id_map *ret_map);

/* id_map_down: what the id @first stands for, or ID_NONE. */
uint32_t id_map_down(const struct id_map *map, uint32_t first);

/* id_map_has_lower: whether some id stands for @lower. */
bool id_map_has_lower(const struct id_map *map, uint32_t lower);

#endif
