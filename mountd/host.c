// SPDX-License-Identifier: Apache-2.0
#include "mountd/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/ownership/own_tree.h"
#include "mountd/apart.h"
#include "mountd/device_host.h"
#include "mountd/holders.h"
#include "mountd/manager.h"
#include "mountd/mount.h"
#include "mountd/steps.h"
#include "mountd/wrapped.h"

int host_fail(struct volume_builder *b, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->error, sizeof(b->error), format, args);
	va_end(args);
	return error;
}

static int open_beneath(const char *prefix, const char *rest, int *ret_fd)
{
	/* A prefix may also be the one thing that is allowed, such as a device. */
	AUTO_FD int prefix_fd = -1;
	int r = apart_open(AT_FDCWD, prefix, O_PATH | (*rest ? O_DIRECTORY : 0), 0, &prefix_fd);

	if (r < 0)
		return r;
	if (!*rest) {
		*ret_fd = take_fd(&prefix_fd);
		return 0;
	}
	return apart_open(prefix_fd, rest, O_PATH,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, ret_fd);
}

static int host_open_source(struct volume_builder *b, const char *path, int *ret_fd)
{
	const struct front_rules *front = building_of(b)->front;
	const char *prefix, *rest;
	char quoted[256];
	int r;

	log_quote(path, quoted, sizeof(quoted));
	if (path[0] != '/')
		return host_fail(b, -EINVAL, "source %s: not an absolute path", quoted);
	if (!front)
		return host_fail(b, -EACCES, "source %s: not to be opened now", quoted);
	if (!front->sources) {
		r = apart_open(AT_FDCWD, path, O_PATH, 0, ret_fd);
		return r < 0 ? host_fail(b, r, "source %s: %s", quoted, strerror(-r)) : 0;
	}
	prefix = rules_source_prefix(front, path, &rest);
	if (!prefix)
		return host_fail(b, -EACCES,
				 "source %s: beneath no prefix that mountd.conf allows (sources)",
				 quoted);
	r = open_beneath(prefix, rest, ret_fd);
	if (r < 0)
		return host_fail(b, r, "source %s: %s", quoted,
				 r == -ELOOP ? "a symbolic link is not followed here" :
					       strerror(-r));
	return 0;
}

static int make_place(struct volume_builder *b, int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) {
		int r = -errno;

		return host_fail(b, r, "%s/%s: %s", b->dir_path, name, strerror(-r));
	}
	return 0;
}

/* The id is known before the mount can be seen, so a crash leaves nothing that has no name. */
static int attach(struct volume_builder *b, int tree_fd, int dir_fd, const char *name)
{
	struct mount_attr private = { .propagation = MS_PRIVATE };
	int r = make_place(b, dir_fd, name);

	if (r < 0)
		return r;
	r = mount_attach(tree_fd, dir_fd, name);
	if (r < 0)
		return host_fail(b, r, "mounting at %s/%s: %s", b->dir_path, name, strerror(-r));
	/* Attaching below a shared mount has made it shared. */
	if (mount_setattr(tree_fd, "", AT_EMPTY_PATH, &private, sizeof(private)) < 0)
		log_line(LOG_WARNING, "bind", "ignoring that %s/%s stays shared: %s", b->dir_path,
			 name, strerror(errno));
	step_reached(building_of(b)->manager, STEP_PLUGIN_BOUND);
	return 0;
}

static int host_bind(struct volume_builder *b, int source_fd, int dir_fd, const char *name,
		     uint64_t *ret_mount_id)
{
	AUTO_FD int tree = -1;
	uint64_t id = 0;
	int r = mount_clone(source_fd, NULL, &tree, &id);

	if (r < 0)
		return host_fail(b, r, "cloning the source's mount: %s", strerror(-r));
	r = attach(b, tree, dir_fd, name);
	if (r == 0)
		*ret_mount_id = id;
	return r;
}

static int host_mount_tmpfs(struct volume_builder *b, int dir_fd, const char *name,
			    uint64_t size_bytes, mode_t mode, uint64_t *ret_mount_id)
{
	AUTO_FD int tree = -1;
	uint64_t id = 0;
	int r = mount_new_tmpfs(size_bytes, mode, &tree, &id);

	if (r < 0)
		return host_fail(b, r, "making a tmpfs: %s", strerror(-r));
	r = attach(b, tree, dir_fd, name);
	if (r == 0)
		*ret_mount_id = id;
	return r;
}

