// SPDX-License-Identifier: Apache-2.0
/* What mount.nfs would be given, and what is said where there is none. No NFS is needed. */
#include "tests/unit/fake_wrapped.h"

#include "fs/base/parse.h"

static const struct volume_plugin *const plugin = &plugin_nfs;

/* What the host was asked to mount; one at a time. */
static struct {
	char source[256], type[16], options[256], name[32];
	int result, calls;
} mounted;

static struct host host;

static int mount_fs(struct volume_builder *b, const char *source, const char *type,
		    const char *options, int dir_fd, const char *name, uint64_t *ret_mount_id)
{
	struct fake *f = (struct fake *)b;

	snprintf(mounted.source, sizeof(mounted.source), "%s", source);
	snprintf(mounted.type, sizeof(mounted.type), "%s", type);
	snprintf(mounted.options, sizeof(mounted.options), "%s", options ? options : "(none)");
	snprintf(mounted.name, sizeof(mounted.name), "%s", name);
	mounted.calls++;
	if (mounted.result < 0) {
		snprintf(b->error, sizeof(b->error), "mount.nfs ended with status 32");
		return mounted.result;
	}
	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	f->mounted = true;
	*ret_mount_id = FAKE_MOUNT_ID;
	return 0;
}

static int begin(void **state)
{
	struct fake *f;

	fake_wrapped_begin(state);
	f = *state;
	host = fake_wrapping_host;
	host.mount_fs = mount_fs;
	f->b.host = &host;
	memset(&mounted, 0, sizeof(mounted));
	return 0;
}

static void check_sources(void **state)
{
	static const struct {
		const char *source;
		int error;
		const char *words;
	} cases[] = {
		{ "{\"server\":\"nfs.example.org\",\"path\":\"/srv/a b\",\"readOnly\":true}", 0,
		  "" },
		{ "{\"server\":\"192.0.2.1\",\"path\":\"/\"}", 0, "" },
		{ "{\"path\":\"/x\"}", -EINVAL, "server: missing" },
		{ "{\"server\":\"h\"}", -EINVAL, "path: missing" },
		{ "{\"server\":\"h\",\"path\":\"x\"}", -EINVAL, "path: not absolute" },
		{ "{\"server\":\"h\",\"path\":\"/x\\ny\"}", -EINVAL, "path: a control character" },
		{ "{\"server\":\"-o\",\"path\":\"/x\"}", -EINVAL, "server: -o" },
		{ "{\"server\":\"h i\",\"path\":\"/x\"}", -EINVAL, "server: h\\x20i" },
		{ "{\"server\":\"a,b\",\"path\":\"/x\"}", -EINVAL, "server: a,b" },
		{ "{\"server\":\"h/x\",\"path\":\"/x\"}", -EINVAL, "server: h/x" },
		{ "{\"server\":1,\"path\":\"/x\"}", -EINVAL, "server" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		f->b.error[0] = '\0';
		assert_int_equal(plugin->check(&f->b), cases[i].error);
		if (!strstr(f->b.error, cases[i].words))
			fail_msg("%s: %s", cases[i].source, f->b.error);
	}
}

static void set_up_builds_what_mount_nfs_gets(void **state)
{
	static const struct {
		const char *source, *given;
		bool read_only;
		const char *wanted_source, *wanted_options;
	} cases[] = {
		{ "{\"server\":\"h\",\"path\":\"/x\"}", NULL, false, "h:/x", "rw,retry=1" },
		{ "{\"server\":\"h\",\"path\":\"/x\"}", NULL, true, "h:/x", "ro,retry=1" },
		{ "{\"server\":\"2001:db8::1\",\"path\":\"/x\"}", "vers=4.2,soft,timeo=50", false,
		  "[2001:db8::1]:/x", "vers=4.2,soft,timeo=50,rw,retry=1" },
		{ "{\"server\":\"[::1]\",\"path\":\"/x\"}", "retry=0,hard", false, "[::1]:/x",
		  "retry=0,hard,rw" },
		{ "{\"server\":\"h\",\"path\":\"/x\"}", "hard,noretry", false, "h:/x",
		  "hard,noretry,rw,retry=1" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum ownership_outcome outcome = OWNERSHIP_DONE;
		AUTO_FD int lower = -1;

		fake_source(f, cases[i].source);
		f->b.mount_options = cases[i].given;
		f->b.read_only = cases[i].read_only;
		if (plugin->set_up(&f->b, 4242, &lower, &outcome) < 0)
			fail_msg("%s", f->b.error);
		assert_string_equal(mounted.source, cases[i].wanted_source);
		assert_string_equal(mounted.options, cases[i].wanted_options);
		assert_string_equal(mounted.type, "nfs");
		assert_int_equal(outcome, OWNERSHIP_IGNORED);
		assert_true(plugin->is_set_up(&f->b));
		/* Again: what is there is used. */
		cleanup_fd(&lower);
		assert_int_equal(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome), 0);
		assert_int_equal(mounted.calls, i + 1);
		assert_int_equal(plugin->tear_down(&f->b), 0);
		assert_int_equal(plugin->tear_down(&f->b), 0);
		assert_false(plugin->is_set_up(&f->b));
	}
}

static void set_up_refuses_options_that_are_not_clean(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;
	int lower = -1;

	fake_source(f, "{\"server\":\"h\",\"path\":\"/x\"}");
	f->b.mount_options = "hard\nsoft";
	assert_int_equal(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome), -EINVAL);
	assert_int_equal(mounted.calls, 0);
}

static void set_up_says_what_is_missing_on_this_node(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;
	int lower = -1, r;

	fake_source(f, "{\"server\":\"h\",\"path\":\"/x\"}");
	mounted.result = -EIO;
	r = plugin->set_up(&f->b, GID_UNSET, &lower, &outcome);
	/* One of the three, as this machine is. */
	if (r == -ENOENT)
		assert_non_null(strstr(f->b.error, "h:/x: mount.nfs is not installed"));
	else if (r == -ENODEV)
		assert_non_null(strstr(f->b.error, "h:/x: this kernel has no NFS client"));
	else
		assert_non_null(strstr(f->b.error, "status 32"));
	assert_true(r == -ENOENT || r == -ENODEV || r == -EIO);
	assert_int_equal(lower, -1);
	assert_int_equal(plugin->tear_down(&f->b), 0);
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, begin, fake_wrapped_end)
	const struct CMUnitTest tests[] = {
		WITH_HOST(check_sources),
		WITH_HOST(set_up_builds_what_mount_nfs_gets),
		WITH_HOST(set_up_refuses_options_that_are_not_clean),
		WITH_HOST(set_up_says_what_is_missing_on_this_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
