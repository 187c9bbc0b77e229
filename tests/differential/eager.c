// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/eager.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static gid_t wanted_gid; /* nftw() passes no context */

static int change(const char *path, const struct stat *st, gid_t gid)
{
	char capability[64];
	ssize_t len = -1;

	if (!S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
		len = lgetxattr(path, "security.capability", capability, sizeof(capability));
	if (lchown(path, (uid_t)-1, gid) < 0)
		return -errno;
	if (S_ISLNK(st->st_mode))
		return 0;
	if (chmod(path, (st->st_mode & 07777) | (S_ISDIR(st->st_mode) ? 02770 : 0660)) < 0)
		return -errno;
	if (len > 0 && setxattr(path, "security.capability", capability, (size_t)len, 0) < 0)
		return -errno;
	return 0;
}

static int change_found(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)type, (void)where;
	return change(path, st, wanted_gid);
}

int eager_change_one(const char *path, gid_t gid)
{
	struct stat st;

	return lstat(path, &st) < 0 ? -errno : change(path, &st, gid);
}

int eager_change(const char *path, gid_t gid)
{
	int r;

	wanted_gid = gid;
	r = nftw(path, change_found, 16, FTW_DEPTH | FTW_PHYS);
	return r == -1 ? -errno : r;
}
