// SPDX-License-Identifier: Apache-2.0
/* The objects of a request: one JSON document, the array that "fsgroupctl --objects" sends; and what plugins find. */
#include "mountd/object_list.h"
#include "plugins/objects.h"
#include "plugins/payload.h"
#include "tests/fuzz/fuzz.h"

static void look_for(json_t *list, const char *namespace)
{
	static const char *const kinds[] = { "Secret", "ConfigMap", "Pod", "PersistentVolume",
					     "TokenRequest" };
	struct volume_builder b = { .objects = list, .pod_namespace = namespace };
	json_t *object = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int r = objects_find(&b, kinds[i], NULL, "a", &object);

		REQUIRE(r <= 0 && (r < 0 || json_is_object(object)));
		REQUIRE(fuzz_is_line(b.error));
		(void)objects_find(&b, kinds[i], "", "a", &object);
	}
	REQUIRE(objects_find_pod(&b, &object) <= 0);
}

/* Keys and values of whatever maps there are become files, as a secret's do. */
static void collect(json_t *list)
{
	AUTO(payload) *payload = payload_new();
	char error[512] = "";
	const char *key;
	json_t *object, *value;
	size_t i;

	REQUIRE(payload);
	json_array_foreach(list, i, object) {
		json_object_foreach(json_object_get(object, "data"), key, value) {
			const char *text = json_string_value(value);

			(void)payload_key_is_valid(key);
			if (payload_add(payload, key, text ? text : "", text ? strlen(text) : 0,
					0644, "fuzz", error, sizeof(error)) < 0)
				REQUIRE(fuzz_is_line(error));
		}
	}
	if (payload_seal(payload, error, sizeof(error)) < 0)
		return;
	for (i = 0; i < payload->count; i++) {
		const char *path = payload->entries[i].path;

		REQUIRE(path[0] && path[0] != '/' && strlen(path) <= PAYLOAD_PATH_MAX);
		REQUIRE(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 &&
			!strstr(path, "/../"));
		REQUIRE(payload_find(payload, path) == &payload->entries[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *objects = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	AUTO_FREE char *namespace = NULL;
	char error[OBJECT_LIST_ERROR_MAX] = "";
	json_t *list = NULL;

	if (object_list_select(objects, size % 2 ? "ns/pod" : NULL, &list, &namespace, error) < 0) {
		REQUIRE(error[0] && fuzz_is_line(error));
	} else {
		REQUIRE(namespace);
		look_for(list, namespace);
		collect(list);
	}
	json_decref(list);
	json_decref(objects);
	return 0;
}
