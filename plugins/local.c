// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/device_ready.h"
#include "plugins/lower.h"

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

/* A file system on a device is mounted, never made; another volume may have it mounted already. */
static int mount_source(struct volume_builder *b, int fd, const char *path)
{
	const char *fs_type = NULL;
	AUTO(device) *device = NULL;
	struct device_content content;
	uint64_t mount_id = 0;
	int r = builder_source_text(b, "fsType", &fs_type);
	struct device_request request = {
		.path = path,
		.fs_type = r == 0 && fs_type[0] ? fs_type : NULL,
		.options = b->mount_options,
	};

	if (r == 0)
		r = lower_unmount(b);
	if (r == 0)
		r = device_pin(b, fd, path, 0, &device);
	if (r == 0)
		r = device_ready(b, device, &request, true, &content);
	if (r == 0)
		r = device_mount(b, device, &content, request.options, b->dir_fd, LOWER_NAME,
				 &mount_id);
	return r < 0 ? r : lower_record(b, mount_id);
}

static int attach_source(struct volume_builder *b)
{
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = -1;
	char quoted[256];
	struct stat st;
	int r = builder_source_path(b, &path);

	if (r < 0 || (r = builder_open_source(b, path, &fd)) < 0)
		return r;
	log_quote(path, quoted, sizeof(quoted));
	if (fstat(fd, &st) < 0) {
		r = -errno;
		return builder_fail(b, r, "%s: %s", quoted, strerror(-r));
	}
	if (S_ISBLK(st.st_mode))
		return mount_source(b, fd, path);
	if (!S_ISDIR(st.st_mode))
		return builder_fail(b, -ENOTDIR, "%s: neither a directory nor a block device",
				    quoted);
	return lower_bind(b, fd, &st);
}

static int local_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	int r = lower_is_set_up(b) ? 0 : attach_source(b);

	return r < 0 ? r : lower_set_up(b, gid, ret_lower, ret_ownership);
}

const struct volume_plugin plugin_local = {
	.name = "local",
	.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,
			.manages_ownership = true,
			.shared = true },
	.check = local_check,
	.identity = local_identity,
	.set_up = local_set_up,
	.is_set_up = lower_is_set_up,
	.open_lower = lower_open,
	.tear_down = lower_tear_down,
};
