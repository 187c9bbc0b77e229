// SPDX-License-Identifier: Apache-2.0
/*
 * The plugins over real mounts: tmpfs for emptyDir, binds for local, mounts inside what is to be deleted,
 * immutable files. Needs root and a mount namespace of its own; exit 77 without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "plugins/builder.h"
#include "plugins/plugin.h"
#include "plugins/tree_remove.h"

struct fixture {
	struct volume_builder b; /* first: the host's functions get this */
	char dir[64], volume_dir[80], source[80];
};

/* --- a host that mounts with the plain system calls ------------------------------------------------ */

static void path_in(const struct volume_builder *b, const char *name, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%s/%s", b->dir_path, name);
}

static int plain_open_source(struct volume_builder *b, const char *path, int *ret_fd)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	(void)b;
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int plain_bind(struct volume_builder *b, int source_fd, int dir_fd, const char *name,
		      uint64_t *ret_mount_id)
{
	char path[128], source[64];

	path_in(b, name, path, sizeof(path));
	snprintf(source, sizeof(source), "/proc/self/fd/%d", source_fd);
	mkdirat(dir_fd, name, 0700);
	if (mount(source, path, NULL, MS_BIND, NULL) < 0)
		return -errno;
	*ret_mount_id = builder_mount_at(b, name);
	return 0;
}

static int plain_mount_tmpfs(struct volume_builder *b, int dir_fd, const char *name,
			     uint64_t size_bytes, mode_t mode, uint64_t *ret_mount_id)
{
	char path[128], options[64];

	path_in(b, name, path, sizeof(path));
	snprintf(options, sizeof(options), "mode=%o,size=%llu", mode,
		 (unsigned long long)size_bytes);
	mkdirat(dir_fd, name, 0700);
	if (mount("tmpfs", path, "tmpfs", 0, options) < 0)
		return -errno;
	*ret_mount_id = builder_mount_at(b, name);
	return 0;
}

static bool plain_is_mounted(struct volume_builder *b, int dir_fd, const char *name,
			     uint64_t mount_id)
{
	(void)dir_fd;
	return mount_id != 0 && builder_mount_at(b, name) == mount_id;
}

