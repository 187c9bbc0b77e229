// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/options.h"

/* Options borrow from their text, which must live as long. */
struct parsed {
	struct overlay_options o;
	char text[4096];
	char error[OPTIONS_ERROR_MAX];
};

static int set_up(void **state)
{
	static struct parsed parsed;

	memset(&parsed, 0, sizeof(parsed));
	*state = &parsed;
	return options_init(&parsed.o);
}

static int tear_down(void **state)
{
	options_fini(&((struct parsed *)*state)->o);
	return 0;
}

static int parse(struct parsed *p, const char *text)
{
	snprintf(p->text, sizeof(p->text), "%s", text);
	p->error[0] = '\0';
	return options_parse(&p->o, p->text, p->error);
}

static bool excludes(const struct parsed *p, const char *name)
{
	return exclude_child(p->o.exclude, exclude_root(p->o.exclude), name, false) &
	       EXCLUDE_MATCHED;
}

static void options_init_defaults_are_safe(void **state)
{
	const struct overlay_options *o = &((struct parsed *)*state)->o;

	assert_int_equal(o->rule.gid, GID_UNSET);
	assert_int_equal(o->policy, POLICY_ALWAYS);
	assert_int_equal(o->ownership, OWNERSHIP_CONVERGE);
	assert_int_equal(o->coherence, COHERENCE_SHARED);
	assert_int_equal(o->transport, TRANSPORT_DEV);
	assert_true(o->handoff);
	assert_false(o->idmap);
	assert_false(o->paused);
	assert_int_equal(o->converge_rate, 0);
	assert_int_equal(o->cpu_latency_us, -1);
	assert_true(exclude_is_empty(o->exclude));
	assert_int_equal(o->control_fd, -1);
	assert_int_equal(o->journal_fd, -1);
	assert_int_equal(o->ready_fd, -1);
	assert_int_equal(o->lower_fd, -1);
	assert_int_equal(o->parent_fd, -1);
}

static void options_parse_every_option_is_taken(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(
		parse(p,
		      "gid=4242,policy=OnRootMismatch,ownership=virtual,coherence=exclusive,"
		      "transport=io_uring,handoff=no,idmap=yes,converge_rate=100,cpu_latency=0,total=7,volume=v.1,paused,keep_private,"
		      "run=0123456789abcdef0123456789abcdef,epoch=1.000000001,lower_fd=3,"
		      "parent_fd=4,control_fd=5,journal_fd=6,ready_fd=7"),
		0);
	assert_int_equal(p->o.rule.gid, 4242);
	assert_int_equal(p->o.policy, POLICY_ON_ROOT_MISMATCH);
	assert_int_equal(p->o.ownership, OWNERSHIP_VIRTUAL);
	assert_int_equal(p->o.coherence, COHERENCE_EXCLUSIVE);
	assert_int_equal(p->o.transport, TRANSPORT_IO_URING);
	assert_false(p->o.handoff);
	assert_true(p->o.idmap);
	assert_int_equal(p->o.converge_rate, 100);
	assert_int_equal(p->o.cpu_latency_us, 0);
	assert_int_equal(p->o.expected_files, 7);
	assert_string_equal(p->o.volume, "v.1");
	assert_true(p->o.paused);
	assert_true(p->o.rule.keep_private);
	assert_string_equal(p->o.run_id, "0123456789abcdef0123456789abcdef");
	assert_string_equal(p->o.epoch, "1.000000001");
	assert_int_equal(p->o.lower_fd, 3);
	assert_int_equal(p->o.parent_fd, 4);
	assert_int_equal(p->o.control_fd, 5);
	assert_int_equal(p->o.journal_fd, 6);
	assert_int_equal(p->o.ready_fd, 7);
}

