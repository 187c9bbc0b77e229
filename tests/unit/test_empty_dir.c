// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fake_host.h"

static const struct volume_plugin *const plugin = &plugin_empty_dir;

static struct stat data_stat(struct fake *f)
{
	struct stat st;

	assert_int_equal(fstatat(f->b.dir_fd, "data", &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static enum ownership_outcome set_up(struct fake *f, gid_t gid)
{
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	AUTO_FD int lower = -1;
	struct stat st, data;

	assert_int_equal(plugin->set_up(&f->b, gid, &lower, &outcome), 0);
	assert_int_equal(fstat(lower, &st), 0);
	data = data_stat(f);
	assert_int_equal(st.st_ino, data.st_ino);
	return outcome;
}

static void make_file(struct fake *f, const char *name)
{
	AUTO_FD int fd = openat(f->b.dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
}

static char *certify(struct fake *f)
{
	char *text = NULL;

	assert_int_equal(plugin->certify(&f->b, &text), 0);
	return text;
}

static void check_accepted_sources(void **state)
{
	static const char *const sources[] = {
		"{}",
		"{\"medium\":\"\"}",
		"{\"medium\":\"Memory\",\"sizeLimit\":\"64Mi\"}",
		"{\"medium\":null,\"sizeLimit\":null}",
		"{\"sizeLimit\":1048576}",
		"{\"sizeLimit\":\"1G\",\"fromTheFuture\":[1,2]}",
		"{\"sizeLimit\":\"1.5Gi\"}",
		"{\"sizeLimit\":\"64e6\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		fake_source(*state, sources[i]);
		assert_int_equal(plugin->check(*state), 0);
	}
}

static void check_refused_sources_name_the_field(void **state)
{
	static const struct {
		const char *source, *field;
	} cases[] = {
		{ "{\"medium\":\"HugePages-2Mi\"}", "HugePages-2Mi" },
		{ "{\"medium\":\"HugePages\"}", "HugePages" },
		{ "{\"medium\":\"memory\"}", "medium" },
		{ "{\"medium\":\"a\\nb\"}", "a\\x0ab" },
		{ "{\"medium\":7}", "medium" },
		{ "{\"sizeLimit\":\"much\"}", "sizeLimit" },
		{ "{\"sizeLimit\":-1}", "sizeLimit" },
		{ "{\"sizeLimit\":1.5}", "sizeLimit" },
		{ "{\"sizeLimit\":\"-1\"}", "sizeLimit" },
		{ "{\"sizeLimit\":\"99999999999Pi\"}", "sizeLimit" },
		{ "{\"sizeLimit\":{}}", "sizeLimit" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		f->b.error[0] = '\0';
		assert_int_equal(plugin->check(&f->b), -EINVAL);
		assert_non_null(strstr(f->b.error, cases[i].field));
	}
}

static void identity_same_size_is_the_same(void **state)
{
	struct fake *f = *state;
	AUTO_FREE char *a = NULL, *b = NULL, *c = NULL;

	fake_source(f, "{\"sizeLimit\":\"1Ki\"}");
	a = plugin->identity(&f->b);
	fake_source(f, "{\"medium\":\"\",\"sizeLimit\":1024,\"unknown\":true}");
	b = plugin->identity(&f->b);
	fake_source(f, "{\"medium\":\"Memory\",\"sizeLimit\":1024}");
	c = plugin->identity(&f->b);
	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
}

static void set_up_root_is_0777_whatever_the_umask(void **state)
{
	mode_t before = umask(077);
	struct stat st;

	assert_int_equal(set_up(*state, GID_UNSET), OWNERSHIP_DONE);
	umask(before);
	st = data_stat(*state);
	assert_int_equal(st.st_mode, S_IFDIR | 0777);
}

static void set_up_gid_owns_the_empty_root(void **state)
{
	struct stat st;

	assert_int_equal(set_up(*state, getegid()), OWNERSHIP_DONE);
	st = data_stat(*state);
	assert_int_equal(st.st_gid, getegid());
	assert_int_equal(st.st_mode, S_IFDIR | 02777);
}

static void set_up_files_are_there_is_present(void **state)
{
	struct fake *f = *state;

	set_up(f, GID_UNSET);
	make_file(f, "data/file");
	assert_int_equal(fchmodat(f->b.dir_fd, "data", 0750, 0), 0);
	assert_int_equal(set_up(f, getegid()), OWNERSHIP_PRESENT);
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_int_equal(data_stat(f).st_mode, S_IFDIR | 0750);
}

static void set_up_interrupted_after_mkdir_is_finished(void **state)
{
	struct fake *f = *state;

	assert_int_equal(mkdirat(f->b.dir_fd, "data", 0700), 0);
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_int_equal(data_stat(f).st_mode, S_IFDIR | 0777);
}

static void set_up_symlink_in_the_way_is_refused(void **state)
{
	struct fake *f = *state;
	enum ownership_outcome outcome;
	int lower = -1;

	assert_int_equal(symlinkat("/etc", f->b.dir_fd, "data"), 0);
	assert_true(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome) < 0);
	assert_int_equal(lower, -1);
	assert_non_null(strstr(f->b.error, "data"));
}

static void certify_disk_names_this_directory(void **state)
{
	struct fake *f = *state;
	AUTO_FREE char *first = NULL, *again = NULL, *other = NULL;

	set_up(f, GID_UNSET);
	first = certify(f);
	make_file(f, "data/file");
	again = certify(f);
	assert_string_equal(first, again);
	assert_int_equal(renameat(f->b.dir_fd, "data", f->b.dir_fd, "old"), 0);
	set_up(f, GID_UNSET);
	other = certify(f);
	assert_string_not_equal(first, other);
}

static void certify_nothing_there_is_enoent(void **state)
{
	struct fake *f = *state;
	char *text = NULL;

	assert_int_equal(plugin->certify(&f->b, &text), -ENOENT);
	fake_source(f, "{\"medium\":\"Memory\"}");
	assert_int_equal(plugin->certify(&f->b, &text), -ENOENT);
	assert_null(text);
}

static void set_up_memory_mounts_once(void **state)
{
	struct fake *f = *state;

	fake_source(f, "{\"medium\":\"Memory\",\"sizeLimit\":\"1Mi\"}");
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_int_equal(f->mounts, 1);
	assert_int_equal(f->tmpfs_bytes, 1 << 20);
	assert_int_equal(data_stat(f).st_mode, S_IFDIR | 0777);
}

static void set_up_memory_other_boot_mounts_again(void **state)
{
	struct fake *f = *state;
	AUTO_FREE char *first = NULL, *second = NULL;
	char *text = NULL;

	fake_source(f, "{\"medium\":\"Memory\"}");
	set_up(f, GID_UNSET);
	first = certify(f);
	f->boot = "boot-2";
	f->mounted = false;
	assert_int_equal(plugin->certify(&f->b, &text), -ENOENT);
	set_up(f, GID_UNSET);
	assert_int_equal(f->mounts, 2);
	second = certify(f);
	assert_string_not_equal(first, second);
}

static void tear_down_deletes_everything_and_is_idempotent(void **state)
{
	struct fake *f = *state;

	set_up(f, GID_UNSET);
	make_file(f, "data/file");
	make_file(f, "neighbour");
	assert_int_equal(mkdirat(f->b.dir_fd, "data/dir", 0700), 0);
	make_file(f, "data/dir/file");
	assert_int_equal(symlinkat("../neighbour", f->b.dir_fd, "data/link"), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(faccessat(f->b.dir_fd, "data", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(faccessat(f->b.dir_fd, "neighbour", F_OK, 0), 0);
}

static void tear_down_memory_unmounts_first(void **state)
{
	struct fake *f = *state;

	fake_source(f, "{\"medium\":\"Memory\"}");
	set_up(f, GID_UNSET);
	make_file(f, "data/file");
	f->busy = true;
	assert_int_equal(plugin->tear_down(&f->b), -EBUSY);
	assert_string_equal(f->b.error, "held by process 42");
	assert_int_equal(faccessat(f->b.dir_fd, "data/file", F_OK, 0), 0);
	f->busy = false;
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(f->unmounts, 1);
	assert_int_equal(faccessat(f->b.dir_fd, "data", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void open_lower_of_nothing_is_enoent(void **state)
{
	struct fake *f = *state;
	int lower = -1;

	assert_int_equal(plugin->open_lower(&f->b, &lower), -ENOENT);
	assert_int_equal(lower, -1);
	set_up(f, GID_UNSET);
	assert_int_equal(plugin->open_lower(&f->b, &lower), 0);
	close(lower);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_accepted_sources),
		TEST(check_refused_sources_name_the_field),
		TEST(identity_same_size_is_the_same),
		TEST(set_up_root_is_0777_whatever_the_umask),
		TEST(set_up_gid_owns_the_empty_root),
		TEST(set_up_files_are_there_is_present),
		TEST(set_up_interrupted_after_mkdir_is_finished),
		TEST(set_up_symlink_in_the_way_is_refused),
		TEST(certify_disk_names_this_directory),
		TEST(certify_nothing_there_is_enoent),
		TEST(set_up_memory_mounts_once),
		TEST(set_up_memory_other_boot_mounts_again),
		TEST(tear_down_deletes_everything_and_is_idempotent),
		TEST(tear_down_memory_unmounts_first),
		TEST(open_lower_of_nothing_is_enoent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
