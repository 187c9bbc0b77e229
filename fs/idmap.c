// SPDX-License-Identifier: Apache-2.0
#include "fs/idmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdint.h>

#include "fs/base/parse.h"

int idmap_check_gid(gid_t gid, char ret_reason[256])
{
	FILE *file;
	unsigned long inside, outside, count;
	int r = -EINVAL;

	if (gid == GID_UNSET) {
		snprintf(ret_reason, 256, "no group is given: -o gid=N is needed");
		return -EINVAL;
	}
	file = fopen("/proc/self/gid_map", "re");
	if (!file) {
		r = -errno;
		snprintf(ret_reason, 256, "/proc/self/gid_map: %m");
		return r;
	}
	while (fscanf(file, "%lu %lu %lu", &inside, &outside, &count) == 3) {
		if (gid >= inside && gid - inside < count)
			r = 0;
	}
	fclose(file);
	if (r < 0)
		snprintf(ret_reason, 256, "gid %u is not mapped in this user namespace", gid);
	return r;
}
