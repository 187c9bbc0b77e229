/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_JSON_TEXT_H
#define TESTS_UNIT_JSON_TEXT_H

/* json_text: JSON in C strings, with ' for ". After cmocka.h. */

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* json_text_load: the caller's reference; a text that is no JSON fails the test. */
static inline json_t *json_text_load(const char *text)
{
	char *copy = strdup(text);
	json_t *value;

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	value = json_loads(copy, 0, NULL);
	free(copy);
	assert_non_null(value);
	return value;
}

#endif
