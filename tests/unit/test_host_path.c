// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/fake_host.h"

static const struct volume_plugin *const plugin = &plugin_host_path;

static void use(struct fake *f, const char *name, const char *type)
{
	char json[PATH_MAX];

	snprintf(json, sizeof(json), "{\"path\":\"%s%s%s\",\"type\":\"%s\"}",
		 name[0] == '/' ? "" : f->dir, name[0] == '/' ? "" : "/", name, type);
	fake_source(f, json);
}

static void make(struct fake *f, const char *name, mode_t mode)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	if (S_ISDIR(mode))
		assert_int_equal(mkdir(path, 0700), 0);
	else
		assert_int_equal(mknod(path, mode, 0), 0);
}

static int set_up(struct fake *f, struct stat *ret_st)
{
	enum ownership_outcome outcome = OWNERSHIP_DONE;
	AUTO_FD int lower = -1;
	int r = plugin->set_up(&f->b, 1234, &lower, &outcome);

	if (r < 0) {
		assert_true(f->b.error[0] != '\0');
		assert_int_equal(lower, -1);
		return r;
	}
	assert_int_equal(outcome, OWNERSHIP_IGNORED);
	assert_int_equal(fcntl(lower, F_GETFL) & O_PATH, O_PATH);
	assert_int_equal(fstat(lower, ret_st), 0);
	return 0;
}

static void check_refused_sources_name_the_field(void **state)
{
	static const struct {
		const char *source, *word;
	} cases[] = {
		{ "{}", "path" },
		{ "{\"path\":\"x\"}", "absolute" },
		{ "{\"path\":\"/a/../b\"}", ".." },
		{ "{\"path\":\"/a\",\"type\":\"Folder\"}", "type: Folder" },
		{ "{\"path\":\"/a\",\"type\":\"directory\"}", "type" },
		{ "{\"path\":\"/a\",\"type\":1}", "type" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		assert_int_equal(plugin->check(&f->b), -EINVAL);
		assert_non_null(strstr(f->b.error, cases[i].word));
	}
}

static void identity_has_type_and_path(void **state)
{
	struct fake *f = *state;
	AUTO_FREE char *identity = NULL;

	fake_source(f, "{\"path\":\"/a//b/\",\"type\":\"File\",\"x\":1}");
	assert_int_equal(plugin->check(&f->b), 0);
	identity = plugin->identity(&f->b);
	assert_string_equal(identity, "type=File path=/a/b");
}

/* Which types accept which kinds of file that are there. */
static void set_up_every_type_checks_what_is_there(void **state)
{
	static const char *const types[] = {
		"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice"
	};
	static const struct {
		const char *name, *accepted; /* one character a type: y or n */
	} files[] = {
		{ "dir", "yyynnnn" },	    { "file", "ynnyynn" },	  { "socket", "ynnnnyn" },
		{ "/dev/null", "ynnnnny" }, { "link-to-dir", "yyynnnn" },
	};
	struct fake *f = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char path[PATH_MAX];
	struct stat st;

	make(f, "dir", S_IFDIR);
	make(f, "file", S_IFREG | 0600);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", f->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	snprintf(path, sizeof(path), "%s/link-to-dir", f->dir);
	assert_int_equal(symlink("dir", path), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
			use(f, files[i].name, types[t]);
			assert_int_equal(set_up(f, &st) == 0, files[i].accepted[t] == 'y');
		}
	}
	use(f, "/dev/null", "BlockDevice");
	assert_int_equal(set_up(f, &st), -EINVAL);
	assert_non_null(strstr(f->b.error, "not a block device"));
}

static void set_up_absent_is_enoent_unless_created(void **state)
{
	static const char *const types[] = { "",       "Directory",  "File",
					     "Socket", "CharDevice", "BlockDevice" };
	struct fake *f = *state;
	struct stat st;

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		use(f, "absent", types[t]);
		assert_int_equal(set_up(f, &st), -ENOENT);
	}
}

static void set_up_directory_or_create_makes_parents(void **state)
{
	struct fake *f = *state;
	mode_t before = umask(077);
	char path[PATH_MAX];
	struct stat st;

	use(f, "a/b/c", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	snprintf(path, sizeof(path), "%s/a", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(set_up(f, &st), 0);
	umask(before);
}

static void set_up_file_or_create_needs_its_parent(void **state)
{
	struct fake *f = *state;
	mode_t before = umask(077);
	struct stat st;

	use(f, "file", "FileOrCreate");
	assert_int_equal(set_up(f, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(set_up(f, &st), 0);
	use(f, "absent/file", "FileOrCreate");
	assert_int_equal(set_up(f, &st), -ENOENT);
	umask(before);
}

static void set_up_create_does_not_follow_a_dangling_link(void **state)
{
	struct fake *f = *state;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/link", f->dir);
	assert_int_equal(symlink("elsewhere", path), 0);
	use(f, "link", "FileOrCreate");
	assert_int_equal(set_up(f, &st), -EEXIST);
	use(f, "link", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), -EEXIST);
	use(f, "link/below", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), -EEXIST);
	snprintf(path, sizeof(path), "%s/elsewhere", f->dir);
	assert_int_equal(lstat(path, &st), -1);
}

static void set_up_create_stays_where_it_is_allowed(void **state)
{
	struct fake *f = *state;
	char allowed[128], path[PATH_MAX];
	struct stat st;

	snprintf(allowed, sizeof(allowed), "%s/allowed", f->dir);
	f->allowed = allowed;
	use(f, "allowed", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), -EACCES); /* its parent is outside */
	make(f, "allowed", S_IFDIR);
	use(f, "allowed/x", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), 0);
	use(f, "other", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), -EACCES);
	snprintf(path, sizeof(path), "%s/other", f->dir);
	assert_int_equal(lstat(path, &st), -1);
}

static void open_lower_never_creates(void **state)
{
	struct fake *f = *state;
	int lower = -1;

	use(f, "absent", "DirectoryOrCreate");
	assert_int_equal(plugin->open_lower(&f->b, &lower), -ENOENT);
	assert_int_equal(lower, -1);
	make(f, "absent", S_IFDIR);
	assert_int_equal(plugin->open_lower(&f->b, &lower), 0);
	close(lower);
}

static void tear_down_touches_nothing(void **state)
{
	struct fake *f = *state;
	struct stat st;

	use(f, "kept", "DirectoryOrCreate");
	assert_int_equal(set_up(f, &st), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	use(f, "kept", "Directory");
	assert_int_equal(set_up(f, &st), 0);
	assert_int_equal(f->mounts, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_refused_sources_name_the_field),
		TEST(identity_has_type_and_path),
		TEST(set_up_every_type_checks_what_is_there),
		TEST(set_up_absent_is_enoent_unless_created),
		TEST(set_up_directory_or_create_makes_parents),
		TEST(set_up_file_or_create_needs_its_parent),
		TEST(set_up_create_does_not_follow_a_dangling_link),
		TEST(set_up_create_stays_where_it_is_allowed),
		TEST(open_lower_never_creates),
		TEST(tear_down_touches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
