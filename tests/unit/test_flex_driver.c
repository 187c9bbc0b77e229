// SPDX-License-Identifier: Apache-2.0
/* The driver, its answers and the source. Whole volumes, with real mounts, are in integ/test_volume_exec. */
#include "tests/unit/fake_wrapped.h"

#include "plugins/flex_driver.h"

static const struct volume_plugin *const plugin = &plugin_flex_volume;

static void flex_driver_name_is_valid_cases(void **state)
{
	static const char *const good[] = { "kubernetes.io/lvm", "a/b", "x-y.z/A_b.c-D", "1/..x" };
	static const char *const bad[] = { "",	    "lvm",   "/lvm",  "a/",   "A/b",
					   "a/b/c", "a~b/c", "../x",  "x/..", "./b",
					   "a/b c", "a/b~c", "a/b\n", "a\n/b" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(flex_driver_name_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(flex_driver_name_is_valid(bad[i]));
}

static int parse(const char *output, int exit_status, struct flex_reply **ret_reply, char *why)
{
	return flex_reply_parse(output, strlen(output), exit_status, ret_reply, why);
}

static void flex_reply_parse_success(void **state)
{
	static const struct {
		const char *output, *device;
		bool attach, fs_group;
	} cases[] = {
		{ "{\"status\":\"Success\"}", NULL, true, true },
		{ "\n {\"Status\": \"Success\", \"Device\": \"/dev/x\"}\n", "/dev/x", true, true },
		{ "{\"status\":\"Success\",\"device\":\"\",\"capabilities\":{}}", NULL, true,
		  true },
		{ "{\"status\":\"Success\",\"capabilities\":{\"attach\":false}}", NULL, false,
		  true },
		{ "{\"status\":\"Success\",\"capabilities\":{\"FSGroup\":false,\"x\":[1]}}", NULL,
		  true, false },
		{ "{\"status\":\"Success\",\"capabilities\":null,\"message\":7}", NULL, true,
		  true },
	};
	char why[PLUGIN_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(flex_reply) *reply = NULL;

		assert_int_equal(parse(cases[i].output, 0, &reply, why), 0);
		if (cases[i].device)
			assert_string_equal(reply->device, cases[i].device);
		else
			assert_null(reply->device);
		assert_int_equal(reply->attach, cases[i].attach);
		assert_int_equal(reply->fs_group, cases[i].fs_group);
	}
}

static void flex_reply_parse_everything_else(void **state)
{
	static const struct {
		const char *output;
		int exit_status, error;
		const char *words;
	} cases[] = {
		{ "{\"status\":\"Not supported\"}", 1, -EOPNOTSUPP, "not supported" },
		{ "{\"status\":\"Not supported\"}", 0, -EOPNOTSUPP, "not supported" },
		{ "{\"status\":\"Failure\",\"message\":\"no such\\ndisk\"}", 1, -EIO,
		  "no such\\x0adisk" },
		{ "{\"status\":\"Failed\"}", 1, -EIO, "without a message" },
		{ "{\"status\":\"Failure\",\"message\":{}}", 0, -EIO, "without a message" },
		{ "{\"status\":\"Success\"}", 3, -EBADMSG, "ended with status 3" },
		{ "{\"status\":\"success\"}", 0, -EIO, "without a message" },
		{ "", 0, -EBADMSG, "nothing" },
		{ "warning: x\n{\"status\":\"Success\"}", 0, -EBADMSG, "line 1" },
		{ "{\"status\":\"Success\"}\nmore", 0, -EBADMSG, "line 2" },
		{ "{\"status\":\"Success\"}{}", 0, -EBADMSG, "not one JSON object" },
		{ "[]", 0, -EBADMSG, "not one JSON object" },
		{ "{}", 0, -EBADMSG, "no status" },
		{ "{\"status\":1}", 0, -EBADMSG, "no status" },
		{ "{\"status\":\"Success\",\"device\":[]}", 0, -EBADMSG, "device" },
		{ "{\"status\":\"Success\",\"capabilities\":[]}", 0, -EBADMSG, "capabilities" },
		{ "{\"status\":\"Success\",\"capabilities\":{\"attach\":\"no\"}}", 0, -EBADMSG,
		  "attach" },
	};
	struct flex_reply *reply = NULL;
	char why[PLUGIN_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		why[0] = '\0';
		assert_int_equal(parse(cases[i].output, cases[i].exit_status, &reply, why),
				 cases[i].error);
		if (!strstr(why, cases[i].words) || strchr(why, '\n'))
			fail_msg("%s: %s", cases[i].output, why);
		assert_null(reply);
	}
}

/* ---- finding and calling ---- */

static void put_driver(struct fake *f, const char *text, mode_t mode)
{
	char path[160];
	AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/plugins", f->dir);
	free(wrapped.settings.flexvolume_dir);
	wrapped.settings.flexvolume_dir = strdup(path);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/plugins/a.b~drv", f->dir);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/plugins/a.b~drv/drv", f->dir);
	unlink(path);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
}

static int end(void **state)
{
	free(wrapped.settings.flexvolume_dir);
	return fake_wrapped_end(state);
}

static int call(struct fake *f, const char *const *words, struct flex_reply **ret_reply)
{
	AUTO(flex_driver) *driver = NULL;
	int r = flex_driver_open(&f->b, wrapped.settings.flexvolume_dir, "a.b/drv", &driver);

	return r < 0 ? r : flex_driver_call(&f->b, driver, words, 0, ret_reply);
}

static void flex_driver_call_hands_arguments_over(void **state)
{
	const char *const words[] = { "mount", "/x y", "{\"a\": \"'$(id)\"}", NULL };
	struct fake *f = *state;
	AUTO(flex_reply) *reply = NULL;

	put_driver(f,
		   "#!/bin/sh\n[ \"$1\" = mount ] && [ \"$2\" = '/x y' ] && [ $# = 3 ] || exit 9\n"
		   "[ \"$3\" = '{\"a\": \"'\\''$(id)\"}' ] || exit 8\n"
		   "echo '{\"status\":\"Success\",\"device\":\"/dev/d\"}'\n",
		   0755);
	if (call(f, words, &reply) < 0)
		fail_msg("%s", f->b.error);
	assert_string_equal(reply->device, "/dev/d");
}

static void flex_driver_call_errors_name_driver_and_command(void **state)
{
	const char *const words[] = { "mount", "/x", NULL };
	struct fake *f = *state;
	struct flex_reply *reply = NULL;

	put_driver(
		f,
		"#!/bin/sh\necho '{\"status\":\"Failure\",\"message\":\"no disk\"}' >&2\nexit 1\n",
		0755);
	assert_int_equal(call(f, words, &reply), -EIO);
	assert_non_null(strstr(f->b.error, "a.b~drv/drv mount: no disk"));
	put_driver(f, "#!/bin/sh\nyes | head -c 100000\n", 0755);
	assert_int_equal(call(f, words, &reply), -EBADMSG);
	assert_non_null(strstr(f->b.error, "more than 65536 bytes"));
	put_driver(f, "#!/bin/sh\nsleep 600\n", 0755);
	wrapped.settings.flexvolume_timeout_ms = 300;
	assert_int_equal(call(f, words, &reply), -ETIMEDOUT);
	put_driver(f, "#!/nonexistent\n", 0755);
	assert_int_equal(call(f, words, &reply), -ENOENT);
	assert_null(reply);
}

static void flex_driver_open_refuses_what_others_may_write(void **state)
{
	const char *const words[] = { "init", NULL };
	struct fake *f = *state;
	struct flex_reply *reply = NULL;
	char path[160], other[160];

	put_driver(f, "#!/bin/sh\n", 0775);
	assert_int_equal(call(f, words, &reply), -EPERM);
	put_driver(f, "#!/bin/sh\n", 0644);
	assert_int_equal(call(f, words, &reply), -EACCES);
	put_driver(f, "#!/bin/sh\n", 0755);
	snprintf(path, sizeof(path), "%s/plugins/a.b~drv", f->dir);
	assert_int_equal(chmod(path, 0757), 0);
	assert_int_equal(call(f, words, &reply), -EPERM);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/plugins", f->dir);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(call(f, words, &reply), -EPERM);
	assert_int_equal(chmod(path, 0755), 0);
	/* A link in the driver's place leads nowhere. */
	snprintf(path, sizeof(path), "%s/plugins/a.b~drv/drv", f->dir);
	snprintf(other, sizeof(other), "%s/plugins/a.b~drv/real", f->dir);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink("real", path), 0);
	assert_int_equal(call(f, words, &reply), -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(call(f, words, &reply), -ENOENT);
	if (geteuid() == 0) {
		assert_int_equal(rename(other, path), 0);
		assert_int_equal(chown(path, 65534, 0), 0);
		assert_int_equal(call(f, words, &reply), -EPERM);
	}
	assert_null(reply);
}

/* ---- the source ---- */

static void check_sources(void **state)
{
	static const struct {
		const char *source;
		int error;
		const char *words;
	} cases[] = {
		{ "{\"driver\":\"a.b/drv\"}", 0, "" },
		{ "{\"driver\":\"a.b/drv\",\"fsType\":\"ext4\",\"options\":{\"x\":\"y\"},\"readOnly\":true}",
		  0, "" },
		{ "{\"driver\":\"a.b/drv\",\"options\":null,\"secretRef\":null}", 0, "" },
		{ "{\"driver\":\"a.b/drv\",\"options\":{\"mykubernetes.io/x\":\"y\"}}", 0, "" },
		{ "{}", -EINVAL, "driver: missing" },
		{ "{\"driver\":\"../x\"}", -EINVAL, "vendor/driver" },
		{ "{\"driver\":\"a.b/drv\",\"options\":[]}", -EINVAL, "options" },
		{ "{\"driver\":\"a.b/drv\",\"options\":{\"n\":1}}", -EINVAL, "options: n" },
		{ "{\"driver\":\"a.b/drv\",\"options\":{\"kubernetes.io/fsType\":\"x\"}}", -EINVAL,
		  "reserved" },
		{ "{\"driver\":\"a.b/drv\",\"options\":{\"a.k8s.io/x\":\"x\"}}", -EINVAL,
		  "reserved" },
		{ "{\"driver\":\"a.b/drv\",\"secretRef\":{\"name\":\"s\"}}", -ENOTSUP,
		  "secretRef" },
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

static void set_up_of_a_driver_that_fails_leaves_what_tear_down_removes(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;
	int lower = -1;

	fake_source(f, "{\"driver\":\"a.b/drv\"}");
	put_driver(f,
		   "#!/bin/sh\ncase $1 in\ninit) echo '{\"status\":\"Success\",\"capabilities\":"
		   "{\"attach\":false}}' ;;\nmount) echo '{\"status\":\"Success\"}' ;;\n"
		   "*) echo '{\"status\":\"Success\"}' ;;\nesac\n",
		   0755);
	assert_int_equal(plugin->set_up(&f->b, 4242, &lower, &outcome), -EBADMSG);
	assert_non_null(strstr(f->b.error, "mounted nothing"));
	assert_false(plugin->is_set_up(&f->b));
	assert_int_equal(wrapped.records, 1); /* that mount was to be called */
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(faccessat(f->b.dir_fd, "lower", F_OK, 0), -1);
	assert_int_equal(plugin->tear_down(&f->b), 0);
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, fake_wrapped_begin, end)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flex_driver_name_is_valid_cases),
		cmocka_unit_test(flex_reply_parse_success),
		cmocka_unit_test(flex_reply_parse_everything_else),
		WITH_HOST(flex_driver_call_hands_arguments_over),
		WITH_HOST(flex_driver_call_errors_name_driver_and_command),
		WITH_HOST(flex_driver_open_refuses_what_others_may_write),
		WITH_HOST(check_sources),
		WITH_HOST(set_up_of_a_driver_that_fails_leaves_what_tear_down_removes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