static bool host_is_mounted(struct volume_builder *b, int dir_fd, const char *name,
			    uint64_t mount_id)
{
	struct mount_view view;

	(void)b;
	return mount_id != 0 && mount_look(dir_fd, name, &view) == 0 && view.is_root &&
	       view.id == mount_id;
}

static int host_unmount(struct volume_builder *b, int dir_fd, const char *name, uint64_t mount_id)
{
	struct mount_view view;
	char holders[256];
	int r = mount_look(dir_fd, name, &view);

	if (r == -ENOENT || (r == 0 && !view.is_root))
		return 0;
	if (r < 0)
		return host_fail(b, r, "%s/%s: %s", b->dir_path, name, strerror(-r));
	if (view.id != mount_id)
		return host_fail(b, -EBUSY, "%s/%s: something that is not ours is mounted there",
				 b->dir_path, name);
	r = mount_detach(dir_fd, name, false, MOUNT_DEVICE_MS);
	if (r == -EBUSY)
		return host_fail(b, r, "%s/%s is busy: %s", b->dir_path, name,
				 holders_describe(view.id, 0, holders, sizeof(holders)));
	if (r < 0)
		return host_fail(b, r, "unmounting %s/%s: %s", b->dir_path, name, strerror(-r));
	return 0;
}

static const char *host_boot_id(const struct volume_builder *b)
{
	return ((const struct building *)b)->boot_id;
}

static int host_mount_fs(struct volume_builder *b, const char *source, const char *type,
			 const char *options, int dir_fd, const char *name, uint64_t *ret_mount_id)
{
	AUTO_FD int tree = -1;
	char why[256], quoted[256], quoted_type[32];
	uint64_t id = 0;
	int r = 0;

	if (mount_needs_helper(type)) {
		r = make_place(b, dir_fd, name);
		if (r < 0)
			return r;
		r = mount_by_helper(source, type, options, dir_fd, name, &id, why, sizeof(why));
	} else {
		r = mount_new_fs(source, type, options, &tree, &id, why, sizeof(why));
	}
	if (r < 0)
		return host_fail(b, r, "mounting %s as %s: %s",
				 log_quote(source, quoted, sizeof(quoted)),
				 log_quote(type, quoted_type, sizeof(quoted_type)), why);
	if (tree >= 0)
		r = attach(b, tree, dir_fd, name);
	if (r == 0)
		*ret_mount_id = id;
	return r;
}

static int host_own_tree(struct volume_builder *b, int dir_fd, gid_t gid, bool read_only)
{
	const struct ownership_rule rule = {
		.gid = gid,
		.read_only = read_only,
		.keep_private = b->keep_private,
	};
	char where[PLUGIN_ERROR_MAX - 64];
	int r = own_tree(dir_fd, &rule, where, sizeof(where));

	return r < 0 ? host_fail(b, r, "changing ownership: %s", where) : 0;
}

static const struct plugin_settings *host_settings(const struct volume_builder *b)
{
	const struct front_rules *front = ((const struct building *)b)->front;

	return front && front->settings ? front->settings : &rules_default_settings;
}

static const char *host_root(const struct volume_builder *b)
{
	return ((const struct building *)b)->root;
}

static bool host_is_root_at_shell(const struct volume_builder *b)
{
	const struct front_rules *front = ((const struct building *)b)->front;

	return front && front->is_root_at_shell;
}

void host_trace(const struct volume_builder *b, const struct traced_call *call)
{
	log_line(LOG_DEBUG, "plugin", "%s", call->line);
	manager_meter_call(((const struct building *)b)->manager, call);
}

const struct host host_table = {
	.settings = host_settings,
	.root = host_root,
	.is_root_at_shell = host_is_root_at_shell,
	.open_source = host_open_source,
	.bind = host_bind,
	.mount_tmpfs = host_mount_tmpfs,
	.is_mounted = host_is_mounted,
	.unmount = host_unmount,
	.boot_id = host_boot_id,
	.set_up = wrapped_set_up,
	.open_lower = wrapped_open_lower,
	.certify = wrapped_certify,
	.tear_down = wrapped_tear_down,
	.own_tree = host_own_tree,
	.mount_fs = host_mount_fs,
	.record = device_host_record,
	.open_staged = device_host_open_staged,
	.device_holders = device_host_holders,
};
