// SPDX-License-Identifier: Apache-2.0
#include "mountd/path_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* Where a program stands that belongs to one in directory @dir: beside it, or as `make install` puts them. */
static int find_beside(const char *dir, const char *name, char *ret_path, size_t size)
{
	static const char *const places[] = { "", "../sbin/", "../bin/" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int n = snprintf(ret_path, size, "%s/%s%s", dir, places[i], name);

		if (n < 0 || (size_t)n >= size)
			return -ENAMETOOLONG;
		if (access(ret_path, X_OK) == 0)
			return 0;
	}
	/* What the caller fails to start names the first place. */
	return snprintf(ret_path, size, "%s/%s", dir, name) < 0 ? -EINVAL : 0;
}

int program_path(const char *name, char *ret_path, size_t size)
{
	const char *dir = secure_getenv("FSGROUPFS_LIBEXEC");
	char self[PATH_MAX];
	ssize_t len;

	if (dir && dir[0] == '/')
		return find_beside(dir, name, ret_path, size);
	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return -errno;
	self[len] = '\0';
	*strrchr(self, '/') = '\0';
	return find_beside(self, name, ret_path, size);
}
