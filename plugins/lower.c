// SPDX-License-Identifier: Apache-2.0
#include "plugins/lower.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "plugins/builder.h"

/* The directory that was mounted: a mount id alone would not tell what it shows. */
static const char KEY_DEVICE[] = "device", KEY_INODE[] = "inode";

static bool lower_is(const struct volume_builder *b, uint64_t device, uint64_t inode)
{
	struct stat st;

	return fstatat(b->dir_fd, LOWER_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == device && st.st_ino == inode;
}

bool lower_is_set_up(struct volume_builder *b)
{
	json_t *device = json_object_get(b->metadata, KEY_DEVICE);
	json_t *inode = json_object_get(b->metadata, KEY_INODE);
	uint64_t mount_id = builder_mount_recorded(b);

	return mount_id != 0 && json_is_integer(device) && json_is_integer(inode) &&
	       b->host->is_mounted(b, b->dir_fd, LOWER_NAME, mount_id) &&
	       lower_is(b, (uint64_t)json_integer_value(device),
			(uint64_t)json_integer_value(inode));
}

int lower_record(struct volume_builder *b, uint64_t mount_id)
{
	struct stat st;

	if (fstatat(b->dir_fd, LOWER_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		int r = -errno;

		return builder_fail(b, r, "%s/%s: %s", b->dir_path, LOWER_NAME, strerror(-r));
	}
	if (json_object_set_new(b->metadata, KEY_DEVICE, json_integer((json_int_t)st.st_dev)) < 0 ||
	    json_object_set_new(b->metadata, KEY_INODE, json_integer((json_int_t)st.st_ino)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return builder_mount_record(b, mount_id);
}

int lower_bind(struct volume_builder *b, int source_fd, const struct stat *st)
{
	uint64_t mount_id = builder_mount_at(b, LOWER_NAME);
	int r;

	/* A bind that an interrupted set-up made before it could be recorded is taken over. */
	if (mount_id != 0 && lower_is(b, st->st_dev, st->st_ino))
		return lower_record(b, mount_id);
	r = builder_unmount(b, LOWER_NAME, mount_id);
	if (r < 0)
		return r;
	b->error[0] = '\0';
	r = b->host->bind(b, source_fd, b->dir_fd, LOWER_NAME, &mount_id);
	if (r < 0 && b->error[0] == '\0')
		builder_fail(b, r, "bind to %s/%s: %s", b->dir_path, LOWER_NAME, strerror(-r));
	return r < 0 ? r : lower_record(b, mount_id);
}

int lower_unmount(struct volume_builder *b)
{
	return builder_unmount(b, LOWER_NAME, builder_mount_at(b, LOWER_NAME));
}

int lower_open(struct volume_builder *b, int *ret_lower)
{
	return builder_open_dir(b, LOWER_NAME, ret_lower);
}

int lower_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
		 enum ownership_outcome *ret_ownership)
{
	int r = lower_open(b, ret_lower);

	if (r == 0)
		*ret_ownership = gid == GID_UNSET ? OWNERSHIP_DONE : OWNERSHIP_PRESENT;
	return r;
}

int lower_tear_down(struct volume_builder *b)
{
	int r = lower_unmount(b);

	if (r < 0)
		return r;
	/* Never more than the empty directory that was mounted on: what is in it is not ours. */
	if (unlinkat(b->dir_fd, LOWER_NAME, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		r = -errno;
		return builder_fail(b, r, "remove %s/%s: %s", b->dir_path, LOWER_NAME,
				    strerror(-r));
	}
	return 0;
}
