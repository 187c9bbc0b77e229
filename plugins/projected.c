// SPDX-License-Identifier: Apache-2.0
/* projected: Secrets, ConfigMaps, the Pod and tokens as files of one volume, in memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/payload_volume.h"

static int from_secret(struct payload_request *q, const json_t *source)
{
	return payload_from_secret(q, source, "name");
}

static const struct {
	const char *key;
	int (*collect)(struct payload_request *q, const json_t *source);
} kinds[] = {
	{ "secret", from_secret },
	{ "configMap", payload_from_config_map },
	{ "downwardAPI", payload_from_downward },
	{ "serviceAccountToken", payload_from_token },
};

/* The one kind of source in @projection: its index, or -EINVAL. */
static int kind_of(struct volume_builder *b, json_t *projection, size_t index)
{
	char quoted[64];
	int found = -1;
	const char *key;
	json_t *value;

	json_object_foreach(projection, key, value) {
		size_t i = 0;

		if (json_is_null(value))
			continue;
		while (i < ARRAY_SIZE(kinds) && strcmp(kinds[i].key, key) != 0)
			i++;
		if (i == ARRAY_SIZE(kinds))
			return builder_fail(b, -EINVAL, "sources[%zu]: %s is not supported", index,
					    log_quote(key, quoted, sizeof(quoted)));
		if (!json_is_object(value))
			return builder_fail(b, -EINVAL, "sources[%zu].%s: not an object", index,
					    key);
		if (found >= 0)
			return builder_fail(b, -EINVAL, "sources[%zu]: has both %s and %s", index,
					    kinds[found].key, key);
		found = (int)i;
	}
	if (found < 0)
		return builder_fail(b, -EINVAL, "sources[%zu]: has no source", index);
	return found;
}

static int collect(struct payload_request *q)
{
	json_t *sources = json_object_get(q->b->source, "sources"), *projection;
	size_t i;

	if (!json_is_array(sources))
		return builder_fail(q->b, -EINVAL, "sources: %s",
				    sources ? "not an array" : "missing");
	json_array_foreach(sources, i, projection) {
		struct payload_request part = *q;
		char where[64];
		int kind = kind_of(q->b, projection, i);
		int r = kind;

		if (kind >= 0) {
			snprintf(where, sizeof(where), "sources[%zu].%s.", i, kinds[kind].key);
			part.where = where;
			r = kinds[kind].collect(&part,
						json_object_get(projection, kinds[kind].key));
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static const struct payload_kind projected_kind = { .in_memory = true, .collect = collect };

PAYLOAD_PLUGIN(plugin_projected, "projected", &projected_kind);
