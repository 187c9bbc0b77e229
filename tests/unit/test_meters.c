// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mountd/meters.h"

/* All of it as text, NUL-terminated. */
static void write_all(struct meters *meters, char *ret_text, size_t size)
{
	FILE *out = fmemopen(ret_text, size, "w");

	assert_non_null(out);
	meters_write(meters, out);
	fclose(out);
}

static void meters_request_counts_by_exit_and_time(void **state)
{
	AUTO(meters) *meters = meters_new();
	char text[16384];

	(void)state;
	assert_non_null(meters);
	meters_request(meters, "mount", 0, 900);
	meters_request(meters, "mount", 0, 1000);
	meters_request(meters, "mount", 1, 3000000);
	meters_request(meters, "list", 0, 61000000);
	write_all(meters, text, sizeof(text));
	assert_non_null(strstr(text, "fsgroupfs_requests_total{command=\"mount\",exit=\"0\"} 2\n"));
	assert_non_null(strstr(text, "fsgroupfs_requests_total{command=\"mount\",exit=\"1\"} 1\n"));
	/* The end of a bucket is in it; buckets add up. */
	assert_non_null(strstr(text, "_seconds_bucket{command=\"mount\",le=\"0.001\"} 2\n"));
	assert_non_null(strstr(text, "_seconds_bucket{command=\"mount\",le=\"2.5\"} 2\n"));
	assert_non_null(strstr(text, "_seconds_bucket{command=\"mount\",le=\"10\"} 3\n"));
	assert_non_null(strstr(text, "_seconds_bucket{command=\"mount\",le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(text, "_seconds_sum{command=\"mount\"} 3.001900\n"));
	assert_non_null(strstr(text, "_seconds_count{command=\"mount\"} 3\n"));
	/* Longer than the last bucket. */
	assert_non_null(strstr(text, "_seconds_bucket{command=\"list\",le=\"60\"} 0\n"));
	assert_non_null(strstr(text, "_seconds_bucket{command=\"list\",le=\"+Inf\"} 1\n"));
}

static void meters_plugin_and_event_are_families_of_their_own(void **state)
{
	AUTO(meters) *meters = meters_new();
	char text[16384];

	(void)state;
	assert_non_null(meters);
	meters_plugin(meters, "secret", "set_up", "ok", 10);
	meters_plugin(meters, "secret", "set_up", "EIO", 10);
	meters_event(meters, "mounted");
	write_all(meters, text, sizeof(text));
	assert_non_null(strstr(text, "# TYPE fsgroupfs_plugin_call_duration_seconds histogram\n"));
	assert_non_null(strstr(text, "{plugin=\"secret\",call=\"set_up\",result=\"EIO\"} 1\n"));
	assert_non_null(
		strstr(text, "duration_seconds_count{plugin=\"secret\",call=\"set_up\"} 2\n"));
	assert_non_null(strstr(text, "fsgroupfs_events_total{kind=\"mounted\"} 1\n"));
}

static void metric_labels_escapes_values(void **state)
{
	char text[128] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(out);
	metric_labels(out, "a", "x\"y\\z\n", "b", "", NULL);
	fclose(out);
	assert_string_equal(text, "{a=\"x\\\"y\\\\z\\n\",b=\"\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meters_request_counts_by_exit_and_time),
		cmocka_unit_test(meters_plugin_and_event_are_families_of_their_own),
		cmocka_unit_test(metric_labels_escapes_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
