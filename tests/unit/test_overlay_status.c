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

#include "fs/base/cleanup.h"
#include "mountd/overlay_status.h"

#define RUN "0123456789abcdef0123456789abcdef"

static void overlay_status_parse_every_field_is_read(void **state)
{
	struct overlay_status s;

	(void)state;
	assert_int_equal(
		overlay_status_parse(
			"status\nstate=converged\nreason=3 immutable files\nrun=" RUN
			"\nepoch=12.000000034\nseen=10\nchanged=5\ncorrect=2\nexcluded=1\n"
			"failed=3\ntotal=11\nrate=100\npaused=1\nconverge_rate=7\n"
			"keeper_pid=12\nserver_pid=13\nrestarts=2\ndata_path=passthrough\n"
			"keeper_version=1.2\nserver_version=1.3\nprotocol=2\nupgrades=4\nnumber=17\nfailover=no: too old\n"
			"mount_id=4294967296\nholders=1\n",
			&s),
		0);
	assert_int_equal(s.state, VOLUME_CONVERGED);
	assert_string_equal(s.reason, "3 immutable files");
	assert_string_equal(s.run, RUN);
	assert_string_equal(s.epoch, "12.000000034");
	assert_true(s.counters.seen == 10 && s.counters.changed == 5 && s.counters.correct == 2);
	assert_true(s.counters.excluded == 1 && s.counters.failed == 3);
	assert_true(s.total == 11 && s.rate == 100 && s.converge_rate == 7 && s.restarts == 2);
	assert_string_equal(s.keeper_version, "1.2");
	assert_string_equal(s.server_version, "1.3");
	assert_true(s.protocol == 2 && s.upgrades == 4 && s.number == 17);
	assert_string_equal(s.no_failover, "too old");
	assert_true(s.paused && s.held && s.passthrough);
	assert_int_equal(s.keeper_pid, 12);
	assert_int_equal(s.server_pid, 13);
	assert_true(s.mount_id == 4294967296ULL);
	assert_true(s.failures_total == 3);
}

static void overlay_status_request_takes_one_after_the_other(void **state)
{
	struct overlay_status s;
	char *rest = s.requests;
	const char *name;
	uint64_t count;

	(void)state;
	assert_int_equal(
		overlay_status_parse("status\nstate=virtual\nrequests=LOOKUP:12 OP63:3\n", &s), 0);
	assert_true(overlay_status_request(&rest, &name, &count));
	assert_string_equal(name, "LOOKUP");
	assert_true(count == 12);
	assert_true(overlay_status_request(&rest, &name, &count));
	assert_string_equal(name, "OP63");
	assert_true(count == 3);
	assert_false(overlay_status_request(&rest, &name, &count));
}

static void overlay_status_request_what_is_none_ends_it(void **state)
{
	static const char *const bad[] = { "",	       "LOOKUP", ":1",	  "LOOKUP:",
					   "LOOKUP:x", "look:1", "A B:1", "A;:1" };
	char text[16], *rest;
	const char *name;
	uint64_t count;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		rest = strcpy(text, bad[i]);
		assert_false(overlay_status_request(&rest, &name, &count));
	}
}

static void overlay_status_parse_absent_fields_are_zero(void **state)
{
	struct overlay_status s;

	(void)state;
	assert_int_equal(
		overlay_status_parse("status\nstate=failed\nreason=server keeps dying\n", &s), 0);
	assert_int_equal(s.state, VOLUME_FAILED);
	assert_string_equal(s.reason, "server keeps dying");
	assert_int_equal(overlay_status_parse("status\nstate=virtual\n", &s), 0);
	assert_int_equal(s.state, VOLUME_VIRTUAL);
	assert_string_equal(s.reason, "");
	assert_string_equal(s.run, "");
	assert_false(s.passthrough);
}

static void overlay_status_parse_bad_messages_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"ok\n",
		"status\n",
		"status\nstate=frob\n",
		"status\nstate=tearing-down\n",
		"status\nstate=native\nseen=x\n",
		"status\nstate=native\nseen=-1\n",
		"status\nstate=native\npaused=2\n",
		"status\nstate=native\nserver_pid=99999999999\n",
		"status\nstate=native\nrun=../../x\n",
		"status\nstate=native\nrun=0123\n",
	};
	struct overlay_status s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(overlay_status_parse(bad[i], &s), -EBADMSG);
}

static void overlay_status_parse_texts_are_made_printable(void **state)
{
	struct overlay_status s;

	(void)state;
	assert_int_equal(overlay_status_parse("status\nstate=native\nreason=a\033[2Jb\n", &s), 0);
	assert_string_equal(s.reason, "a?[2Jb");
}

static void overlay_status_failures_are_listed(void **state)
{
	struct failure_record *list = NULL;

	(void)state;
	assert_int_equal(
		overlay_status_failures("status\nfailures=2\nfailure.0=1 a\\x20b\nfailure.1=30 c\n",
					&list),
		2);
	assert_int_equal(list[0].error, 1);
	assert_string_equal(list[0].path, "a\\x20b");
	assert_int_equal(list[1].error, 30);
	overlay_failures_free(list, 2);
}

static void overlay_status_failures_fewer_than_announced(void **state)
{
	struct failure_record *list = NULL;

	(void)state;
	assert_int_equal(overlay_status_failures("status\nfailures=100000\nfailure.0=1 a\n", &list),
			 1);
	overlay_failures_free(list, 1);
	assert_int_equal(overlay_status_failures("status\n", &list), 0);
	overlay_failures_free(list, 0);
	assert_int_equal(overlay_status_failures("status\nfailures=1\nfailure.0=nospace\n", &list),
			 -EBADMSG);
	assert_int_equal(overlay_status_failures("status\nfailures=1\nfailure.0=x y\n", &list),
			 -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlay_status_parse_every_field_is_read),
		cmocka_unit_test(overlay_status_request_takes_one_after_the_other),
		cmocka_unit_test(overlay_status_request_what_is_none_ends_it),
		cmocka_unit_test(overlay_status_parse_absent_fields_are_zero),
		cmocka_unit_test(overlay_status_parse_bad_messages_are_refused),
		cmocka_unit_test(overlay_status_parse_texts_are_made_printable),
		cmocka_unit_test(overlay_status_failures_are_listed),
		cmocka_unit_test(overlay_status_failures_fewer_than_announced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
