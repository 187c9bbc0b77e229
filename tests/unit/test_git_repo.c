// SPDX-License-Identifier: Apache-2.0
/* Clones are made as another user, and so only as root; everything else as anybody. */
#include "tests/unit/fake_wrapped.h"

#include <sys/wait.h>

#include "fs/base/parse.h"
#include "plugins/git.h"

#define GROUP 4242

static const struct volume_plugin *const plugin = &plugin_git_repo;

static void check_accepted_sources(void **state)
{
	static const char *const sources[] = {
		"{\"repository\":\"https://example.org/a/b.git\"}",
		"{\"repository\":\"http://example.org/a\",\"revision\":\"v1\",\"directory\":\".\"}",
		"{\"repository\":\"git://example.org/a\",\"directory\":\"a/b\"}",
		"{\"repository\":\"ssh://git@example.org:22/a\",\"revision\":null}",
		"{\"repository\":\"git@example.org:a/b.git\"}",
		"{\"repository\":\"file:///srv/a\"}",
		"{\"repository\":\"/srv/a.git/\"}",
		"{\"repository\":\"https://example.org/a\",\"fromTheFuture\":1}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		fake_source(*state, sources[i]);
		assert_int_equal(plugin->check(*state), 0);
	}
}

static void check_refused_sources_name_the_field(void **state)
{
	static const struct {
		const char *source, *words;
	} cases[] = {
		{ "{}", "repository: missing" },
		{ "{\"repository\":7}", "repository" },
		{ "{\"repository\":\"--upload-pack=id\",\"directory\":\".\"}", "begins with" },
		{ "{\"repository\":\"ext::sh -c id\",\"directory\":\".\"}", "transport helpers" },
		{ "{\"repository\":\"fd::3\"}", "transport helpers" },
		{ "{\"repository\":\"ftp://example.org/a\"}", "ftp is none of" },
		{ "{\"repository\":\"relative/path\"}", "neither a URL" },
		{ "{\"repository\":\"./a:b\"}", "neither a URL" },
		{ "{\"repository\":\"ssh://-oProxyCommand=id/a\"}", "begins with" },
		{ "{\"repository\":\"https://me:word@example.org/a\"}", "password" },
		{ "{\"repository\":\"https://example.org/a\\nb\"}", "control character" },
		{ "{\"repository\":\"https://example.org/a\",\"revision\":\"--orphan=x\"}",
		  "revision" },
		{ "{\"repository\":\"https://example.org/a\",\"revision\":[]}", "revision" },
		{ "{\"repository\":\"https://example.org/a\",\"directory\":\"../x\"}", "leaves" },
		{ "{\"repository\":\"https://example.org/a\",\"directory\":\"x/../../y\"}",
		  "leaves" },
		{ "{\"repository\":\"https://example.org/a\",\"directory\":\"/etc\"}", "absolute" },
		{ "{\"repository\":\"https://example.org/a\",\"directory\":\"-x\"}",
		  "begins with" },
		{ "{\"repository\":\"https://example.org/a\",\"directory\":\"a/.git/hooks\"}",
		  "git's own" },
		{ "{\"repository\":\"https://example.org/..\"}", "directory: missing" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		f->b.error[0] = '\0';
		assert_int_equal(plugin->check(&f->b), -EINVAL);
		if (!strstr(f->b.error, cases[i].words) || strstr(f->b.error, "word@"))
			fail_msg("%s: %s", cases[i].source, f->b.error);
	}
}

static void check_own_files_are_for_root_at_a_shell(void **state)
{
	static const char *const sources[] = {
		"{\"repository\":\"file:///srv/a\"}",
		"{\"repository\":\"/srv/a\"}",
	};
	struct fake *f = *state;

	wrapped.is_node_agent = true;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		fake_source(f, sources[i]);
		assert_int_equal(plugin->check(&f->b), -EACCES);
		assert_non_null(strstr(f->b.error, "fsgroupctl"));
	}
}

static void git_directory_name_is_git_s_own(void **state)
{
	/* Each as `git clone` of git 2.39 names it. */
	static const struct {
		const char *repository, *name;
	} cases[] = {
		{ "https://example.org/a/b.git", "b" },
		{ "https://example.org/a/b", "b" },
		{ "https://example.org/a/b/.git", "b" },
		{ "/srv/x.git/", "x" },
		{ "git@example.org:x.git", "x" },
		{ "host:a/y", "y" },
		{ "file:///srv/z///", "z" },
	};
	char name[NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(git_directory_name(cases[i].repository, name), 0);
		assert_string_equal(name, cases[i].name);
	}
	assert_int_equal(git_directory_name("/", name), -EINVAL);
	assert_int_equal(git_directory_name("", name), -EINVAL);
	assert_int_equal(git_directory_name("https://example.org/..", name), -EINVAL);
}

