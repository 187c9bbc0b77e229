// SPDX-License-Identifier: Apache-2.0
#include "mountd/tree_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

#define HANDLE_BYTES_MAX 128

/* FS_IOC_GETFSUUID, Linux 6.9 (source: include/uapi/linux/fs.h). */
struct fs_uuid {
	uint8_t len;
	uint8_t uuid[16];
};
#define IOC_GET_FS_UUID _IOR(0x15, 0, struct fs_uuid)

/*
 * Older kernels give statfs.f_fsid: the UUID folded (ext4, btrfs), or the device number (xfs), which
 * is only as good as the device's name. The root's handle with its generation stands beside it.
 */
static int fs_name(int root_fd, const char *boot_id, char *ret_text, size_t size)
{
	AUTO_FD int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fs_uuid uuid = { 0 };
	struct statfs sfs;
	struct stat st;
	char hex[2 * sizeof(uuid.uuid) + 1];

	if (fd < 0)
		return -errno;
	/* Images are made with no UUID too: it is then all zero, and names nothing. */
	if (ioctl(fd, IOC_GET_FS_UUID, &uuid) == 0 && uuid.len == sizeof(uuid.uuid) &&
	    memcmp(uuid.uuid, (uint8_t[16]){ 0 }, sizeof(uuid.uuid)) != 0) {
		format_hex(uuid.uuid, sizeof(uuid.uuid), hex);
		snprintf(ret_text, size, "%s", hex);
		return 0;
	}
	if (fstatfs(fd, &sfs) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (sfs.f_fsid.__val[0] || sfs.f_fsid.__val[1])
		snprintf(ret_text, size, "%08x%08x%08x", (unsigned)sfs.f_type,
			 (unsigned)sfs.f_fsid.__val[0], (unsigned)sfs.f_fsid.__val[1]);
	else
		snprintf(ret_text, size, "%08x%llx-%s", (unsigned)sfs.f_type,
			 (unsigned long long)st.st_dev, boot_id);
	return 0;
}

/* File systems without handles are known by inode number. */
static int root_name(int root_fd, char *ret_text)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + HANDLE_BYTES_MAX];
	} u;
	struct stat st;
	int mount_id;

	u.handle.handle_bytes = HANDLE_BYTES_MAX;
	if (name_to_handle_at(root_fd, "", &u.handle, &mount_id, AT_EMPTY_PATH) == 0) {
		ret_text += sprintf(ret_text, "%x.", (unsigned)u.handle.handle_type);
		format_hex(u.handle.f_handle, u.handle.handle_bytes, ret_text);
		return 0;
	}
	if (errno != EOPNOTSUPP)
		return -errno;
	if (fstatat(root_fd, "", &st, AT_EMPTY_PATH) < 0)
		return -errno;
	sprintf(ret_text, "ino.%llx", (unsigned long long)st.st_ino);
	return 0;
}

int tree_identity(int root_fd, const char *boot_id, char **ret_text)
{
	char fs[128], root[2 * HANDLE_BYTES_MAX + 16];
	char *text = NULL;
	int r = fs_name(root_fd, boot_id, fs, sizeof(fs));

	if (r == 0)
		r = root_name(root_fd, root);
	if (r < 0)
		return r;
	if (asprintf(&text, "%s:%s", fs, root) < 0)
		return -ENOMEM;
	*ret_text = text;
	return 0;
}