static int plain_unmount(struct volume_builder *b, int dir_fd, const char *name, uint64_t mount_id)
{
	char path[128];

	if (!plain_is_mounted(b, dir_fd, name, mount_id))
		return 0;
	path_in(b, name, path, sizeof(path));
	return umount2(path, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static const char *plain_boot_id(const struct volume_builder *b)
{
	(void)b;
	return "this-boot";
}

static const struct host plain_host = {
	.open_source = plain_open_source,
	.bind = plain_bind,
	.mount_tmpfs = plain_mount_tmpfs,
	.is_mounted = plain_is_mounted,
	.unmount = plain_unmount,
	.boot_id = plain_boot_id,
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/var/tmp/test_mounts.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->volume_dir, sizeof(f->volume_dir), "%s/volume", f->dir);
	snprintf(f->source, sizeof(f->source), "%s/source", f->dir);
	assert_int_equal(mkdir(f->volume_dir, 0700), 0);
	assert_int_equal(mkdir(f->source, 0700), 0);
	f->b.id = "v";
	f->b.host = &plain_host;
	f->b.dir_fd = open(f->volume_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->b.dir_path = f->volume_dir;
	f->b.source = json_pack("{s:s}", "path", f->source);
	f->b.metadata = json_object();
	assert_true(f->b.dir_fd >= 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int parent = open("/var/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char error[PLUGIN_ERROR_MAX] = "";

	close(f->b.dir_fd);
	json_decref(f->b.source);
	json_decref(f->b.metadata);
	if (tree_remove(parent, f->dir + strlen("/var/tmp/"), error, sizeof(error)) < 0)
		fail_msg("%s", error);
	free(f);
	return 0;
}

static void use_memory(struct fixture *f)
{
	json_decref(f->b.source);
	f->b.source = json_pack("{s:s,s:s}", "medium", "Memory", "sizeLimit", "1Mi");
}

static int run_set_up(struct fixture *f, const struct volume_plugin *plugin,
		      enum ownership_outcome *ret_outcome, int *ret_lower)
{
	return plugin->set_up(&f->b, 2000, ret_lower, ret_outcome);
}

static void make_file(struct fixture *f, const char *name)
{
	AUTO_FD int fd = openat(f->b.dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
}

static bool has_name(struct fixture *f, const char *name)
{
	return faccessat(f->b.dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Forgets what the plugin knows, as a death before store_setup_done() does. */
static void forget(struct fixture *f)
{
	json_object_clear(f->b.metadata);
}

/* --- emptyDir in memory ---------------------------------------------------------------------------- */

static void empty_dir_memory_is_a_tmpfs_of_that_size(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FREE char *certified = NULL;
	AUTO_FD int lower = -1;
	struct statfs fs;
	struct stat st;

	use_memory(f);
	assert_int_equal(run_set_up(f, &plugin_empty_dir, &outcome, &lower), 0);
	assert_int_equal(outcome, OWNERSHIP_DONE);
	assert_int_equal(fstatfs(lower, &fs), 0);
	assert_int_equal(fs.f_type, 0x01021994);
	assert_int_equal(fs.f_blocks * (unsigned long)fs.f_bsize, 1 << 20);
	assert_int_equal(fstat(lower, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 02777);
	assert_int_equal(st.st_gid, 2000);
	assert_int_equal(plugin_empty_dir.certify(&f->b, &certified), 0);
	assert_non_null(strstr(certified, "this-boot"));
	cleanup_fd(&lower);
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), 0);
	assert_false(has_name(f, "data"));
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), 0);
}

static void empty_dir_memory_left_behind_is_taken_over(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FD int first = -1, second = -1;
	uint64_t before;

	use_memory(f);
	assert_int_equal(run_set_up(f, &plugin_empty_dir, &outcome, &first), 0);
	before = builder_mount_at(&f->b, "data");
	make_file(f, "data/precious");
	forget(f);
	assert_int_equal(run_set_up(f, &plugin_empty_dir, &outcome, &second), 0);
	assert_int_equal(outcome, OWNERSHIP_PRESENT);
	assert_true(builder_mount_at(&f->b, "data") == before);
	assert_true(has_name(f, "data/precious"));
	cleanup_fd(&first);
	cleanup_fd(&second);
	forget(f);
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), 0);
	assert_false(has_name(f, "data"));
}

static void empty_dir_memory_busy_deletes_nothing(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FD int lower = -1, held = -1;

	use_memory(f);
	assert_int_equal(run_set_up(f, &plugin_empty_dir, &outcome, &lower), 0);
	cleanup_fd(&lower);
	make_file(f, "data/precious");
	held = openat(f->b.dir_fd, "data/precious", O_RDONLY | O_CLOEXEC);
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), -EBUSY);
	assert_true(has_name(f, "data/precious"));
	cleanup_fd(&held);
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), 0);
}

static void empty_dir_foreign_mount_on_it_is_untouched(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FD int lower = -1;
	char path[128];

	json_object_clear(f->b.source);
	assert_int_equal(run_set_up(f, &plugin_empty_dir, &outcome, &lower), 0);
	path_in(&f->b, "data", path, sizeof(path));
	assert_int_equal(mount("tmpfs", path, "tmpfs", 0, NULL), 0);
	make_file(f, "data/theirs");
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), -EBUSY);
	assert_non_null(strstr(f->b.error, "data"));
	assert_true(has_name(f, "data/theirs"));
	assert_int_equal(umount(path), 0);
	assert_int_equal(plugin_empty_dir.tear_down(&f->b), 0);
}

/* --- deletion --------------------------------------------------------------------------------------- */

static int remove_data(struct fixture *f)
{
	return tree_remove(f->b.dir_fd, "data", f->b.error, sizeof(f->b.error));
}

static void tree_remove_mount_below_is_ebusy(void **state)
{
	struct fixture *f = *state;
	char path[128];

	for (int bind = 0; bind < 2; bind++) {
		mkdirat(f->b.dir_fd, "data", 0700);
		mkdirat(f->b.dir_fd, "data/a", 0700);
		mkdirat(f->b.dir_fd, "data/a/mnt", 0700);
		path_in(&f->b, "data/a/mnt", path, sizeof(path));
		/* a bind of the same file system has the same device: only the mount tells */
		assert_int_equal(bind ? mount(f->source, path, NULL, MS_BIND, NULL) :
					mount("tmpfs", path, "tmpfs", 0, NULL),
				 0);
		make_file(f, "data/a/mnt/theirs");
		assert_int_equal(remove_data(f), -EBUSY);
		assert_string_equal(f->b.error,
				    "data/a/mnt: a mount, or another file system; not deleted");
		assert_true(has_name(f, "data/a/mnt/theirs"));
		assert_int_equal(umount(path), 0);
		assert_int_equal(remove_data(f), 0);
		assert_false(has_name(f, "data"));
	}
}

