// SPDX-License-Identifier: Apache-2.0
#include "fs/mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* Newer than some distributions' headers; values of the kernel's uapi. */
#define MOVE_BENEATH 0x00000200
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif

int mounting_open_target(const char *path, struct mount_target *ret_target)
{
	const char *end = path + strlen(path), *name;
	char parent[4096];
	size_t len;
	int fd;

	while (end > path && end[-1] == '/')
		end--;
	name = end;
	while (name > path && name[-1] != '/')
		name--;
	len = (size_t)(end - name);
	if (len == 0 || (len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0))
		return -EINVAL;
	if (len >= sizeof(ret_target->name) || (size_t)(name - path) >= sizeof(parent))
		return -ENAMETOOLONG;
	snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
	fd = open(parent[0] ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret_target->parent_fd = fd;
	memcpy(ret_target->name, name, len);
	ret_target->name[len] = '\0';
	return 0;
}

int mounting_attributes(int fd, uint64_t *ret_attributes)
{
	struct statvfs st;
	uint64_t a = 0;

	if (fstatvfs(fd, &st) < 0)
		return -errno;
	a |= st.f_flag & ST_RDONLY ? MOUNT_ATTR_RDONLY : 0;
	a |= st.f_flag & ST_NOSUID ? MOUNT_ATTR_NOSUID : 0;
	a |= st.f_flag & ST_NODEV ? MOUNT_ATTR_NODEV : 0;
	a |= st.f_flag & ST_NOEXEC ? MOUNT_ATTR_NOEXEC : 0;
	a |= st.f_flag & ST_NODIRATIME ? MOUNT_ATTR_NODIRATIME : 0;
	a |= st.f_flag & ST_NOATIME  ? MOUNT_ATTR_NOATIME :
	     st.f_flag & ST_RELATIME ? MOUNT_ATTR_RELATIME :
				       MOUNT_ATTR_STRICTATIME;
	*ret_attributes = a;
	return 0;
}

static int stat_mount(int fd, unsigned which, struct statx *ret_stx)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, which, ret_stx) < 0)
		return -errno;
	return 0;
}

/* Whether mount @id, whose root is wanted, shows its file system's own root (proc_pid_mountinfo(5)). */
static bool shows_whole_file_system(uint64_t id)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	bool whole = false;

	while (file && getline(&line, &size, file) > 0) {
		uint64_t this_id;
		char root[3];

		if (sscanf(line, "%" SCNu64 " %*s %*s %2s", &this_id, root) == 2 && this_id == id)
			whole = strcmp(root, "/") == 0;
	}
	if (file)
		fclose(file);
	return whole;
}

uint64_t mounting_count_files(int fd)
{
	struct statvfs fs;
	struct statx stx;

	if (stat_mount(fd, STATX_MNT_ID, &stx) < 0 ||
	    !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) ||
	    !shows_whole_file_system(stx.stx_mnt_id))
		return 0;
	if (fstatvfs(fd, &fs) < 0 || fs.f_files <= fs.f_ffree)
		return 0;
	return fs.f_files - fs.f_ffree;
}

/* @change: what else is to change. */
static int change_attributes(int tree_fd, uint64_t attributes, struct mount_attr change)
{
	uint64_t now;
	int r = mounting_attributes(tree_fd, &now);

	if (r < 0)
		return r;
	/* Only what differs: in a user namespace flags may be locked, and asking for them is refused. */
	change.attr_set = attributes & ~now & ~(uint64_t)MOUNT_ATTR__ATIME;
	change.attr_clr = now & ~attributes & ~(uint64_t)MOUNT_ATTR__ATIME;
	if ((now & MOUNT_ATTR__ATIME) != (attributes & MOUNT_ATTR__ATIME)) {
		change.attr_clr |= MOUNT_ATTR__ATIME;
		change.attr_set |= attributes & MOUNT_ATTR__ATIME;
	}
	if (syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH, &change, sizeof(change)) < 0)
		return -errno;
	return 0;
}

int mounting_set_attributes(int tree_fd, uint64_t attributes)
{
	return change_attributes(tree_fd, attributes, (struct mount_attr){ 0 });
}

