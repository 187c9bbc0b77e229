// SPDX-License-Identifier: Apache-2.0
#include "mountd/gid_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"

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
	/* At most 340 lines (user_namespaces(7)). */
	AUTO_FREE char *map = calloc(1, 16384);
	AUTO_FD int fd = open("/proc/self/gid_map", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = -1;

	while (map && fd >= 0 && used < 16383 && (n = read(fd, map + used, 16383 - used)) > 0)
		used += (size_t)n;
	return used == 0 || gid_map_has(map, gid);
}
