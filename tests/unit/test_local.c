// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fake_host.h"

static const struct volume_plugin *const plugin = &plugin_local;

/* Makes <dir>/source a directory and the builder's source. */
static void make_source(struct fake *f)
{
	char path[PATH_MAX], json[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/source", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/file");
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	snprintf(json, sizeof(json), "{\"path\":\"%s/source\"}", f->dir);
	fake_source(f, json);
}

static bool has_name(struct fake *f, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	return lstat(path, &st) == 0;
}

static int set_up(struct fake *f, gid_t gid, enum ownership_outcome *ret_outcome)
{
	AUTO_FD int lower = -1;

	return plugin->set_up(&f->b, gid, &lower, ret_outcome);
}

static void check_refused_sources_name_the_field(void **state)
{
	static const struct {
		const char *source, *word;
	} cases[] = {
		{ "{}", "path: missing" },
		{ "{\"path\":\"\"}", "path: missing" },
		{ "{\"path\":null}", "path: missing" },
		{ "{\"path\":\"relative/x\"}", "not absolute" },
		{ "{\"path\":\"/a/../b\"}", ".." },
		{ "{\"path\":\"/a/..\"}", ".." },
		{ "{\"path\":[\"/a\"]}", "path: not a string" },
		{ "{\"path\":\"/a\",\"fsType\":3}", "fsType" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		assert_int_equal(plugin->check(&f->b), -EINVAL);
		assert_non_null(strstr(f->b.error, cases[i].word));
	}
}

static void check_accepted_sources(void **state)
{
	static const char *const sources[] = { "{\"path\":\"/a\"}", "{\"path\":\"/a..b/..c\"}",
					       "{\"path\":\"/\"}",
					       "{\"path\":\"/a\",\"fsType\":\"ext4\",\"x\":1}" };

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		fake_source(*state, sources[i]);
		assert_int_equal(plugin->check(*state), 0);
	}
}

static void identity_spelling_of_the_path_does_not_matter(void **state)
{
	static const char *const same[] = { "{\"path\":\"/a/b\"}", "{\"path\":\"//a///b/\"}",
					    "{\"path\":\"/a/./b/.\",\"x\":1}" };
	struct fake *f = *state;
	AUTO_FREE char *other = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		AUTO_FREE char *identity = NULL;

		fake_source(f, same[i]);
		identity = plugin->identity(&f->b);
		assert_string_equal(identity, "path=/a/b");
	}
	fake_source(f, "{\"path\":\"/a/b.\"}");
	other = plugin->identity(&f->b);
	assert_string_equal(other, "path=/a/b.");
}

static void set_up_binds_once(void **state)
{
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	struct fake *f = *state;

	make_source(f);
	assert_false(plugin->is_set_up(&f->b));
	assert_int_equal(set_up(f, 1234, &outcome), 0);
	assert_int_equal(outcome, OWNERSHIP_PRESENT);
	assert_true(plugin->is_set_up(&f->b));
	assert_true(has_name(f, "volume/lower/file"));
	assert_int_equal(set_up(f, GID_UNSET, &outcome), 0);
	assert_int_equal(outcome, OWNERSHIP_DONE);
	assert_int_equal(f->mounts, 1);
}

static void is_set_up_other_boot_is_not(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	make_source(f);
	assert_int_equal(set_up(f, 1234, &outcome), 0);
	f->boot = "boot-2";
	assert_false(plugin->is_set_up(&f->b));
}

static void is_set_up_unmounted_is_not(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	make_source(f);
	assert_int_equal(set_up(f, 1234, &outcome), 0);
	f->mounted = false;
	assert_false(plugin->is_set_up(&f->b));
}

static void is_set_up_other_directory_is_not(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	make_source(f);
	assert_int_equal(set_up(f, 1234, &outcome), 0);
	assert_int_equal(renameat(f->b.dir_fd, "lower", f->b.dir_fd, "was"), 0);
	assert_int_equal(mkdirat(f->b.dir_fd, "lower", 0700), 0);
	assert_false(plugin->is_set_up(&f->b));
}

static void set_up_absent_source_is_enoent(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	fake_source(f, "{\"path\":\"/nonexistent/x y\"}");
	assert_int_equal(set_up(f, 1234, &outcome), -ENOENT);
	assert_non_null(strstr(f->b.error, "/nonexistent/x\\x20y: No such file"));
	assert_int_equal(f->mounts, 0);
}

static void set_up_not_a_directory_is_enotdir(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	fake_source(f, "{\"path\":\"/dev/null\"}");
	assert_int_equal(set_up(f, 1234, &outcome), -ENOTDIR);
	assert_non_null(strstr(f->b.error, "/dev/null: neither a directory nor a block device"));
}

static void set_up_forbidden_source_keeps_the_hosts_reason(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	make_source(f);
	f->allowed = "/srv/";
	assert_int_equal(set_up(f, 1234, &outcome), -EACCES);
	assert_non_null(strstr(f->b.error, "not allowed"));
}

static void tear_down_keeps_the_data_and_is_idempotent(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;

	make_source(f);
	assert_int_equal(set_up(f, 1234, &outcome), 0);
	f->busy = true;
	assert_int_equal(plugin->tear_down(&f->b), -EBUSY);
	f->busy = false;
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_true(has_name(f, "source/file"));
	assert_false(has_name(f, "volume/lower"));
	assert_false(plugin->is_set_up(&f->b));
}

/* Something put files where nothing is mounted: they are not ours to delete. */
static void tear_down_foreign_files_stay(void **state)
{
	struct fake *f = *state;

	make_source(f);
	assert_int_equal(mkdirat(f->b.dir_fd, "lower", 0700), 0);
	assert_int_equal(mkdirat(f->b.dir_fd, "lower/theirs", 0700), 0);
	assert_int_equal(plugin->tear_down(&f->b), -ENOTEMPTY);
	assert_true(has_name(f, "volume/lower/theirs"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_refused_sources_name_the_field),
		TEST(check_accepted_sources),
		TEST(identity_spelling_of_the_path_does_not_matter),
		TEST(set_up_binds_once),
		TEST(is_set_up_other_boot_is_not),
		TEST(is_set_up_unmounted_is_not),
		TEST(is_set_up_other_directory_is_not),
		TEST(set_up_absent_source_is_enoent),
		TEST(set_up_not_a_directory_is_enotdir),
		TEST(set_up_forbidden_source_keeps_the_hosts_reason),
		TEST(tear_down_keeps_the_data_and_is_idempotent),
		TEST(tear_down_foreign_files_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
