// SPDX-License-Identifier: Apache-2.0
#include "mountd/redact.h"

#include <stdbool.h>
#include <string.h>

static bool is_shown(const char *key, const char *const *shown)
{
	for (; *shown; shown++) {
		if (strcmp(key, *shown) == 0)
			return true;
	}
	return false;
}

static void redact_object(json_t *object, const char *const *shown)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(object, next, key, value) {
		if (!is_shown(key, shown))
			json_object_set_new(object, key, json_null());
	}
}

void redact(json_t *result, const char *const *shown)
{
	if (json_is_object(result))
		redact_object(result, shown);
	for (size_t i = json_array_size(result); i > 0; i--) {
		json_t *item = json_array_get(result, i - 1);

		if (json_is_object(item))
			redact_object(item, shown);
		else
			json_array_remove(result, i - 1);
	}
}
