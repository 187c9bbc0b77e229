// SPDX-License-Identifier: Apache-2.0
#include "mountd/path_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static const char *fault_of(const struct stat *st)
{
	return !S_ISREG(st->st_mode) || !(st->st_mode & 0111) ? "is no program" :
	       st->st_uid != 0				      ? "does not belong to root" :
	       st->st_mode & 022 ? "can be written by others than root" :
				   NULL;
}

int program_open(const char *name, int *ret_fd, char *ret_error)
{
	AUTO_FD int fd = -1;
	char path[PATH_MAX];
	const char *fault;
	struct stat st;
	int r = program_path(name, path, sizeof(path));

	if (r == 0)
		fd = open(path, O_PATH | O_CLOEXEC);
	if (r == 0 && (fd < 0 || fstat(fd, &st) < 0))
		r = -errno;
	if (r < 0) {
		snprintf(ret_error, PROGRAM_ERROR_MAX, "%s: %s", name, strerror(-r));
		return r;
	}
	fault = fault_of(&st);
	if (fault) {
		snprintf(ret_error, PROGRAM_ERROR_MAX, "%.450s %s", path, fault);
		return -EPERM;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}
