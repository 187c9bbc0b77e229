// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "mountd/ctl/config.h"
#include "mountd/rules.h"
#include "mountd/spec.h"

static struct rules *parsed(const char *text)
{
	struct rules *rules = NULL;
	char why[RULES_ERROR_MAX];

	assert_int_equal(rules_parse(text, &rules, why), 0);
	return rules;
}

static void assert_refused(const char *text, const char *message)
{
	struct rules *rules = NULL;
	char why[RULES_ERROR_MAX];

	assert_int_equal(rules_parse(text, &rules, why), -EINVAL);
	assert_null(rules);
	assert_string_equal(why, message);
}

static void rules_parse_empty_gives_what_is_built_in(void **state)
{
	AUTO(rules) *rules = parsed("");
	const struct front_rules *ctl = &rules->front[FRONT_CTL],
				 *flex = &rules->front[FRONT_FLEXVOLUME];

	(void)state;
	assert_true(rules_plugin_is_allowed(ctl, "local"));
	assert_true(rules_ownership_is_allowed(ctl, "converge"));
	assert_string_equal(ctl->policy, "Always");
	assert_string_equal(ctl->default_ownership, "converge");
	assert_string_equal(ctl->conflict, "refuse");
	assert_true(ctl->settle_ms == 0);
	assert_true(ctl->format);
	assert_true(rules_plugin_is_allowed(flex, "emptyDir"));
	assert_false(rules_plugin_is_allowed(flex, "local"));
	assert_string_equal(flex->conflict, "virtual");
	assert_true(flex->settle_ms == 50);
	assert_false(flex->format);
}

static void rules_parse_every_key_is_read(void **state)
{
	AUTO(rules) *rules = parsed(
		"# comment\n\n[ctl]\n plugins = emptyDir local\nsources = /srv /mnt/d/\n"
		"ownership = virtual none\nformat = no\npolicy = RootOnly\n"
		"default-ownership = none\nexclude = *.key a/**\nconverge-rate = 500\n"
		"settle = 2s\nconflict = virtual\ncontext = u:r:t:s0:c1,c2\nidmap = yes\n; more\n[log]\nlevel = debug\n"
		"[daemon]\nstatus-group = adm\ncpu-latency = 20\n");
	const struct front_rules *ctl = &rules->front[FRONT_CTL];

	(void)state;
	assert_true(rules_plugin_is_allowed(ctl, "local"));
	assert_false(rules_plugin_is_allowed(ctl, "nfs"));
	assert_false(rules_ownership_is_allowed(ctl, "converge"));
	assert_false(ctl->format);
	assert_string_equal(ctl->policy, "RootOnly");
	assert_string_equal(ctl->default_ownership, "none");
	assert_string_equal(ctl->exclude[0], "*.key");
	assert_string_equal(ctl->exclude[1], "a/**");
	assert_null(ctl->exclude[2]);
	assert_true(ctl->converge_rate == 500);
	assert_true(ctl->settle_ms == 2000);
	assert_string_equal(ctl->conflict, "virtual");
	assert_string_equal(ctl->context, "u:r:t:s0:c1,c2");
	assert_null(rules->front[FRONT_MOUNT].context);
	assert_true(ctl->idmap);
	assert_false(rules->front[FRONT_MOUNT].idmap);
	assert_int_equal(rules->log_level, LOG_DEBUG);
	assert_string_equal(rules->status_group, "adm");
	assert_true(rules->cpu_latency_us == 20);
	/* Another front end is as it was. */
	assert_string_equal(rules->front[FRONT_MOUNT].policy, "Always");
}

