/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FAKE_HOST_H
#define TESTS_UNIT_FAKE_HOST_H

/*
 * fake_host: a host table that needs no privilege, and a volume_builder in a temporary directory.
 *
 * A "bind" moves the source directory to where it would be mounted, and "unmount" moves it back: so
 * the directory that is seen there is the source itself, as with a real bind. A "tmpfs" is an empty
 * directory, and its unmount deletes it with what is in it. One mount at a time.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "plugins/plugin.h"
#include "plugins/tree_remove.h"

#define FAKE_MOUNT_ID 4000000001ULL

struct fake {
	struct volume_builder b; /* first: the host's functions get this */
	char dir[64];		 /* temporary; holds "volume", and what a test makes */
	char volume_dir[80];
	const char *boot;
	const char *allowed; /* a prefix; NULL: everything */
	bool mounted, busy;
	int mounts, unmounts;
	uint64_t tmpfs_bytes;
	char moved_from[PATH_MAX]; /* of the bind; "" for a tmpfs */
};

static struct fake *fake_of(struct volume_builder *b)
{
	return (struct fake *)b;
}

static int fake_open_source(struct volume_builder *b, const char *path, int *ret_fd)
{
	struct fake *f = fake_of(b);
	int fd;

	if (f->allowed && strncmp(path, f->allowed, strlen(f->allowed)) != 0) {
		snprintf(b->error, sizeof(b->error), "%s: not allowed", path);
		return -EACCES;
	}
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static void fake_path_of(int fd, char *ret_path)
{
	char link_name[64];
	ssize_t len;

	snprintf(link_name, sizeof(link_name), "/proc/self/fd/%d", fd);
	len = readlink(link_name, ret_path, PATH_MAX - 1);
	assert_true(len > 0);
	ret_path[len] = '\0';
}

static int fake_bind(struct volume_builder *b, int source_fd, int dir_fd, const char *name,
		     uint64_t *ret_mount_id)
{
	struct fake *f = fake_of(b);

	assert_false(f->mounted);
	fake_path_of(source_fd, f->moved_from);
	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	assert_int_equal(renameat(AT_FDCWD, f->moved_from, dir_fd, name), 0);
	f->mounted = true;
	f->mounts++;
	*ret_mount_id = FAKE_MOUNT_ID;
	return 0;
}

static int fake_mount_tmpfs(struct volume_builder *b, int dir_fd, const char *name,
			    uint64_t size_bytes, mode_t mode, uint64_t *ret_mount_id)
{
	struct fake *f = fake_of(b);

	assert_false(f->mounted);
	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	assert_int_equal(fchmodat(dir_fd, name, mode, 0), 0);
	f->moved_from[0] = '\0';
	f->tmpfs_bytes = size_bytes;
	f->mounted = true;
	f->mounts++;
	*ret_mount_id = FAKE_MOUNT_ID;
	return 0;
}

static bool fake_is_mounted(struct volume_builder *b, int dir_fd, const char *name,
			    uint64_t mount_id)
{
	(void)dir_fd;
	(void)name;
	return fake_of(b)->mounted && mount_id == FAKE_MOUNT_ID;
}

static int fake_unmount(struct volume_builder *b, int dir_fd, const char *name, uint64_t mount_id)
{
	struct fake *f = fake_of(b);

	if (!f->mounted || mount_id != FAKE_MOUNT_ID)
		return 0;
	if (f->busy) {
		snprintf(b->error, sizeof(b->error), "held by process 42");
		return -EBUSY;
	}
	if (f->moved_from[0] != '\0')
		assert_int_equal(renameat(dir_fd, name, AT_FDCWD, f->moved_from), 0);
	else
		assert_int_equal(tree_remove(dir_fd, name, b->error, sizeof(b->error)), 0);
	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	f->mounted = false;
	f->unmounts++;
	return 0;
}

static const char *fake_boot_id(const struct volume_builder *b)
{
	return ((const struct fake *)b)->boot;
}

static const struct host fake_host = {
	.open_source = fake_open_source,
	.bind = fake_bind,
	.mount_tmpfs = fake_mount_tmpfs,
	.is_mounted = fake_is_mounted,
	.unmount = fake_unmount,
	.boot_id = fake_boot_id,
};

static inline void fake_source(struct fake *f, const char *json)
{
	json_decref(f->b.source);
	f->b.source = json_loads(json, 0, NULL);
	assert_non_null(f->b.source);
}

static int fake_set_up(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_plugin.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->volume_dir, sizeof(f->volume_dir), "%s/volume", f->dir);
	assert_int_equal(mkdir(f->volume_dir, 0700), 0);
	f->boot = "boot-1";
	f->b.id = "v";
	f->b.host = &fake_host;
	f->b.dir_fd = open(f->volume_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->b.dir_path = f->volume_dir;
	f->b.source = json_object();
	f->b.metadata = json_object();
	assert_true(f->b.dir_fd >= 0);
	*state = f;
	return 0;
}

static int fake_tear_down(void **state)
{
	struct fake *f = *state;
	char error[PLUGIN_ERROR_MAX];
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	close(f->b.dir_fd);
	json_decref(f->b.source);
	json_decref(f->b.metadata);
	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), error, sizeof(error)), 0);
	free(f);
	return 0;
}

#endif
