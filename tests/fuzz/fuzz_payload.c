// SPDX-License-Identifier: Apache-2.0
/*
 * What a payload volume is made of: one JSON object with a volume's "source" and the "objects" of the call, given to
 * each of the four plugins, with a host that makes no directory: everything is collected, nothing is written.
 */
#include <errno.h>

#include "plugins/plugin.h"
#include "tests/fuzz/fuzz.h"

static int no_directory(struct volume_builder *b, const char *name, const char *plugin,
			json_t *source, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership, bool *ret_ran)
{
	(void)name;
	(void)plugin;
	(void)gid;
	(void)ret_lower;
	(void)ret_ownership;
	(void)ret_ran;
	REQUIRE(json_is_object(source));
	REQUIRE(b->error[0] == '\0');
	return -EROFS;
}

static const struct host host = { .set_up = no_directory };

static void set_up(const struct volume_plugin *plugin, json_t *source, json_t *objects)
{
	struct volume_builder b = {
		.id = "v",
		.host = &host,
		.source = source,
		.dir_fd = -1,
		.dir_path = "/volume",
		.objects = objects,
		.pod_namespace = "default",
	};
	enum ownership_outcome outcome;
	int lower = -1, r = plugin->check(&b);

	REQUIRE(r <= 0 && fuzz_is_line(b.error) && (r == 0) == (b.error[0] == '\0'));
	if (r < 0)
		return;
	free(plugin->identity(&b));
	r = plugin->set_up(&b, GID_UNSET, &lower, &outcome);
	REQUIRE(r < 0 && lower == -1 && fuzz_is_line(b.error));
	REQUIRE(r == -EROFS || b.error[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct volume_plugin *const plugins[] = {
		&plugin_secret,
		&plugin_config_map,
		&plugin_downward_api,
		&plugin_projected,
	};
	json_t *input = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	json_t *source = json_object_get(input, "source");
	json_t *objects = json_object_get(input, "objects");

	if (json_is_object(source) && json_is_array(objects)) {
		for (size_t i = 0; i < ARRAY_SIZE(plugins); i++)
			set_up(plugins[i], source, objects);
	}
	json_decref(input);
	return 0;
}