static void rules_parse_settings_of_plugins(void **state)
{
	AUTO(rules) *none = parsed("");
	AUTO(rules) *rules =
		parsed("[plugins]\nflexvolume-dir = /opt/flex\nflexvolume-timeout = 30\n"
		       "git-user = git\ngit-timeout = 2m\ngit-size = 64Mi\n[log]\nlevel = info\n");

	(void)state;
	assert_null(none->settings.flexvolume_dir);
	assert_string_equal(none->settings.git_user, "nobody");
	assert_true(none->settings.git_size_bytes > 0 && none->settings.git_timeout_ms > 0);
	assert_true(none->settings.flexvolume_timeout_ms > 0);
	assert_string_equal(rules->settings.flexvolume_dir, "/opt/flex");
	assert_true(rules->settings.flexvolume_timeout_ms == 30000);
	assert_string_equal(rules->settings.git_user, "git");
	assert_true(rules->settings.git_timeout_ms == 120000);
	assert_true(rules->settings.git_size_bytes == 64 << 20);
	for (int i = 0; i < FRONT_END_COUNT; i++) {
		assert_ptr_equal(rules->front[i].settings, &rules->settings);
		assert_int_equal(rules->front[i].is_root_at_shell, i == FRONT_CTL);
	}

	assert_refused("[plugins]\nfrob = 1\n", "line 2 column 1: frob: unknown key");
	assert_refused("[daemon]\nfrob = 1\n", "line 2 column 1: frob: unknown key");
	assert_refused("[daemon]\nstatus-group =\n",
		       "line 2 column 15: status-group: a value that is not allowed");
	assert_refused("[daemon]\nstatus-group = a b\n",
		       "line 2 column 16: status-group: a value that is not allowed");
	assert_refused("[daemon]\nstatus-group = a\nstatus-group = b\n",
		       "line 3 column 1: status-group: a key twice");
	assert_true(none->cpu_latency_us == -1);
	assert_refused("[daemon]\ncpu-latency = 1ms\n",
		       "line 2 column 15: cpu-latency: a value that is not allowed");
	assert_refused("[daemon]\ncpu-latency = 1000001\n",
		       "line 2 column 15: cpu-latency: a value that is not allowed");
	assert_refused("[daemon]\n[daemon]\n", "line 2 column 1: daemon: a section twice");
	assert_refused("[plugins]\ngit-user = root\n",
		       "line 2 column 12: git-user: a value that is not allowed");
	assert_refused("[plugins]\ngit-timeout = 0\n",
		       "line 2 column 15: git-timeout: a value that is not allowed");
	assert_refused("[plugins]\ngit-size = -1\n",
		       "line 2 column 12: git-size: a value that is not allowed");
	assert_refused("[plugins]\nflexvolume-dir = bin\n",
		       "line 2 column 18: flexvolume-dir: a value that is not allowed");
	assert_refused("[plugins]\ngit-user = a\ngit-user = b\n",
		       "line 3 column 1: git-user: a key twice");
	assert_refused("[plugins]\n[plugins]\n", "line 2 column 1: plugins: a section twice");
}

static void rules_parse_mistakes_are_named_by_line(void **state)
{
	(void)state;
	assert_refused("[ctl]\nfrob = 1\n", "line 2 column 1: frob: unknown key");
	assert_refused("\n[frob]\n", "line 2 column 1: frob: unknown section");
	assert_refused("[ctl\n", "line 1 column 1: ctl: unknown section");
	assert_refused("plugins = local\n", "line 1 column 1: plugins: a key outside any section");
	assert_refused("[ctl]\nplugins\n", "line 2 column 1: neither a section nor key = value");
	assert_refused("[ctl]\nidmap = maybe\n",
		       "line 2 column 9: idmap: a value that is not allowed");
	assert_refused("[ctl]\ncontext = container_file_t\n",
		       "line 2 column 11: context: a value that is not allowed");
	assert_refused("[ctl]\nformat = maybe\n",
		       "line 2 column 10: format: a value that is not allowed");
	assert_refused("[ctl]\nownership = frob\n",
		       "line 2 column 13: ownership: a value that is not allowed");
	assert_refused("[ctl]\nsources = relative\n",
		       "line 2 column 11: sources: a value that is not allowed");
	assert_refused("[ctl]\npolicy = always\n",
		       "line 2 column 10: policy: a value that is not allowed");
	assert_refused("[ctl]\nformat = no\nformat = yes\n",
		       "line 3 column 1: format: a key twice");
	assert_refused("[ctl]\n[mount]\n[ctl]\n", "line 3 column 1: ctl: a section twice");
	assert_refused("[log]\nlevel = loud\n",
		       "line 2 column 9: level: a value that is not allowed");
}

