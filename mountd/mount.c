// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x00001000U
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

/* libmount's border: it returns -errno, or codes of its own from MNT_ERR_NOFSTAB on. */
static int mount_errno(int code)
{
	if (code >= 0)
		return code;
	return code <= -MNT_ERR_NOFSTAB ? -EIO : code;
}

int mount_look(int dir_fd, const char *name, struct mount_view *ret_view)
{
	struct statx stx;
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

	if (name[0] == '\0')
		flags |= AT_EMPTY_PATH;
	if (statx(dir_fd, name, flags, STATX_TYPE | STATX_MNT_ID | STATX_MNT_ID_UNIQUE, &stx) < 0)
		return -errno;
	*ret_view = (struct mount_view){
		.id = stx.stx_mnt_id,
		.is_root = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0,
		.mode = stx.stx_mode,
		.dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
	};
	return 0;
}

static int id_of(int fd, uint64_t *ret_id)
{
	struct mount_view view;
	int r = mount_look(fd, "", &view);

	if (r == 0)
		*ret_id = view.id;
	return r;
}

int mount_clone(int fd, uint64_t attr_set, int *ret_tree_fd, uint64_t *ret_id)
{
	/* Private: what is mounted below the clone later must not appear in the original. */
	struct mount_attr attr = { .attr_set = attr_set, .propagation = MS_PRIVATE };
	AUTO_FD int tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	int r;

	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	r = id_of(tree, ret_id);
	if (r == 0)
		*ret_tree_fd = take_fd(&tree);
	return r;
}

int mount_new_tmpfs(uint64_t size_bytes, mode_t mode, int *ret_tree_fd, uint64_t *ret_id)
{
	AUTO_FD int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	AUTO_FD int tree = -1;
	char text[32];
	int r;

	if (fs < 0)
		return -errno;
	snprintf(text, sizeof(text), "%o", (unsigned)mode & 07777);
	if (fsconfig(fs, FSCONFIG_SET_STRING, "mode", text, 0) < 0)
		return -errno;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)size_bytes);
	if (size_bytes > 0 && fsconfig(fs, FSCONFIG_SET_STRING, "size", text, 0) < 0)
		return -errno;
	/* Linux 6.4; refused in user namespaces. What is in memory only should stay there, where it can. */
	(void)fsconfig(fs, FSCONFIG_SET_FLAG, "noswap", NULL, 0);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	tree = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (tree < 0)
		return -errno;
	r = id_of(tree, ret_id);
	if (r == 0)
		*ret_tree_fd = take_fd(&tree);
	return r;
}

int mount_attach(int tree_fd, int dir_fd, const char *name)
{
	if (move_mount(tree_fd, "", dir_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int mount_detach(int dir_fd, const char *name, bool lazy)
{
	char path[64 + NAME_MAX];
	int n = snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0)
		return -errno;
	return 0;
}

/* The kernel's table as it is now. No cache is set: libmount must not canonicalise, which stats. */
static int table_read(struct libmnt_table **ret_table)
{
	struct libmnt_table *table = mnt_new_table();
	int r;

	if (!table)
		return -ENOMEM;
	r = mount_errno(mnt_table_parse_file(table, "/proc/self/mountinfo"));
	if (r < 0) {
		mnt_unref_table(table);
		return r;
	}
	*ret_table = table;
	return 0;
}

/* The last mount in the table for which @matches(target, path). */
static struct libmnt_fs *table_find(struct libmnt_table *table, const char *path,
				    bool (*matches)(const char *target, const char *path))
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_BACKWARD);
	struct libmnt_fs *fs = NULL, *found = NULL;

	while (iter && !found && mnt_table_next_fs(table, iter, &fs) == 0) {
		const char *target = mnt_fs_get_target(fs);

		if (target && matches(target, path))
			found = fs;
	}
	mnt_free_iter(iter);
	return found;
}

static bool is_at(const char *target, const char *path)
{
	return strcmp(target, path) == 0;
}

static bool is_below(const char *target, const char *path)
{
	size_t len = strlen(path);

	return strncmp(target, path, len) == 0 && target[len] == '/';
}

int mount_describe(const char *path, char *ret_text, size_t size)
{
	struct libmnt_table *table = NULL;
	struct libmnt_fs *fs;
	int r = table_read(&table);

	if (r < 0)
		return r;
	fs = table_find(table, path, is_at);
	if (fs) {
		const char *type = mnt_fs_get_fstype(fs), *source = mnt_fs_get_source(fs);
		char a[64], b[256];

		snprintf(ret_text, size, "%s from %s", log_quote(type ? type : "?", a, sizeof(a)),
			 log_quote(source ? source : "none", b, sizeof(b)));
	}
	mnt_unref_table(table);
	return fs ? 0 : -ENOENT;
}

bool mount_is_overlay(const char *path, const char *type, const char *source)
{
	struct libmnt_table *table = NULL;
	const char *found_type, *found_source;
	struct libmnt_fs *fs;
	bool is_it = false;

	if (table_read(&table) < 0)
		return false;
	fs = table_find(table, path, is_at);
	if (fs) {
		found_type = mnt_fs_get_fstype(fs);
		found_source = mnt_fs_get_source(fs);
		is_it = found_type && found_source && strcmp(found_type, type) == 0 &&
			strcmp(found_source, source) == 0;
	}
	mnt_unref_table(table);
	return is_it;
}

int mount_below(const char *path, char **ret_path)
{
	struct libmnt_table *table = NULL;
	struct libmnt_fs *fs;
	int r = table_read(&table);

	if (r < 0)
		return r;
	fs = table_find(table, path, is_below);
	r = -ENOENT;
	if (fs) {
		*ret_path = strdup(mnt_fs_get_target(fs));
		r = *ret_path ? 0 : -ENOMEM;
	}
	mnt_unref_table(table);
	return r;
}
