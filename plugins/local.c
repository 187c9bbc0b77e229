// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
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

static int bind_source(struct volume_builder *b)
{
	AUTO_FD int fd = -1;
	struct stat st;
	int r = open_source_dir(b, &fd, &st);

	return r < 0 ? r : lower_bind(b, fd, &st);
}

static int local_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	int r = lower_is_set_up(b) ? 0 : bind_source(b);

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
