// SPDX-License-Identifier: Apache-2.0
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <sys/vfs.h>

#include "fs/base/cleanup.h"

struct handle_buffer {
	struct file_handle head;
	unsigned char bytes[NODE_HANDLE_MAX];
};

/* Of a file without a handle: its inode number alone may be another's, once it has been removed. */
struct identity {
	uint64_t dev, ino;
	int64_t born_sec, born_nsec; /* 0: not known */
};

_Static_assert(sizeof(struct identity) <= NODE_HANDLE_MAX, "it takes a handle's place");

static int make_handle(int fd, struct handle_buffer *ret_handle)
{
	int mount_id;

	ret_handle->head.handle_bytes = NODE_HANDLE_MAX;
	if (name_to_handle_at(fd, "", &ret_handle->head, &mount_id, AT_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

/* Handles must not only be made but also opened: in a user namespace the second is refused. */
static bool probe_handles(const struct tree *t)
{
	struct handle_buffer handle;
	AUTO_FD int fd = -1;

	if (make_handle(t->root_fd, &handle) < 0)
		return false;
	fd = open_by_handle_at(t->mount_fd, &handle.head, O_PATH | O_CLOEXEC);
	return fd >= 0;
}

/* listxattrat(2), since Linux 6.13; the same number on every architecture. */
static long list_xattrs_at(int dir_fd, const char *name)
{
	static const long listxattrat = 465;

	return syscall(listxattrat, dir_fd, name, AT_SYMLINK_NOFOLLOW, NULL, (size_t)0);
}

static bool is_of_this_machine(__fsword_t type)
{
	return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC ||
	       type == TMPFS_MAGIC;
}

/*
 * These file systems got FS_MGTIME in the version that got listxattrat(2): no name is changed there
 * after a look at its directory's ctime without changing that.
 */
static bool has_fine_times(int dir_fd, __fsword_t type)
{
	return is_of_this_machine(type) && list_xattrs_at(dir_fd, ".") >= 0;
}

int tree_init(int root_fd, struct tree *ret_tree)
{
	struct tree t = { .root_fd = root_fd, .mount_fd = -1, .quiet_fd = -1 };
	struct timespec btime;
	struct statfs fs;
	char path[TREE_FD_PATH_MAX];

	t.mount_fd = open(tree_fd_path(root_fd, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t.mount_fd < 0) {
		int r = -errno;

		tree_fini(&t);
		return r;
	}
	t.has_handles = probe_handles(&t);
	if (fstatfs(t.mount_fd, &fs) == 0) {
		t.lists_trusted = fs.f_type == BTRFS_SUPER_MAGIC;
		t.is_tmpfs = fs.f_type == TMPFS_MAGIC;
		/* simple_set_acl() and ovl_set_or_remove_acl(); others look at it only when one is set. */
		t.acl_removal_takes_sgid = t.is_tmpfs || fs.f_type == OVERLAYFS_SUPER_MAGIC;
		t.has_fine_times = has_fine_times(t.mount_fd, fs.f_type);
		t.is_xfs = fs.f_type == XFS_SUPER_MAGIC;
		t.is_local = is_of_this_machine(fs.f_type);
	}
	t.has_btime = tree_btime(root_fd, &btime) == 0;
	*ret_tree = t;
	return 0;
}

void tree_fini(struct tree *t)
{
	cleanup_fd(&t->root_fd);
	cleanup_fd(&t->mount_fd);
	cleanup_fd(&t->quiet_fd);
}

bool tree_name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > TREE_NAME_MAX || strchr(name, '/'))
		return false;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int tree_name_check(const char *name)
{
	if (tree_name_is_valid(name))
		return 0;
	return strlen(name) > TREE_NAME_MAX ? -ENAMETOOLONG : -EINVAL;
}

const char *tree_fd_path(int fd, char ret_path[TREE_FD_PATH_MAX])
{
	snprintf(ret_path, TREE_FD_PATH_MAX, TREE_FD_DIR "/%d", fd);
	return ret_path;
}

int tree_pin(int dir_fd, const char *name, int *ret_fd, struct stat *ret_st)
{
	AUTO_FD int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = ret_st ? tree_stat(fd, ret_st) : 0;
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int tree_stat(int fd, struct stat *ret_st)
{
	if (fstatat(fd, "", ret_st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int tree_stat_entry(int dir_fd, const char *name, struct stat *ret_st)
{
	return fstatat(dir_fd, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

bool tree_has_no_xattr(int fd)
{
	char path[TREE_FD_PATH_MAX];
	ssize_t len = listxattr(tree_fd_path(fd, path), NULL, 0);

	return len == 0 || (len < 0 && errno == EOPNOTSUPP);
}

bool tree_entry_has_no_xattr(int dir_fd, const char *name)
{
	return list_xattrs_at(dir_fd, name) == 0;
}

int tree_btime(int fd, struct timespec *ret_btime)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BTIME, &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_BTIME) ||
	    (stx.stx_btime.tv_sec == 0 && stx.stx_btime.tv_nsec == 0))
		return -ENODATA;
	ret_btime->tv_sec = stx.stx_btime.tv_sec;
	ret_btime->tv_nsec = stx.stx_btime.tv_nsec;
	return 0;
}

bool tree_is_immutable(int fd)
{
	struct statx stx;

	return statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, 0, &stx) == 0 &&
	       stx.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND);
}

int tree_key_get(const struct tree *t, int fd, const struct stat *st, struct tree_key *ret_key)
{
	struct identity identity = { .dev = st->st_dev, .ino = st->st_ino };
	struct handle_buffer handle;
	struct timespec born;

	memset(ret_key, 0, sizeof(*ret_key));
	if (t->has_handles && make_handle(fd, &handle) == 0) {
		ret_key->is_handle = true;
		ret_key->type = handle.head.handle_type;
		ret_key->len = handle.head.handle_bytes;
		memcpy(ret_key->bytes, handle.head.f_handle, ret_key->len);
		return 0;
	}
	if (t->has_btime && tree_btime(fd, &born) == 0) {
		identity.born_sec = born.tv_sec;
		identity.born_nsec = born.tv_nsec;
	}
	ret_key->len = sizeof(identity);
	memcpy(ret_key->bytes, &identity, sizeof(identity));
	return 0;
}

/*
 * Where a file is gone and its inode number is just being given to a new one (I_CREATING), the kernel's iget_locked() says
 * nothing, and ext4 takes that for a lack of memory. When the new one is made the handle is stale. Nothing tells when that
 * is: mostly at once, and while others make and remove files all the time often.
 */
static int open_by_handle(int mount_fd, struct file_handle *handle, int flags)
{
	enum { TRIES = 1000, REST_NS = 50000 };
	const struct timespec rest = { .tv_nsec = REST_NS };
	int fd = open_by_handle_at(mount_fd, handle, flags);

	for (int i = 0; fd < 0 && errno == ENOMEM && i < TRIES; i++) {
		nanosleep(&rest, NULL);
		fd = open_by_handle_at(mount_fd, handle, flags);
	}
	return fd;
}

static int open_handle(int mount_fd, const struct tree_key *key, int flags, int *ret_fd)
{
	struct handle_buffer handle = { .head = { .handle_bytes = key->len,
						  .handle_type = key->type } };
	int fd;

	if (!key->is_handle || key->len > NODE_HANDLE_MAX)
		return -ESTALE;
	memcpy(handle.head.f_handle, key->bytes, key->len);
	fd = open_by_handle(mount_fd, &handle.head, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int tree_open_handle(const struct tree *t, const struct tree_key *key, int *ret_fd)
{
	return open_handle(t->mount_fd, key, O_PATH, ret_fd);
}

int tree_open_dir_handle(const struct tree *t, const struct tree_key *key, int *ret_fd)
{
	AUTO_FD int quiet = -1;

	/* As long as this holds it the name is known. */
	if (t->quiet_fd >= 0)
		(void)open_handle(t->quiet_fd, key, O_PATH, &quiet);
	return tree_open_handle(t, key, ret_fd);
}

int tree_open_file_handle(const struct tree *t, const struct tree_key *key, int flags, int *ret_fd)
{
	return open_handle(t->mount_fd, key, flags & ~(O_CREAT | O_EXCL), ret_fd);
}

int tree_reopen(int fd, mode_t type, int flags, int *ret_fd)
{
	char path[TREE_FD_PATH_MAX];
	int opened;

	if (!S_ISREG(type) && !S_ISDIR(type))
		return -ENXIO;
	opened = open(tree_fd_path(fd, path),
		      (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC);
	if (opened < 0)
		return -errno;
	*ret_fd = opened;
	return 0;
}

/* A lease for reading is given only where there is no writer (fcntl(2)). */
static int try_lease(int file)
{
	if (fcntl(file, F_SETLEASE, F_RDLCK) < 0 || fcntl(file, F_SETLEASE, F_UNLCK) < 0)
		return -errno;
	return 0;
}

bool tree_has_no_writer(int fd)
{
	AUTO_FD int file = -1;
	int r = try_lease(fd);

	if (r == -EBADF && tree_reopen(fd, S_IFREG, O_RDONLY, &file) == 0)
		r = try_lease(file);
	return r == 0;
}

int tree_seek(int fd, off64_t next)
{
	struct stat st;
	int r;

	if (lseek(fd, next, SEEK_SET) >= 0)
		return 0;
	r = -errno;
	/* ext4 calls the cookies of a directory invalid once it has been removed. */
	return tree_stat(fd, &st) == 0 && st.st_nlink == 0 ? -ENOENT : r;
}

ssize_t tree_read_entries(int fd, void *ret_entries, size_t size)
{
	long n = syscall(SYS_getdents64, fd, ret_entries, size);

	return n < 0 ? -errno : n;
}

int tree_probe_clock(const struct tree *t, struct timespec *ret_now)
{
	char path[TREE_FD_PATH_MAX];
	AUTO_FD int fd =
		open(tree_fd_path(t->root_fd, path), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	return tree_btime(fd, ret_now);
}
