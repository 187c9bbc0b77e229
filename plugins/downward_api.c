// SPDX-License-Identifier: Apache-2.0
/* downwardAPI: fields of the Pod and resources of its containers as files, in memory. */
#include "plugins/payload_volume.h"

static int collect(struct payload_request *q)
{
	return payload_from_downward(q, q->b->source);
}

static const struct payload_kind kind = { .in_memory = true, .collect = collect };

PAYLOAD_PLUGIN(plugin_downward_api, "downwardAPI", &kind);
