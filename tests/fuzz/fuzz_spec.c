// SPDX-License-Identifier: Apache-2.0
/* A spec from outside: read, checked by its plugin, recorded without secrets, and read back the same. */
#include "mountd/host.h"
#include "mountd/spec.h"
#include "plugins/plugin.h"
#include "tests/fuzz/fuzz.h"

static int has_secret_key(json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	json_object_foreach(value, key, item) {
		if (strncmp(key, "kubernetes.io/secret/", 21) == 0 || has_secret_key(item))
			return 1;
	}
	json_array_foreach(value, i, item) {
		if (has_secret_key(item))
			return 1;
	}
	return 0;
}

static void check_source(const struct spec *spec)
{
	const struct volume_plugin *plugin = plugin_find(spec->plugin);
	/* The host's functions look at what is around the builder. */
	struct building building = {
		.b = {
			.id = "fuzz",
			.host = &host_table,
			.source = spec->source,
			.dir_fd = -1,
			.dir_path = "/nowhere",
			.read_only = spec->read_only,
			.metadata = json_object(),
		},
		.root = "/nowhere",
		.boot_id = "fuzz",
		.name = "",
	};
	struct volume_builder *b = &building.b;

	/* What a check has not taken, identity() is not asked. */
	if (plugin && plugin->check(b) == 0) {
		AUTO_FREE char *identity = plugin->identity(b);

		REQUIRE(identity);
	}
	REQUIRE(fuzz_is_line(b->error));
	json_decref(b->metadata);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = fuzz_text(data, size);
	AUTO_FREE char *record = NULL;
	AUTO_FREE char *again = NULL;
	AUTO(spec) *spec = NULL;
	AUTO(spec) *restored = NULL;
	char error[SPEC_ERROR_MAX];

	if (spec_parse(NULL, NULL, text, &spec, error) < 0) {
		REQUIRE(error[0] && fuzz_is_line(error));
		return 0;
	}
	record = spec_record(spec);
	REQUIRE(record && spec_restore(spec->plugin, record, &restored) == 0);
	REQUIRE(!has_secret_key(restored->object));
	REQUIRE(json_equal(spec->object, restored->object));
	again = spec_record(restored);
	REQUIRE(again && strcmp(record, again) == 0);
	check_source(spec);
	return 0;
}