int mounting_clone(int fd, uint64_t attributes, int *ret_tree_fd)
{
	AUTO_FD int tree = (int)syscall(SYS_open_tree, fd, "",
					AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int r;

	if (tree < 0)
		return -errno;
	r = change_attributes(tree, attributes, (struct mount_attr){ .propagation = MS_PRIVATE });
	if (r == 0)
		*ret_tree_fd = take_fd(&tree);
	return r;
}

int mounting_clone_quiet(int fd, int *ret_fd)
{
	AUTO_FD int clone = -1;
	uint64_t attributes;
	int quiet, r = mounting_attributes(fd, &attributes);

	if (r < 0 || (attributes & MOUNT_ATTR__ATIME) == MOUNT_ATTR_NOATIME)
		return r;
	attributes = (attributes & ~(uint64_t)MOUNT_ATTR__ATIME) | MOUNT_ATTR_NOATIME;
	r = mounting_clone(fd, attributes, &clone);
	if (r < 0)
		return r;
	quiet = openat(clone, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (quiet < 0)
		return -errno;
	*ret_fd = quiet;
	return 0;
}

static int describe(int fd, struct overlay_mount *ret_mount)
{
	struct statx stx;
	int r = stat_mount(fd, MOUNTING_UNIQUE_ID, &stx);

	if (r < 0)
		return r;
	ret_mount->id = stx.stx_mnt_id;
	ret_mount->dev_major = stx.stx_dev_major;
	ret_mount->dev_minor = stx.stx_dev_minor;
	r = stat_mount(fd, STATX_MNT_ID, &stx);
	if (r < 0)
		return r;
	ret_mount->short_id = stx.stx_mnt_id;
	return 0;
}

static int config_string(int fs_fd, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_STRING, key, value, 0);
}

int mounting_make_overlay(int device_fd, const char *source, const char *context,
			  uint64_t attributes, int *ret_mount_fd)
{
	AUTO_FD int fs_fd = (int)syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC);
	char device[16], uid[16], gid[16];
	int mount_fd;

	if (fs_fd < 0)
		return -errno;
	snprintf(device, sizeof(device), "%d", device_fd);
	snprintf(uid, sizeof(uid), "%u", getuid());
	snprintf(gid, sizeof(gid), "%u", getgid());
	if ((*context && config_string(fs_fd, "context", context) < 0) ||
	    config_string(fs_fd, "source", source) < 0 ||
	    config_string(fs_fd, "subtype", "fsgroupfs") < 0 ||
	    config_string(fs_fd, "fd", device) < 0 ||
	    config_string(fs_fd, "rootmode", "40000") < 0 ||
	    config_string(fs_fd, "user_id", uid) < 0 || config_string(fs_fd, "group_id", gid) < 0 ||
	    syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FLAG, "default_permissions", NULL, 0) < 0 ||
	    syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FLAG, "allow_other", NULL, 0) < 0 ||
	    syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mount_fd = (int)syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attributes);
	if (mount_fd < 0)
		return -errno;
	*ret_mount_fd = mount_fd;
	return 0;
}

int mounting_take_root(int overlay_fd, int *ret_mount_fd)
{
	int fd = (int)syscall(SYS_open_tree, overlay_fd, MOUNTING_ROOT_NAME,
			      AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_mount_fd = fd;
	return 0;
}

static int open_target(const struct mount_target *target, int *ret_fd)
{
	int fd = openat(target->parent_fd, target->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int mounting_attach(int mount_fd, const struct mount_target *target,
		    struct overlay_mount *ret_mount)
{
	AUTO_FD int target_fd = -1;
	int r = open_target(target, &target_fd);

	if (r == 0)
		r = describe(mount_fd, ret_mount);
	if (r == 0 && syscall(SYS_move_mount, mount_fd, "", target_fd, "",
			      MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		r = -errno;
	return r;
}

/* An O_PATH descriptor of the mount's root, when it is what one sees at the target. -ENOENT: it is not. */
static int open_on_top(const struct mount_target *target, uint64_t id, int *ret_fd)
{
	AUTO_FD int fd = -1;
	struct statx stx;
	int r = open_target(target, &fd);

	if (r == 0)
		r = stat_mount(fd, MOUNTING_UNIQUE_ID, &stx);
	if (r < 0)
		return r;
	if (stx.stx_mnt_id != id)
		return -ENOENT;
	*ret_fd = take_fd(&fd);
	return 0;
}

int mounting_is_on_top(const struct mount_target *target, uint64_t id)
{
	AUTO_FD int fd = -1;

	return open_on_top(target, id, &fd);
}

static int unmount_fd(int fd, int flags)
{
	char path[64];

	/* Through the descriptor: no name in between that could be changed. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return umount2(path, flags) < 0 ? -errno : 0;
}

int mounting_move_beneath(int tree_fd, int top_fd, uint64_t *ret_id)
{
	struct overlay_mount tree;
	int r = describe(tree_fd, &tree);

	if (r < 0)
		return r;
	if (syscall(SYS_move_mount, tree_fd, "", top_fd, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | MOVE_BENEATH) < 0)
		return -errno;
	*ret_id = tree.id;
	return 0;
}

int mounting_swap(const struct mount_target *target, const struct overlay_mount *overlay,
		  int tree_fd, uint64_t *ret_id)
{
	AUTO_FD int top = -1;
	uint64_t id = 0;
	int r = open_on_top(target, overlay->id, &top);

	if (r == 0)
		r = mounting_move_beneath(tree_fd, top, &id);
	if (r == 0)
		r = unmount_fd(top, MNT_DETACH);
	if (r == 0)
		*ret_id = id;
	return r;
}

int mounting_detach(const struct mount_target *target, uint64_t id, bool lazy)
{
	AUTO_FD int top = -1;
	int r = open_on_top(target, id, &top);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	/* Our own descriptor would make it busy; detaching by path would not be sure to hit it. */
	if (lazy)
		return unmount_fd(top, MNT_DETACH);
	if (fchdir(target->parent_fd) < 0)
		return -errno;
	cleanup_fd(&top);
	r = umount2(target->name, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
	if (chdir("/") < 0)
		return -errno;
	return r;
}
