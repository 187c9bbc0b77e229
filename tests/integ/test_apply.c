// SPDX-License-Identifier: Apache-2.0
/*
 * apply_entry() on real files of every type. Needs root: groups that we are not in, capabilities, devices,
 * immutable files; exit 77 without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/ownership/apply.h"

static const struct ownership_rule rule = { .gid = 2000 };
static char dir[] = "/var/tmp/test_apply.XXXXXX";
static int dir_fd = -1;

static int make_entry(const char *name, mode_t mode)
{
	int fd;

	unlinkat(dir_fd, name, 0);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
	if (S_ISDIR(mode))
		assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	else if (S_ISLNK(mode))
		assert_int_equal(symlinkat("target", dir_fd, name), 0);
	else
		assert_int_equal(mknodat(dir_fd, name, (mode & S_IFMT) | 0600, makedev(1, 3)), 0);
	if (!S_ISLNK(mode))
		assert_int_equal(fchmodat(dir_fd, name, mode & 07777, 0), 0);
	fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static struct stat stat_of(int fd)
{
	struct stat st;

	assert_int_equal(fstatat(fd, "", &st, AT_EMPTY_PATH), 0);
	return st;
}

static bool same_ctime(const struct stat *a, const struct stat *b)
{
	return a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void apply_entry_every_type_becomes_what_is_shown(void **state)
{
	static const mode_t modes[] = { S_IFREG | 0600,	 S_IFREG | 0,	 S_IFDIR | 0700,
					S_IFDIR | 01777, S_IFLNK | 0777, S_IFIFO | 0600,
					S_IFSOCK | 0600, S_IFCHR | 0600, S_IFBLK | 0600 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		AUTO_FD int fd = make_entry("entry", modes[i]);
		struct stat shown = stat_of(fd), now, told;

		present(&rule, &shown);
		assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, &told), APPLY_CHANGED);
		now = stat_of(fd);
		assert_int_equal(now.st_mode, shown.st_mode);
		assert_int_equal(now.st_gid, 2000);
		assert_int_equal(now.st_uid, shown.st_uid);
		assert_memory_equal(&told, &now, sizeof(now));
	}
}

static void apply_entry_right_is_not_written(void **state)
{
	(void)state;
	for (int link = 0; link < 2; link++) {
		AUTO_FD int fd = make_entry("entry", link ? S_IFLNK : S_IFREG | 0600);
		struct stat before, after;

		assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
		before = stat_of(fd);
		usleep(20000);
		assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_RIGHT);
		after = stat_of(fd);
		assert_true(same_ctime(&before, &after));
	}
}

static void apply_entry_unset_is_not_written(void **state)
{
	const struct ownership_rule unset = { .gid = GID_UNSET };
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0600);
	struct stat before = stat_of(fd), after;

	(void)state;
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &unset, NULL), APPLY_RIGHT);
	after = stat_of(fd);
	assert_memory_equal(&before, &after, sizeof(after));
}

static void apply_entry_set_id_bits_survive(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFREG | 06755);

	(void)state;
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
	assert_int_equal(stat_of(fd).st_mode, S_IFREG | 06775);
}

static void apply_entry_capability_survives(void **state)
{
	struct vfs_cap_data capability = {
		.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
		.data[0].permitted = 1 << CAP_NET_BIND_SERVICE,
	};
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0755);
	char path[64], got[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(setxattr(path, "security.capability", &capability, XATTR_CAPS_SZ_2, 0), 0);
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
	assert_int_equal(stat_of(fd).st_gid, 2000);
	assert_int_equal(getxattr(path, "security.capability", got, sizeof(got)), XATTR_CAPS_SZ_2);
	assert_memory_equal(got, &capability, XATTR_CAPS_SZ_2);
}

static void apply_entry_half_done_is_finished(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFDIR | 0700);

	(void)state;
	assert_int_equal(fchownat(dir_fd, "entry", (uid_t)-1, 2000, 0), 0);
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
	assert_int_equal(stat_of(fd).st_mode, S_IFDIR | 02770);
}

static void apply_entry_relative_fd_dir_works(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0600);
	AUTO_FD int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(chdir("/proc/self/fd"), 0);
	assert_int_equal(apply_entry(fd, ".", &rule, NULL), APPLY_CHANGED);
	assert_int_equal(fchdir(home), 0);
	assert_int_equal(stat_of(fd).st_mode, S_IFREG | 0660);
}

static void apply_entry_symlink_target_is_untouched(void **state)
{
	AUTO_FD int target = make_entry("target", S_IFREG | 0600);
	AUTO_FD int fd = make_entry("entry", S_IFLNK);
	struct stat before = stat_of(target), after;

	(void)state;
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
	after = stat_of(target);
	assert_memory_equal(&before, &after, sizeof(after));
}

static void apply_entry_immutable_is_eperm(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0600);
	AUTO_FD int readable = openat(dir_fd, "entry", O_RDONLY | O_CLOEXEC);
	int flags = FS_IMMUTABLE_FL;
	struct stat before = stat_of(fd), after;

	(void)state;
	assert_int_equal(ioctl(readable, FS_IOC_SETFLAGS, &flags), 0);
	before = stat_of(fd);
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), -EPERM);
	after = stat_of(fd);
	flags = 0;
	assert_int_equal(ioctl(readable, FS_IOC_SETFLAGS, &flags), 0);
	assert_int_equal(after.st_gid, before.st_gid);
	assert_int_equal(after.st_mode, before.st_mode);
}

/* With an ACL the group bits of the mode are the mask: named entries stay, the mask is widened. */
/* Its owner may read and write, one other user may read. */
static const unsigned char acl[] = {
	2,  0, 0, 0,			     /* version */
	1,  0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* user::rw- */
	2,  0, 4, 0, 0xa0, 0x0f, 0,    0,    /* user:4000:r-- */
	4,  0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* group::--- */
	16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, /* mask::r-- */
	32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* other::--- */
};

