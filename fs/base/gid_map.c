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
	AUTO_FD int fd = open("/proc/self/gid_map", O_RDONLY | O_CLOEXEC);
	ssize_t len = map && fd >= 0 ? io_read_all(fd, map, MAP_BYTES - 1) : -1;

	if (len <= 0)
		return true;
	map[len] = '\0';
	return gid_map_has(map, gid);
}
