// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"

/* Where the source is bound, in the volume's own directory. */
static const char LOWER[] = "lower";

/* The directory that was bound: a mount id alone would not tell what it shows. */
static const char KEY_DEVICE[] = "device", KEY_INODE[] = "inode";

static int local_check(struct volume_builder *b)
{
	AUTO_FREE char *path = NULL;
	const char *fs_type = NULL;
	int r = builder_source_path(b, &path);

	return r < 0 ? r : builder_source_text(b, "fsType", &fs_type);
}

static char *local_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	AUTO_FREE char *path = NULL;
	char *text;

	if (builder_source_path(&copy, &path) < 0 || asprintf(&text, "path=%s", path) < 0)
		return NULL;
	return text;
}

static int open_source_dir(struct volume_builder *b, int *ret_fd, struct stat *ret_st)
{
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = -1;
	char quoted[256];
	int r = builder_source_path(b, &path);

	if (r < 0 || (r = builder_open_source(b, path, &fd)) < 0)
		return r;
	log_quote(path, quoted, sizeof(quoted));
	if (fstat(fd, ret_st) < 0) {
		r = -errno;
		return builder_fail(b, r, "%s: %s", quoted, strerror(-r));
	}
	if (S_ISBLK(ret_st->st_mode))
		return builder_fail(b, -ENOTSUP,
				    "%s: a block device as a local volume is not built yet",
				    quoted);
	if (!S_ISDIR(ret_st->st_mode))
		return builder_fail(b, -ENOTDIR, "%s: not a directory", quoted);
	*ret_fd = take_fd(&fd);
	return 0;
}

static bool lower_is(const struct volume_builder *b, uint64_t device, uint64_t inode)
{
	struct stat st;

	return fstatat(b->dir_fd, LOWER, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == device &&
	       st.st_ino == inode;
}

static bool local_is_set_up(struct volume_builder *b)
{
	json_t *device = json_object_get(b->metadata, KEY_DEVICE);
	json_t *inode = json_object_get(b->metadata, KEY_INODE);
	uint64_t mount_id = builder_mount_recorded(b);

	return mount_id != 0 && json_is_integer(device) && json_is_integer(inode) &&
	       b->host->is_mounted(b, b->dir_fd, LOWER, mount_id) &&
	       lower_is(b, (uint64_t)json_integer_value(device),
			(uint64_t)json_integer_value(inode));
}

static int record(struct volume_builder *b, uint64_t mount_id, const struct stat *st)
{
	if (json_object_set_new(b->metadata, KEY_DEVICE, json_integer((json_int_t)st->st_dev)) <
		    0 ||
	    json_object_set_new(b->metadata, KEY_INODE, json_integer((json_int_t)st->st_ino)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return builder_mount_record(b, mount_id);
}

static int bind_source(struct volume_builder *b)
{
	AUTO_FD int fd = -1;
	uint64_t mount_id = builder_mount_at(b, LOWER);
	struct stat st;
	int r = open_source_dir(b, &fd, &st);

	if (r < 0)
		return r;
	/* A bind that an interrupted set-up made before it could be recorded is taken over. */
	if (mount_id != 0 && lower_is(b, st.st_dev, st.st_ino))
		return record(b, mount_id, &st);
	r = builder_unmount(b, LOWER, mount_id);
	if (r < 0)
		return r;
	b->error[0] = '\0';
	r = b->host->bind(b, fd, b->dir_fd, LOWER, &mount_id);
	if (r < 0 && b->error[0] == '\0')
		builder_fail(b, r, "bind to %s/%s: %s", b->dir_path, LOWER, strerror(-r));
	return r < 0 ? r : record(b, mount_id, &st);
}

static int local_open_lower(struct volume_builder *b, int *ret_lower)
{
	return builder_open_dir(b, LOWER, ret_lower);
}

static int local_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	AUTO_FD int fd = -1;
	int r = local_is_set_up(b) ? 0 : bind_source(b);

	if (r < 0 || (r = local_open_lower(b, &fd)) < 0)
		return r;
	*ret_ownership = gid == GID_UNSET ? OWNERSHIP_DONE : OWNERSHIP_PRESENT;
	*ret_lower = take_fd(&fd);
	return 0;
}

static int local_tear_down(struct volume_builder *b)
{
	int r = builder_unmount(b, LOWER, builder_mount_at(b, LOWER));

	if (r < 0)
		return r;
	/* Never more than the empty directory that was mounted on: what is in it is not ours. */
	if (unlinkat(b->dir_fd, LOWER, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		r = -errno;
		return builder_fail(b, r, "remove %s/%s: %s", b->dir_path, LOWER, strerror(-r));
	}
	return 0;
}

const struct volume_plugin plugin_local = {
	.name = "local",
	.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,
			.manages_ownership = true,
			.shared = true },
	.check = local_check,
	.identity = local_identity,
	.set_up = local_set_up,
	.is_set_up = local_is_set_up,
	.open_lower = local_open_lower,
	.tear_down = local_tear_down,
};