static void apply_entry_acl_mask_is_widened(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0600);
	unsigned char expected[sizeof(acl)], got[sizeof(acl)];
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(setxattr(path, "system.posix_acl_access", acl, sizeof(acl), 0), 0);
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, NULL), APPLY_CHANGED);
	assert_int_equal(getxattr(path, "system.posix_acl_access", got, sizeof(got)), sizeof(got));
	memcpy(expected, acl, sizeof(acl));
	assert_int_equal(present_acl(stat_of(fd).st_mode, expected, sizeof(expected)), 0);
	assert_memory_equal(got, expected, sizeof(got));
}

/* What the file's ACL is no call can keep from following its mode; that it is made to follow shows in its ctime. */
static void apply_finish_acl_is_made_to_follow_the_mode(void **state)
{
	AUTO_FD int fd = make_entry("entry", S_IFREG | 0600);
	struct stat before, changed, now;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(setxattr(path, "system.posix_acl_access", acl, sizeof(acl), 0), 0);
	before = stat_of(fd);
	assert_int_equal(apply_entry(fd, "/proc/self/fd", &rule, &changed), APPLY_CHANGED);
	/* The clock that file systems stamp with may be a coarse one. */
	for (int i = 0; i < 100 * 1000; i++) {
		assert_int_equal(apply_finish(fd, "/proc/self/fd", &rule, &before, NULL, 0), 0);
		now = stat_of(fd);
		if (!same_ctime(&changed, &now))
			break;
	}
	assert_false(same_ctime(&changed, &now));
	assert_int_equal(now.st_mode, changed.st_mode);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(apply_entry_every_type_becomes_what_is_shown),
		cmocka_unit_test(apply_entry_right_is_not_written),
		cmocka_unit_test(apply_entry_unset_is_not_written),
		cmocka_unit_test(apply_entry_set_id_bits_survive),
		cmocka_unit_test(apply_entry_capability_survives),
		cmocka_unit_test(apply_entry_half_done_is_finished),
		cmocka_unit_test(apply_entry_relative_fd_dir_works),
		cmocka_unit_test(apply_entry_symlink_target_is_untouched),
		cmocka_unit_test(apply_entry_immutable_is_eperm),
		cmocka_unit_test(apply_entry_acl_mask_is_widened),
		cmocka_unit_test(apply_finish_acl_is_made_to_follow_the_mode),
	};
	int failed;

	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		return 77;
	}
	if (!mkdtemp(dir) || (dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlinkat(dir_fd, "entry", 0);
	unlinkat(dir_fd, "entry", AT_REMOVEDIR);
	unlinkat(dir_fd, "target", 0);
	rmdir(dir);
	return failed;
}
