// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/ownership/own_tree.h"
#include "plugins/tree_remove.h"

/* Deeper than there may be descriptors open, and than a path may be long. */
#define DEPTH 3000

struct fixture {
	char dir[64];
	int fd;
	char error[256];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_own_tree.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->fd = open(f->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	close(f->fd);
	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), f->error, sizeof(f->error)), 0);
	free(f);
	return 0;
}

static void make_file(int dir_fd, const char *name, mode_t mode)
{
	AUTO_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static void make_dir(int dir_fd, const char *name, mode_t mode)
{
	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	assert_int_equal(fchmodat(dir_fd, name, mode, 0), 0);
}

static mode_t mode_of(int dir_fd, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_gid, getegid());
	return st.st_mode & 07777;
}

static int own(struct fixture *f, bool read_only, bool keep_private)
{
	const struct ownership_rule rule = {
		.gid = getegid(),
		.read_only = read_only,
		.keep_private = keep_private,
	};

	return own_tree(f->fd, &rule, f->error, sizeof(f->error));
}

static void own_tree_whole_tree_gets_the_mask(void **state)
{
	struct fixture *f = *state;

	make_dir(f->fd, "d", 0700);
	make_dir(f->fd, "d/e", 0500);
	make_file(f->fd, "d/file", 0600);
	make_file(f->fd, "top", 0404);
	assert_int_equal(symlinkat("/", f->fd, "d/link"), 0);
	assert_int_equal(own(f, false, false), 0);
	assert_int_equal(mode_of(f->fd, "d"), 02770);
	assert_int_equal(mode_of(f->fd, "d/e"), 02770);
	assert_int_equal(mode_of(f->fd, "d/file"), 0660);
	assert_int_equal(mode_of(f->fd, "top"), 0664);
	assert_int_equal(mode_of(f->fd, "."), 02770);
}

static void own_tree_read_only_gives_no_write_bits(void **state)
{
	struct fixture *f = *state;

	make_file(f->fd, "file", 0400);
	assert_int_equal(own(f, true, false), 0);
	assert_int_equal(mode_of(f->fd, "file"), 0440);
	assert_int_equal(mode_of(f->fd, "."), 02750);
}

static void own_tree_keep_private_keeps_bits(void **state)
{
	struct fixture *f = *state;

	make_file(f->fd, "key", 0600);
	make_file(f->fd, "open", 0644);
	assert_int_equal(own(f, false, true), 0);
	assert_int_equal(mode_of(f->fd, "key"), 0600);
	assert_int_equal(mode_of(f->fd, "open"), 0664);
}

static void own_tree_unset_changes_nothing(void **state)
{
	struct fixture *f = *state;
	const struct ownership_rule rule = { .gid = GID_UNSET };

	make_file(f->fd, "file", 0600);
	assert_int_equal(own_tree(f->fd, &rule, f->error, sizeof(f->error)), 0);
	assert_int_equal(mode_of(f->fd, "file"), 0600);
}

static void own_tree_link_out_of_the_tree_is_not_followed(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int inside = -1;
	const struct ownership_rule rule = { .gid = getegid() };

	make_dir(f->fd, "inside", 0700);
	make_dir(f->fd, "outside", 0700);
	make_file(f->fd, "outside/file", 0600);
	inside = openat(f->fd, "inside", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(symlinkat("../outside", inside, "link"), 0);
	assert_int_equal(symlinkat("../outside/file", inside, "file"), 0);
	assert_int_equal(own_tree(inside, &rule, f->error, sizeof(f->error)), 0);
	assert_int_equal(mode_of(f->fd, "inside"), 02770);
	assert_int_equal(mode_of(f->fd, "outside"), 0700);
	assert_int_equal(mode_of(f->fd, "outside/file"), 0600);
}

static void own_tree_any_depth(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < DEPTH; i++) {
		int next;

		make_dir(fd, "d", 0700);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	make_file(fd, "deepest", 0600);
	assert_int_equal(own(f, false, false), 0);
	assert_int_equal(mode_of(fd, "deepest"), 0660);
	assert_int_equal(mode_of(fd, "."), 02770);
	assert_int_equal(mode_of(f->fd, "d"), 02770);
}

static void own_tree_of_no_directory_fails(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int fd = -1;
	const struct ownership_rule rule = { .gid = getegid() };

	make_file(f->fd, "file", 0600);
	fd = openat(f->fd, "file", O_PATH | O_CLOEXEC);
	assert_int_equal(own_tree(fd, &rule, f->error, sizeof(f->error)), -ENOTDIR);
	assert_non_null(strstr(f->error, "Not a directory"));
	assert_int_equal(mode_of(f->fd, "file"), 0600);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(own_tree_whole_tree_gets_the_mask),
		TEST(own_tree_read_only_gives_no_write_bits),
		TEST(own_tree_keep_private_keeps_bits),
		TEST(own_tree_unset_changes_nothing),
		TEST(own_tree_link_out_of_the_tree_is_not_followed),
		TEST(own_tree_any_depth),
		TEST(own_tree_of_no_directory_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