static void options_parse_bad_values_name_option_and_value(void **state)
{
	static const struct {
		const char *text, *option, *value;
		int error;
	} cases[] = {
		{ "gid=", "gid", "\"\"", -EINVAL },
		{ "gid=staff", "gid", "\"staff\"", -EINVAL },
		{ "gid=-1", "gid", "\"-1\"", -EINVAL },
		{ "gid=+1", "gid", "\"+1\"", -EINVAL },
		{ "gid= 1", "gid", "\" 1\"", -EINVAL },
		{ "gid=0x10", "gid", "\"0x10\"", -EINVAL },
		{ "gid=1.5", "gid", "\"1.5\"", -EINVAL },
		{ "gid=4294967295", "gid", "\"4294967295\"", -ERANGE },
		{ "gid=4294967296", "gid", "\"4294967296\"", -ERANGE },
		{ "gid=99999999999999999999999", "gid", "999", -ERANGE },
		{ "policy=always", "policy", "\"always\"", -EINVAL },
		{ "policy=", "policy", "\"\"", -EINVAL },
		{ "ownership=Converge", "ownership", "\"Converge\"", -EINVAL },
		{ "coherence=both", "coherence", "\"both\"", -EINVAL },
		{ "transport=uring", "transport", "\"uring\"", -EINVAL },
		{ "idmap=perhaps", "idmap", "\"perhaps\"", -EINVAL },
		{ "handoff=maybe", "handoff", "\"maybe\"", -EINVAL },
		{ "cpu_latency=-1", "cpu_latency", "\"-1\"", -EINVAL },
		{ "cpu_latency=1000001", "cpu_latency", "out of range", -ERANGE },
		{ "converge_rate=-1", "converge_rate", "\"-1\"", -EINVAL },
		{ "converge_rate=18446744073709551616", "converge_rate", "184", -ERANGE },
		{ "run=0123", "run", "\"0123\"", -EINVAL },
		{ "run=0123456789ABCDEF0123456789ABCDEF", "run", "ABC", -EINVAL },
		{ "run=0123456789abcdef0123456789abcdef0", "run", "def0", -EINVAL },
		{ "epoch=", "epoch", "\"\"", -EINVAL },
		{ "volume=../up", "volume", "\"../up\"", -EINVAL },
		{ "volume=", "volume", "\"\"", -EINVAL },
		{ "control_fd=x", "control_fd", "\"x\"", -EINVAL },
		{ "ready_fd=2147483648", "ready_fd", "\"2147483648\"", -ERANGE },
		{ "exclude=", "exclude", "\"\"", -EINVAL },
		{ "exclude=!x", "exclude", "\"!x\"", -EINVAL },
		{ "nonsense", "nonsense", "unknown", -EINVAL },
		{ "nonsense=1", "nonsense", "unknown", -EINVAL },
		{ "gid", "gid", "unknown", -EINVAL },
		{ "ro=1", "ro", "unknown", -EINVAL },
		{ "gid=1,nonsense", "nonsense", "unknown", -EINVAL },
	};
	struct parsed *p = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (parse(p, cases[i].text) != cases[i].error ||
		    !strstr(p->error, cases[i].option) || !strstr(p->error, cases[i].value) ||
		    strchr(p->error, '\n'))
			fail_msg("%s: \"%s\"", cases[i].text, p->error);
	}
}

static void options_parse_a_long_value_is_cut(void **state)
{
	struct parsed *p = *state;
	char text[2000] = "gid=";

	memset(text + 4, 'x', sizeof(text) - 5);
	assert_int_equal(parse(p, text), -EINVAL);
	assert_true(strlen(p->error) < OPTIONS_ERROR_MAX);
	assert_non_null(strstr(p->error, "gid"));
}

static void options_parse_empty_parts_are_nothing(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(parse(p, ""), 0);
	assert_int_equal(parse(p, ","), 0);
	assert_int_equal(parse(p, ",,gid=5,,"), 0);
	assert_int_equal(p->o.rule.gid, 5);
}

static void options_parse_the_last_one_wins(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(parse(p, "gid=5,gid=6,policy=RootOnly,policy=Always"), 0);
	assert_int_equal(p->o.rule.gid, 6);
	assert_int_equal(p->o.policy, POLICY_ALWAYS);
}

