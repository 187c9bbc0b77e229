// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mountd/ctl/doctor.h"

/* How many of the findings on a release are not "ok". */
static size_t judge(const char *release)
{
	struct doctor d = { .findings = json_array() };
	const json_t *item;
	size_t count = 0, i;

	doctor_judge_release(&d, release);
	assert_true(json_array_size(d.findings) > 0);
	json_array_foreach(d.findings, i, item) {
		if (strcmp(json_string_value(json_object_get(item, "verdict")), "ok") == 0)
			continue;
		count++;
	}
	json_decref(d.findings);
	return count;
}

static void doctor_judge_release_by_number(void **state)
{
	(void)state;
	assert_int_equal(judge("6.1.0-13-amd64"), 5);
	assert_int_equal(judge("6.5.0"), 4);
	assert_int_equal(judge("6.8.12"), 3);
	assert_int_equal(judge("6.9"), 1);
	assert_int_equal(judge("6.15.1-custom"), 0);
	assert_int_equal(judge("7.0"), 0);
	assert_int_equal(judge("5.15.0-91-generic"), 5);
	assert_int_equal(judge("unknown"), 1);
}

/* Texts of others are in a finding. */
static void doctor_find_makes_a_message_printable(void **state)
{
	struct doctor d = { .findings = json_array() };
	const json_t *item;

	(void)state;
	doctor_find(&d, "x", VERDICT_FAIL, NULL, "%s", "a\n\xff");
	item = json_array_get(d.findings, 0);
	assert_string_equal(json_string_value(json_object_get(item, "message")), "a\\x0a\\xff");
	assert_true(json_is_null(json_object_get(item, "mend")));
	json_decref(d.findings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doctor_judge_release_by_number),
		cmocka_unit_test(doctor_find_makes_a_message_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