static void identity_differs_by_each_field(void **state)
{
	static const char *const sources[] = {
		"{\"repository\":\"https://h/a\"}",
		"{\"repository\":\"https://h/b\"}",
		"{\"repository\":\"https://h/a\",\"revision\":\"v1\"}",
		"{\"repository\":\"https://h/a\",\"directory\":\"v1\"}",
	};
	char *texts[ARRAY_SIZE(sources)];
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		fake_source(f, sources[i]);
		texts[i] = plugin->identity(&f->b);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(texts[i], texts[k]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		free(texts[i]);
}

/* ---- with a repository ---- */

static void shell(const char *script, const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-ec", script, dir, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Whether there is root and git; a repository at <dir>/origin that the user git runs as can read. */
static bool have_repository(struct fake *f)
{
	if (geteuid() != 0 || access("/usr/bin/git", X_OK) != 0) {
		print_message("needs root and git\n");
		return false;
	}
	shell("cd \"$0\"; chmod 755 .; umask 022; export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null;"
	      "git init -q -b trunk origin; cd origin; mkdir sub; echo one >sub/file; ln -s sub/file link;"
	      "echo '* filter=evil' >.gitattributes; echo '#!/bin/sh' >run; chmod 755 run;"
	      "git add -A; git -c user.name=n -c user.email=e commit -qm one; git tag v1; git branch side;"
	      "echo two >sub/file; git -c user.name=n -c user.email=e commit -qam two",
	      f->dir);
	return true;
}

static void source_of(struct fake *f, const char *path, const char *rest)
{
	char text[512];

	snprintf(text, sizeof(text), "{\"repository\":\"file://%s/%s\"%s}", f->dir, path, rest);
	fake_source(f, text);
}

static void assert_content(struct fake *f, const char *path, const char *wanted)
{
	AUTO_FD int fd = openat(f->b.dir_fd, path, O_RDONLY | O_CLOEXEC);
	char text[64] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	assert_string_equal(text, wanted);
}

static void assert_entry(struct fake *f, const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(fstatat(f->b.dir_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, 0);
	assert_int_equal(st.st_mode, mode);
}

static int set_up(struct fake *f, gid_t gid)
{
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	AUTO_FD int lower = -1;
	int r = plugin->set_up(&f->b, gid, &lower, &outcome);

	if (r < 0)
		return r;
	assert_true(lower >= 0);
	return (int)outcome;
}

static void set_up_clones_and_gives_to_root(void **state)
{
	struct fake *f = *state;
	char *text = NULL;

	if (!have_repository(f))
		return;
	source_of(f, "origin", "");
	if (set_up(f, GROUP) != OWNERSHIP_DONE)
		fail_msg("%s", f->b.error);
	assert_string_equal(wrapped.plugin, "emptyDir");
	assert_content(f, "tree/origin/sub/file", "two\n");
	assert_entry(f, "tree/origin", S_IFDIR | 0755);
	assert_entry(f, "tree/origin/sub", S_IFDIR | 0755);
	assert_entry(f, "tree/origin/sub/file", S_IFREG | 0644);
	assert_entry(f, "tree/origin/run", S_IFREG | 0755);
	assert_entry(f, "tree/origin/link", S_IFLNK | 0777);
	assert_int_equal(wrapped.ownings, 1);
	assert_int_equal(wrapped.owned_gid, GROUP);
	assert_int_equal(faccessat(f->b.dir_fd, "tree/origin/.git/hooks", F_OK, 0), -1);
	assert_int_equal(plugin->certify(&f->b, &text), 0);
	free(text);

	/* What is whole is kept, with what its users have changed. */
	assert_int_equal(unlinkat(f->b.dir_fd, "tree/origin/run", 0), 0);
	assert_int_equal(set_up(f, GROUP), OWNERSHIP_PRESENT);
	assert_int_equal(wrapped.set_ups, 1);
	assert_int_equal(faccessat(f->b.dir_fd, "tree/origin/run", F_OK, 0), -1);

	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(faccessat(f->b.dir_fd, "tree", F_OK, 0), -1);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->certify(&f->b, &text), -ENOENT);
}

static void set_up_takes_tags_branches_and_commits(void **state)
{
	struct fake *f = *state;

	if (!have_repository(f))
		return;
	source_of(f, "origin", ",\"revision\":\"v1\",\"directory\":\".\"");
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_content(f, "tree/sub/file", "one\n");
	assert_int_equal(wrapped.ownings, 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);

	source_of(f, "origin", ",\"revision\":\"side\",\"directory\":\"a/b\"");
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_content(f, "tree/a/b/sub/file", "one\n");
	assert_content(f, "tree/a/b/.git/HEAD", "ref: refs/heads/side\n");
	assert_entry(f, "tree/a", S_IFDIR | 0755);
	assert_int_equal(plugin->tear_down(&f->b), 0);

	source_of(f, "origin", ",\"revision\":\"nowhere\"");
	assert_int_equal(set_up(f, GID_UNSET), -EIO);
	assert_non_null(strstr(f->b.error, "nowhere"));
	/* What it left is begun anew. */
	source_of(f, "origin", ",\"revision\":\"trunk\"");
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	assert_content(f, "tree/origin/sub/file", "two\n");
}

static void set_up_of_an_empty_repository_is_empty(void **state)
{
	struct fake *f = *state;

	if (!have_repository(f))
		return;
	shell("git init -q --bare \"$0/bare.git\"", f->dir);
	source_of(f, "bare.git", "");
	if (set_up(f, GID_UNSET) != OWNERSHIP_DONE)
		fail_msg("%s", f->b.error);
	assert_content(f, "tree/bare/.git/HEAD", "ref: refs/heads/master\n");
	source_of(f, "absent", "");
	json_object_clear(f->b.metadata);
	assert_int_equal(set_up(f, GID_UNSET), -EIO);
}

/* Hooks and filters of whoever owns the repository, the system or the clone run nowhere. */
static void set_up_runs_nothing_of_the_repository_s(void **state)
{
	struct fake *f = *state;

	if (!have_repository(f))
		return;
	shell("cd \"$0/origin\"; chmod 1777 ..; git config filter.evil.smudge \"touch $0/ran; cat\";"
	      "git config core.fsmonitor \"touch $0/ran\"; mkdir -p .git/hooks;"
	      "for hook in post-checkout post-upload-pack reference-transaction pre-auto-gc; do"
	      " printf '#!/bin/sh\\ntouch %s/ran\\n' \"$0\" >.git/hooks/$hook; chmod 755 .git/hooks/$hook; done",
	      f->dir);
	source_of(f, "origin", "");
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
	shell("! test -e \"$0/ran\"", f->dir);
	assert_content(f, "tree/origin/sub/file", "two\n");
}

static void set_up_limits(void **state)
{
	struct fake *f = *state;

	if (!have_repository(f))
		return;
	shell("cd \"$0/origin\"; head -c 3000000 /dev/urandom >big; git add -A;"
	      "git -c user.name=n -c user.email=e commit -qm big",
	      f->dir);
	source_of(f, "origin", "");
	wrapped.settings.git_size_bytes = 4 << 20; /* of the pack and the file, each fits */
	assert_int_equal(set_up(f, GID_UNSET), -EDQUOT);
	assert_non_null(strstr(f->b.error, "git-size"));
	wrapped.settings.git_size_bytes = 64 << 20;
	wrapped.settings.git_timeout_ms = 1;
	assert_int_equal(set_up(f, GID_UNSET), -ETIMEDOUT);
	assert_non_null(strstr(f->b.error, "git-timeout"));
	wrapped.settings.git_timeout_ms = 20000;
	wrapped.settings.git_user = (char *)"no-such-user";
	assert_int_equal(set_up(f, GID_UNSET), -ENOENT);
	wrapped.settings.git_user = (char *)"nobody";
	wrapped.is_node_agent = true;
	assert_int_equal(set_up(f, GID_UNSET), -EACCES);
	wrapped.is_node_agent = false;
	assert_int_equal(set_up(f, GID_UNSET), OWNERSHIP_DONE);
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, fake_wrapped_begin, fake_wrapped_end)
	const struct CMUnitTest tests[] = {
		WITH_HOST(check_accepted_sources),
		WITH_HOST(check_refused_sources_name_the_field),
		WITH_HOST(check_own_files_are_for_root_at_a_shell),
		cmocka_unit_test(git_directory_name_is_git_s_own),
		WITH_HOST(identity_differs_by_each_field),
		WITH_HOST(set_up_clones_and_gives_to_root),
		WITH_HOST(set_up_takes_tags_branches_and_commits),
		WITH_HOST(set_up_of_an_empty_repository_is_empty),
		WITH_HOST(set_up_runs_nothing_of_the_repository_s),
		WITH_HOST(set_up_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
