// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mountd/redact.h"

static const char *const shown[] = { "id", "state", NULL };

static void assert_redacted(const char *before, const char *after)
{
	json_t *value = json_loads(before, JSON_DECODE_ANY, NULL);
	json_t *wanted = json_loads(after, JSON_DECODE_ANY, NULL);

	assert_non_null(value);
	assert_non_null(wanted);
	redact(value, shown);
	assert_true(json_equal(value, wanted));
	json_decref(value);
	json_decref(wanted);
}

static void redact_object_keeps_what_is_listed(void **state)
{
	(void)state;
	assert_redacted(
		"{\"id\": {\"a\": 1}, \"state\": [1], \"source\": {\"secret\": 1}, \"new\": 1}",
		"{\"id\": {\"a\": 1}, \"state\": [1], \"source\": null, \"new\": null}");
}

static void redact_array_all_objects_are(void **state)
{
	(void)state;
	assert_redacted("[{\"id\": 1, \"x\": 2}, {\"x\": 3}, {}]",
			"[{\"id\": 1, \"x\": null}, {\"x\": null}, {}]");
	assert_redacted("[\"secret\", {\"id\": 1}, [{\"x\": 1}], null]", "[{\"id\": 1}]");
}

static void redact_nothing_is_left_alone(void **state)
{
	(void)state;
	redact(NULL, shown);
	assert_redacted("null", "null");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(redact_object_keeps_what_is_listed),
		cmocka_unit_test(redact_array_all_objects_are),
		cmocka_unit_test(redact_nothing_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
