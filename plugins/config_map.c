// SPDX-License-Identifier: Apache-2.0
/* configMap: the values of a ConfigMap as files, on disk. */
#include "plugins/payload_volume.h"

static int collect(struct payload_request *q)
{
	return payload_from_config_map(q, q->b->source);
}

static const struct payload_kind kind = { .in_memory = false, .collect = collect };

PAYLOAD_PLUGIN(plugin_config_map, "configMap", &kind);
