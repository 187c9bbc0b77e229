// SPDX-License-Identifier: Apache-2.0
#include "mountd/path_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int program_path(const char *name, char *ret_path, size_t size)
{
	const char *dir = secure_getenv("FSGROUPFS_LIBEXEC");
	char self[PATH_MAX];
	int n;

	if (!dir || dir[0] != '/') {
		ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

		if (len < 0)
			return -errno;
		self[len] = '\0';
		*strrchr(self, '/') = '\0';
		dir = self;
	}
	n = snprintf(ret_path, size, "%s/%s", dir, name);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
