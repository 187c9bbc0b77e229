// SPDX-License-Identifier: Apache-2.0
#include "fs/ownership/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/xattr.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel refuses capabilities longer than this (XATTR_CAPS_SZ_3 is 24 bytes). */
enum { CAPABILITY_MAX = 64 };

/* An O_PATH descriptor, and the directory that leads to what it is open on: for calls that take no such. */
struct entry {
	int fd;
	const char *fd_dir;
};

typedef char entry_path_buffer[64];

/* Made only where it is needed: most entries need none. */
static const char *entry_path(const struct entry *e, entry_path_buffer ret_path)
{
	snprintf(ret_path, sizeof(entry_path_buffer), "%s/%d", e->fd_dir, e->fd);
	return ret_path;
}

static bool is_unchanged(const struct stat *before, const struct stat *after)
{
	return before->st_size == after->st_size &&
	       before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
	       before->st_mtim.tv_nsec == after->st_mtim.tv_nsec;
}

/*
 * The mode to write: what is shown, without the set-ID bits that the change of group took away when
 * the file was written to meanwhile.
 */
static mode_t mode_to_restore(const struct stat *before, const struct stat *after, mode_t shown)
{
	if (S_ISREG(before->st_mode) && !is_unchanged(before, after))
		shown &= ~(mode_t)(S_ISUID | S_ISGID) | (after->st_mode & (S_ISUID | S_ISGID));
	return shown;
}

static int change_mode(const struct entry *e, mode_t mode)
{
	static const long fchmodat2 = 452; /* on every architecture */
	entry_path_buffer path;

	if (syscall(fchmodat2, e->fd, "", mode, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	return chmod(entry_path(e, path), mode) < 0 ? -errno : 0;
}

int apply_mode(int fd, const char *fd_dir, mode_t mode)
{
	return change_mode(&(struct entry){ fd, fd_dir }, mode);
}

/*
 * After set-ID bits were put back: somebody may have written between the look before and that, when
 * there were no bits that his write could have taken. Who writes later takes them himself.
 */
static int recheck_set_ids(const struct entry *e, const struct stat *before, mode_t mode)
{
	const mode_t set_ids = S_ISUID | S_ISGID;
	struct stat now;

	if (!S_ISREG(before->st_mode) || !(mode & set_ids))
		return 0;
	if (fstatat(e->fd, "", &now, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (is_unchanged(before, &now))
		return 0;
	return change_mode(e, now.st_mode & 07777 & ~set_ids);
}

/* A write takes the capability as it takes set-ID bits. */
static int restore_capability(const struct entry *e, const struct stat *before,
			      const char *capability, size_t len)
{
	entry_path_buffer path;
	struct stat now;

	if (setxattr(entry_path(e, path), XATTR_NAME_CAPS, capability, len, 0) < 0)
		return -errno;
	if (fstatat(e->fd, "", &now, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!is_unchanged(before, &now) && removexattr(path, XATTR_NAME_CAPS) < 0 &&
	    errno != ENODATA)
		return -errno;
	return 0;
}

/* After the group: what it took away. @now: the file since; @shown: the mode that it is to have. */
static int restore(const struct entry *e, const struct stat *before, const struct stat *now,
		   mode_t shown, const char *capability, ssize_t capability_len)
{
	shown = mode_to_restore(before, now, shown);
	if (shown != now->st_mode) {
		int r = change_mode(e, shown & 07777);

		if (r == 0)
			r = recheck_set_ids(e, before, shown);
		if (r < 0)
			return r;
	}
	if (capability_len > 0 && is_unchanged(before, now))
		return restore_capability(e, before, capability, (size_t)capability_len);
	return 0;
}

int apply_entry(int fd, const char *fd_dir, const struct ownership_rule *rule, struct stat *ret_st)
{
	struct stat before;

	if (fstatat(fd, "", &before, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return apply_seen(fd, fd_dir, rule, &before, false, ret_st);
}

int apply_seen(int fd, const char *fd_dir, const struct ownership_rule *rule,
	       const struct stat *before, bool has_no_xattr, struct stat *ret_st)
{
	const struct entry e = { fd, fd_dir };
	struct stat now = *before, shown = *before;
	char capability[CAPABILITY_MAX];
	ssize_t capability_len = -1;
	int r;

	present(rule, &shown);
	if (shown.st_gid == before->st_gid && shown.st_mode == before->st_mode) {
		if (ret_st)
			*ret_st = *before;
		return APPLY_RIGHT;
	}

	if (shown.st_gid != before->st_gid) {
		if (!has_no_xattr && !S_ISDIR(before->st_mode) && !S_ISLNK(before->st_mode)) {
			entry_path_buffer path;

			capability_len = getxattr(entry_path(&e, path), XATTR_NAME_CAPS, capability,
						  sizeof(capability));
			if (capability_len < 0 && errno != ENODATA && errno != EOPNOTSUPP)
				return -errno;
		}
		if (fchownat(fd, "", (uid_t)-1, shown.st_gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) <
		    0)
			return -errno;
		/* Only set-ID bits and capabilities go with the group; without any the mode is still known. */
		if ((before->st_mode & (S_ISUID | S_ISGID) || capability_len > 0) &&
		    fstatat(fd, "", &now, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	}
	r = restore(&e, before, &now, shown.st_mode, capability, capability_len);
	if (r < 0)
		return r;
	if (ret_st && fstatat(fd, "", ret_st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return APPLY_CHANGED;
}

int apply_finish(int fd, const char *fd_dir, const struct ownership_rule *rule,
		 const struct stat *before, const void *capability, size_t capability_len)
{
	const struct entry e = { fd, fd_dir };
	struct stat shown = *before, now;
	entry_path_buffer path;
	int r;

	present(rule, &shown);
	if (fstatat(fd, "", &now, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (now.st_gid != shown.st_gid)
		return 0;
	if (capability_len > 0 && getxattr(entry_path(&e, path), XATTR_NAME_CAPS, NULL, 0) >= 0)
		capability_len = 0;
	r = restore(&e, before, &now, shown.st_mode, capability, (ssize_t)capability_len);
	if (r < 0 || S_ISLNK(before->st_mode) ||
	    getxattr(entry_path(&e, path), XATTR_NAME_POSIX_ACL_ACCESS, NULL, 0) <= 0)
		return r;
	/* The mode may be there without the ACL that follows it: the same once more changes both. */
	if (fstatat(fd, "", &now, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = change_mode(&e, now.st_mode & 07777);
	return r < 0 ? r : recheck_set_ids(&e, before, now.st_mode);
}