static void tree_remove_mounted_file_is_ebusy(void **state)
{
	struct fixture *f = *state;
	char path[128];

	mkdirat(f->b.dir_fd, "data", 0700);
	make_file(f, "data/file");
	make_file(f, "other");
	path_in(&f->b, "data/file", path, sizeof(path));
	assert_int_equal(mount("/etc/passwd", path, NULL, MS_BIND, NULL), 0);
	assert_int_equal(remove_data(f), -EBUSY);
	assert_non_null(strstr(f->b.error, "data/file"));
	assert_int_equal(umount(path), 0);
	assert_int_equal(remove_data(f), 0);
}

static void set_immutable(struct fixture *f, const char *name, int flags)
{
	AUTO_FD int fd = openat(f->b.dir_fd, name, O_RDONLY | O_CLOEXEC);

	assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
}

static void tree_remove_immutable_is_named(void **state)
{
	struct fixture *f = *state;

	mkdirat(f->b.dir_fd, "data", 0700);
	mkdirat(f->b.dir_fd, "data/a b", 0700);
	make_file(f, "data/a b/fixed");
	set_immutable(f, "data/a b/fixed", FS_IMMUTABLE_FL);
	assert_int_equal(remove_data(f), -EPERM);
	assert_string_equal(f->b.error, "data/a\\x20b/fixed: Operation not permitted");
	set_immutable(f, "data/a b/fixed", 0);
	assert_int_equal(remove_data(f), 0);
}

/* --- local ------------------------------------------------------------------------------------------ */

static void local_bind_shows_the_source_and_keeps_it(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FD int lower = -1;
	char path[128];

	assert_int_equal(run_set_up(f, &plugin_local, &outcome, &lower), 0);
	assert_int_equal(outcome, OWNERSHIP_PRESENT);
	assert_true(plugin_local.is_set_up(&f->b));
	make_file(f, "lower/file");
	cleanup_fd(&lower);
	assert_int_equal(plugin_local.tear_down(&f->b), 0);
	assert_int_equal(plugin_local.tear_down(&f->b), 0);
	assert_false(has_name(f, "lower"));
	snprintf(path, sizeof(path), "%s/file", f->source);
	assert_int_equal(access(path, F_OK), 0);
}

static void local_bind_left_behind_is_taken_over(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	AUTO_FD int first = -1, second = -1;
	uint64_t before;

	assert_int_equal(run_set_up(f, &plugin_local, &outcome, &first), 0);
	before = builder_mount_at(&f->b, "lower");
	forget(f);
	assert_false(plugin_local.is_set_up(&f->b));
	assert_int_equal(run_set_up(f, &plugin_local, &outcome, &second), 0);
	assert_true(builder_mount_at(&f->b, "lower") == before);
	assert_true(plugin_local.is_set_up(&f->b));
	cleanup_fd(&first);
	cleanup_fd(&second);
	forget(f);
	assert_int_equal(plugin_local.tear_down(&f->b), 0);
}

static void local_block_device_without_a_driver_is_named(void **state)
{
	enum ownership_outcome outcome;
	struct fixture *f = *state;
	char path[128];
	int lower = -1;

	snprintf(path, sizeof(path), "%s/disk", f->dir);
	assert_int_equal(mknod(path, S_IFBLK | 0600, 0), 0);
	json_decref(f->b.source);
	f->b.source = json_pack("{s:s}", "path", path);
	assert_int_equal(run_set_up(f, &plugin_local, &outcome, &lower), -ENXIO);
	assert_non_null(strstr(f->b.error, path));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(empty_dir_memory_is_a_tmpfs_of_that_size),
		TEST(empty_dir_memory_left_behind_is_taken_over),
		TEST(empty_dir_memory_busy_deletes_nothing),
		TEST(empty_dir_foreign_mount_on_it_is_untouched),
		TEST(tree_remove_mount_below_is_ebusy),
		TEST(tree_remove_mounted_file_is_ebusy),
		TEST(tree_remove_immutable_is_named),
		TEST(local_bind_shows_the_source_and_keeps_it),
		TEST(local_bind_left_behind_is_taken_over),
		TEST(local_block_device_without_a_driver_is_named),
	};

	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		return 77;
	}
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		printf("skipped: no mount namespace: %s\n", strerror(errno));
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