static void options_parse_quotes_and_backslashes_keep_commas(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(parse(p, "gid=5,exclude=\"a,b\",exclude=c\\,d,paused"), 0);
	assert_true(excludes(p, "a,b"));
	assert_true(excludes(p, "c,d"));
	assert_false(excludes(p, "a"));
	assert_true(p->o.paused);
}

static void options_parse_exclude_alone_is_taken_whole(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(parse(p, "exclude=a,paused"), 0);
	assert_true(excludes(p, "a,paused"));
	assert_false(p->o.paused);
	assert_int_equal(parse(p, "exclude=with\\*star"), 0);
	assert_true(excludes(p, "with*star"));
	assert_false(excludes(p, "withXstar"));
}

static void options_parse_context_keeps_its_commas(void **state)
{
	struct parsed *p = *state;

	assert_string_equal(p->o.context, "");
	assert_int_equal(parse(p, "ro,context=\"u:r:t:s0:c1,c2\",paused"), 0);
	assert_string_equal(p->o.context, "u:r:t:s0:c1,c2");
	assert_true(p->o.paused);
	assert_int_equal(parse(p, "context=none"), 0);
	assert_string_equal(p->o.context, "none");
	assert_int_equal(parse(p, "context="), -EINVAL);
	assert_int_equal(parse(p, "context=container_file_t"), -EINVAL);
	assert_non_null(strstr(p->error, "\"container_file_t\""));
}

static void options_parse_mount_flags_set_and_clear(void **state)
{
	struct parsed *p = *state;

	assert_int_equal(parse(p, "ro,nosuid,nodev,noexec,noatime"), 0);
	assert_true(p->o.rule.read_only);
	assert_int_equal(p->o.mount_attr_set, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
						      MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
						      MOUNT_ATTR_NOATIME);
	assert_int_equal(parse(p, "rw,suid,dev,exec"), 0);
	assert_false(p->o.rule.read_only);
	assert_int_equal(p->o.mount_attr_set, MOUNT_ATTR_NOATIME);
	assert_int_equal(p->o.mount_attr_clear & MOUNT_ATTR_NOSUID, MOUNT_ATTR_NOSUID);
	assert_int_equal(parse(p, "strictatime"), 0);
	assert_int_equal(p->o.mount_attr_set & MOUNT_ATTR__ATIME, MOUNT_ATTR_STRICTATIME);
	assert_int_equal(parse(p, "relatime"), 0);
	assert_int_equal(p->o.mount_attr_set & MOUNT_ATTR__ATIME, MOUNT_ATTR_RELATIME);
	assert_int_equal(parse(p, "norelatime"), 0);
	assert_int_equal(p->o.mount_attr_set & MOUNT_ATTR__ATIME, MOUNT_ATTR_STRICTATIME);
	assert_int_equal(parse(p, "noatime,atime"), 0);
	assert_int_equal(p->o.mount_attr_set & MOUNT_ATTR__ATIME, MOUNT_ATTR_RELATIME);
	assert_int_equal(parse(p, "strictatime,nostrictatime,nodiratime"), 0);
	assert_int_equal(p->o.mount_attr_set & MOUNT_ATTR__ATIME, MOUNT_ATTR_RELATIME);
	assert_true(p->o.mount_attr_set & MOUNT_ATTR_NODIRATIME);
	assert_int_equal(parse(p, "diratime"), 0);
	assert_false(p->o.mount_attr_set & MOUNT_ATTR_NODIRATIME);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(options_init_defaults_are_safe),
		TEST(options_parse_every_option_is_taken),
		TEST(options_parse_bad_values_name_option_and_value),
		TEST(options_parse_a_long_value_is_cut),
		TEST(options_parse_empty_parts_are_nothing),
		TEST(options_parse_the_last_one_wins),
		TEST(options_parse_quotes_and_backslashes_keep_commas),
		TEST(options_parse_exclude_alone_is_taken_whole),
		TEST(options_parse_context_keeps_its_commas),
		TEST(options_parse_mount_flags_set_and_clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
