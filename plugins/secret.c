// SPDX-License-Identifier: Apache-2.0
/* secret: the values of a Secret as files, in memory. */
#include "plugins/payload_volume.h"

static int collect(struct payload_request *q)
{
	return payload_from_secret(q, q->b->source, "secretName");
}

static const struct payload_kind kind = { .in_memory = true, .collect = collect };

PAYLOAD_PLUGIN(plugin_secret, "secret", &kind);
