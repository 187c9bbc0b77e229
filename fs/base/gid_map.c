// SPDX-License-Identifier: Apache-2.0
#include "fs/base/gid_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"

bool gid_map_has(const char *map, gid_t gid)
{
	while (*map) {
		unsigned long first, outside, count;

		if (sscanf(map, "%lu %lu %lu", &first, &outside, &count) == 3 && gid >= first &&
		    gid - first < count)
			return true;
		map += strcspn(map, "\n");
		map += *map == '\n';
	}
	return false;
}

bool gid_is_mapped(gid_t gid)
{
	enum { MAP_BYTES = 16384 }; /* at most 340 lines (user_namespaces(7)) */
	AUTO_FREE char *map = malloc(MAP_BYTES);

	if (!map || io_read_text(AT_FDCWD, "/proc/self/gid_map", map, MAP_BYTES) < 0 ||
	    map[0] == '\0')
		return true;
	return gid_map_has(map, gid);
}
