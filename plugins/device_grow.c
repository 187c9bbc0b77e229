// SPDX-License-Identifier: Apache-2.0
#include "plugins/device_grow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/device_program.h"
#include "plugins/device_ready.h"

#define GROW_MS (60 * 60 * 1000ULL)

/* xfs, as far as it is needed (source: ioctl_xfs_fsgeometry(2), ioctl_xfs_fsgrowfs(2)): no kernel header has it. */
struct xfs_geometry {
	uint32_t block_bytes, rt_extent_blocks, group_blocks, groups, log_blocks, sector_bytes,
		inode_bytes, inode_percent;
	uint64_t data_blocks, rt_blocks, rt_extents, log_start;
	uint8_t uuid[16];
	uint32_t stripe_unit, stripe_width;
	int32_t version;
	uint32_t flags, log_sector_bytes, rt_sector_bytes, dir_block_bytes;
};
struct xfs_growth {
	uint64_t data_blocks;
	uint32_t inode_percent;
};
#define XFS_GROUP_BLOCKS_MIN 64 /* (source: fs/xfs/libxfs/xfs_fs.h, XFS_MIN_AG_BLOCKS) */
#define XFS_GEOMETRY _IOR('X', 100, struct xfs_geometry)
#define XFS_GROW _IOW('X', 110, struct xfs_growth)

/* One growth on its way. */
struct growth {
	struct volume_builder *b;
	const struct device *device;
	int fd; /* of the mount's root, for reading */
	char quoted[256];
	const char *fs_type;
};

static int fail(struct growth *g, int error, const char *why)
{
	return builder_fail(g->b, error, "growing %s of %s: %s", g->fs_type, g->quoted, why);
}

/* The blocks that the file system says it has: it tells whether it has grown. */
static int count_blocks(struct growth *g, uint64_t *ret_blocks)
{
	struct statvfs st;

	if (fstatvfs(g->fd, &st) < 0)
		return fail(g, -errno, strerror(errno));
	*ret_blocks = st.f_blocks;
	return 0;
}

/* ---- the ext family ---- */

static bool may_resize_ext(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) == 0 &&
	       (data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective & CAP_TO_MASK(CAP_SYS_RESOURCE));
}

/* Its last line "resize2fs: ...": what it says to its standard output may come after that. */
static const char *resize2fs_line(const struct program_result *result, char *ret_text, size_t size)
{
	static const char word[] = "resize2fs: ";
	const char *found = NULL;
	char line[256];

	for (const char *p = result->output; (p = strstr(p, word)) != NULL; p += strlen(word)) {
		if (p == result->output || p[-1] == '\n')
			found = p + strlen(word);
	}
	if (!found)
		return program_result_line(result, ret_text, size);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(found, "\n"), found);
	return program_quote(line, ret_text, size);
}

static int grow_ext(struct growth *g, bool *ret_grown)
{
	static const char *const none[DEVICE_PROGRAM_ARGS] = { NULL };
	AUTO(program_result) *result = NULL;
	char line[256], why[PLUGIN_ERROR_MAX / 2];
	uint64_t before = 0, after = 0;
	bool is_permitted;
	int r = count_blocks(g, &before);

	if (r == 0)
		r = device_program_run(g->b, g->device, "resize2fs", none, GROW_MS, &result);
	if (r < 0)
		return r;
	if (result->exit_status != 0) {
		is_permitted = may_resize_ext();
		snprintf(why, sizeof(why), "resize2fs failed with status %d: %.120s%s",
			 result->exit_status, resize2fs_line(result, line, sizeof(line)),
			 is_permitted ? "" :
					"; it needs CAP_SYS_RESOURCE, which the daemon has not");
		return fail(g, is_permitted ? -EIO : -EPERM, why);
	}
	r = count_blocks(g, &after);
	if (r == 0)
		*ret_grown = after != before;
	return r;
}

/* ---- xfs ---- */

static int grow_xfs(struct growth *g, bool *ret_grown)
{
	struct xfs_geometry geometry = { 0 };
	struct xfs_growth growth;
	uint64_t before;

	if (ioctl(g->fd, XFS_GEOMETRY, &geometry) < 0)
		return fail(g, -errno, strerror(errno));
	if (geometry.block_bytes == 0 || geometry.group_blocks == 0)
		return fail(g, -EIO, "its blocks have no size");
	before = geometry.data_blocks;
	growth = (struct xfs_growth){
		.data_blocks = g->device->size_bytes / geometry.block_bytes,
		.inode_percent = geometry.inode_percent,
	};
	*ret_grown = false;
	/* A last group that is too small the kernel leaves out as well, and some then say EINVAL. */
	if (growth.data_blocks % geometry.group_blocks < XFS_GROUP_BLOCKS_MIN)
		growth.data_blocks -= growth.data_blocks % geometry.group_blocks;
	/* Never smaller, which newer kernels would do. */
	if (growth.data_blocks <= before)
		return 0;
	if (ioctl(g->fd, XFS_GROW, &growth) < 0)
		return fail(g, -errno, strerror(errno));
	if (ioctl(g->fd, XFS_GEOMETRY, &geometry) < 0)
		return fail(g, -errno, strerror(errno));
	*ret_grown = geometry.data_blocks != before;
	return 0;
}