static void rules_source_prefix_whole_components_are_compared(void **state)
{
	AUTO(rules) *rules = parsed("[ctl]\nsources = /srv /srv/a /mnt/d/\n");
	const struct front_rules *ctl = &rules->front[FRONT_CTL];
	const char *rest = NULL;

	(void)state;
	assert_string_equal(rules_source_prefix(ctl, "/srv/x/y", &rest), "/srv");
	assert_string_equal(rest, "x/y");
	assert_string_equal(rules_source_prefix(ctl, "/srv/a/y", &rest), "/srv/a");
	assert_string_equal(rest, "y");
	assert_string_equal(rules_source_prefix(ctl, "/srv", &rest), "/srv");
	assert_string_equal(rest, "");
	assert_string_equal(rules_source_prefix(ctl, "/mnt/d//z", &rest), "/mnt/d/");
	assert_string_equal(rest, "z");
	assert_null(rules_source_prefix(ctl, "/srvx", &rest));
	assert_null(rules_source_prefix(ctl, "/mnt/data", &rest));
	assert_null(rules_source_prefix(ctl, "/", &rest));
}

static void rules_source_prefix_empty_list_allows_nothing(void **state)
{
	AUTO(rules) *rules = parsed("[ctl]\nsources =\n");
	const char *rest = NULL;

	(void)state;
	assert_null(rules_source_prefix(&rules->front[FRONT_CTL], "/srv", &rest));
	assert_string_equal(rules_source_prefix(&rules->front[FRONT_MOUNT], "/srv", &rest), "");
}

static void rules_load_file_others_may_write_is_refused(void **state)
{
	char path[] = "/tmp/test_rules.XXXXXX", why[RULES_ERROR_MAX];
	struct rules *rules = NULL;
	AUTO_FD int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0620), 0);
	assert_int_equal(rules_load(path, &rules, why), -EPERM);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(rules_load(path, &rules, why), 0);
	rules_free(rules);
	assert_int_equal(unlink(path), 0);
	rules = NULL;
	assert_int_equal(rules_load(path, &rules, why), 0);
	rules_free(rules);
}

static void rules_objects_prefix_is_that_of_sources_without_its_own(void **state)
{
	AUTO(rules) *both = parsed("[flexvolume]\nsources = /srv\nobjects = /etc/objects\n");
	AUTO(rules) *one = parsed("[flexvolume]\nsources = /srv\n");
	AUTO(rules) *none = parsed("");
	const char *rest = NULL;

	(void)state;
	assert_string_equal(
		rules_objects_prefix(&both->front[FRONT_FLEXVOLUME], "/etc/objects/a", &rest),
		"/etc/objects");
	assert_string_equal(rest, "a");
	assert_null(rules_objects_prefix(&both->front[FRONT_FLEXVOLUME], "/srv/a", &rest));
	assert_null(rules_source_prefix(&both->front[FRONT_FLEXVOLUME], "/etc/objects/a", &rest));
	assert_string_equal(rules_objects_prefix(&one->front[FRONT_FLEXVOLUME], "/srv/a", &rest),
			    "/srv");
	assert_null(rules_objects_prefix(&none->front[FRONT_FLEXVOLUME], "/srv/a", &rest));
}

static void config_problems_names_what_cannot_be_meant(void **state)
{
	AUTO(rules) *rules =
		parsed("[flexvolume]\nplugins = emptyDir emptydir\nownership = virtual\n"
		       "[csi]\nplugins = local\n");
	json_t *problems = config_problems(rules);

	(void)state;
	assert_int_equal(json_array_size(problems), 2);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(problems, 0), "message")),
		"emptydir is no plugin");
	assert_string_equal(json_string_value(json_object_get(json_array_get(problems, 1), "key")),
			    "default-ownership");
	json_decref(problems);
}

/* What fsgroupctl calls a plugin and what there is are the same. */
static void spec_plugin_at_names_the_registry(void **state)
{
	size_t count = 0;

	(void)state;
	while (spec_plugin_at(count))
		assert_non_null(plugin_find(spec_plugin_at(count++)));
	assert_null(plugin_at(count));
	assert_non_null(plugin_at(count - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_parse_empty_gives_what_is_built_in),
		cmocka_unit_test(rules_parse_every_key_is_read),
		cmocka_unit_test(rules_parse_settings_of_plugins),
		cmocka_unit_test(rules_parse_mistakes_are_named_by_line),
		cmocka_unit_test(rules_source_prefix_whole_components_are_compared),
		cmocka_unit_test(rules_source_prefix_empty_list_allows_nothing),
		cmocka_unit_test(rules_objects_prefix_is_that_of_sources_without_its_own),
		cmocka_unit_test(rules_load_file_others_may_write_is_refused),
		cmocka_unit_test(config_problems_names_what_cannot_be_meant),
		cmocka_unit_test(spec_plugin_at_names_the_registry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