/* ---- btrfs ---- */

/* What the kernel says EINVAL to (source: fs/btrfs/ioctl.c, btrfs_ioctl_resize()). */
#define BTRFS_RESIZED_MIN (256ULL << 20)

/* The one device of a btrfs; its number is not always 1. */
static int btrfs_device(struct growth *g, struct btrfs_ioctl_dev_info_args *ret_info)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };

	if (ioctl(g->fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return fail(g, -errno, strerror(errno));
	if (info.num_devices != 1)
		return fail(g, -EOPNOTSUPP, "it is on several devices");
	*ret_info = (struct btrfs_ioctl_dev_info_args){ .devid = info.max_id };
	if (ioctl(g->fd, BTRFS_IOC_DEV_INFO, ret_info) < 0)
		return fail(g, -errno, strerror(errno));
	return 0;
}

static int grow_btrfs(struct growth *g, bool *ret_grown)
{
	struct btrfs_ioctl_dev_info_args before = { 0 }, after = { 0 };
	struct btrfs_ioctl_vol_args args = { 0 };
	int r = btrfs_device(g, &before);

	if (r < 0)
		return r;
	*ret_grown = false;
	/* Where it is larger than its device the same call would make it smaller. */
	if (before.total_bytes >= g->device->size_bytes)
		return 0;
	snprintf(args.name, sizeof(args.name), "%llu:max", (unsigned long long)before.devid);
	r = ioctl(g->fd, BTRFS_IOC_RESIZE, &args);
	if (r < 0 && errno == EINVAL && g->device->size_bytes < BTRFS_RESIZED_MIN)
		return fail(g, -EINVAL, "none is resized to less than 256 MiB");
	if (r < 0)
		return fail(g, -errno, strerror(errno));
	if (r > 0) /* BTRFS_ERROR_DEV_* */
		return fail(g, -EBUSY, "it is being balanced, or its devices change");
	r = btrfs_device(g, &after);
	if (r == 0)
		*ret_grown = after.total_bytes != before.total_bytes;
	return r;
}

/* ---- the whole ---- */

static const struct {
	const char *fs_type;
	int (*grow)(struct growth *g, bool *ret_grown);
} growers[] = {
	{ "ext4", grow_ext }, { "ext3", grow_ext },    { "ext2", grow_ext },
	{ "xfs", grow_xfs },  { "btrfs", grow_btrfs },
};

/* That the device is the recorded one, and holds what is mounted: *ret_content. */
static int prove(struct growth *g, struct device_content *ret_content)
{
	AUTO_FD int fd = -1;
	int r = device_look(g->b, g->device, &fd);

	if (r == 0)
		r = device_content_read(fd, ret_content);
	if (r < 0)
		return builder_fail(g->b, r, "%s: probing it: %s", g->quoted, strerror(-r));
	if (ret_content->kind != CONTENT_FILE_SYSTEM)
		return builder_fail(g->b, -ESTALE, "%s holds %s, and no file system", g->quoted,
				    ret_content->what);
	r = device_compare(g->b, g->device, ret_content->fs_type, ret_content->uuid);
	if (r == 0 && !device_is_mounted_at(g->device, ret_content->uuid, g->fd, "."))
		r = builder_fail(g->b, -ESTALE, "what is mounted is not on %s", g->quoted);
	return r;
}

static int require_writable(struct growth *g)
{
	const char *what = g->b->read_only ? "the volume" : g->device->read_only ? "it" : NULL;
	struct statvfs st;

	if (fstatvfs(g->fd, &st) < 0)
		return fail(g, -errno, strerror(errno));
	if (!what && (st.f_flag & ST_RDONLY))
		what = "its mount";
	return what ? builder_fail(g->b, -EROFS, "%s is not grown: %s is read-only", g->quoted,
				   what) :
		      0;
}

static int grow(struct growth *g, bool *ret_grown)
{
	struct device_content content;
	size_t i = 0;
	int r = prove(g, &content);

	if (r < 0)
		return r;
	g->fs_type = content.fs_type;
	while (i < ARRAY_SIZE(growers) && strcmp(growers[i].fs_type, content.fs_type) != 0)
		i++;
	if (i == ARRAY_SIZE(growers))
		return fail(g, -EOPNOTSUPP, "this file system is not one that is grown here");
	r = require_writable(g);
	if (r == 0)
		r = growers[i].grow(g, ret_grown);
	return r < 0 ? r : device_record(g->b, g->device, content.fs_type, content.uuid);
}

int device_grow(struct volume_builder *b, int mount_fd, bool *ret_grown)
{
	AUTO(device) *device = NULL;
	AUTO_FD int fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct growth g = { .b = b, .fd = fd, .fs_type = "the file system" };
	int r;

	if (fd < 0) {
		r = -errno;
		return builder_fail(b, r, "the staged device: %s", strerror(-r));
	}
	r = device_reopen(b, &device);
	if (r == -ENODEV)
		return builder_fail(b, r, "the staged device has gone");
	if (r < 0)
		return r;
	g.device = device;
	log_quote(device->path, g.quoted, sizeof(g.quoted));
	return grow(&g, ret_grown);
}
