/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_USAGE_H
#define MOUNTD_USAGE_H

/*
 * usage: how much volumes take of what they may take, where only counting files can tell (an emptyDir's
 * sizeLimit on disk).
 *
 * A thread of its own counts, at idle priority: every USAGE_EVERY_MS, and sooner for a volume that
 * somebody asks for. Nobody who asks waits. Crossing the limit is an event, once each way; nothing is
 * stopped or removed. Knows the store and plugins' tables; any thread.
 */

#include "fs/base/cleanup.h"
#include "mountd/manager.h"
#include "store/store.h"

#define USAGE_EVERY_MS 60000

struct usages;

/* usages_new: starts the thread. 0, -ENOMEM, -EAGAIN. */
int usages_new(struct manager *m, struct usages **ret_usages);

/* usages_free: waits for the thread, which stops at the end of a count that has begun. */
void usages_free(struct usages *usages);

/*
 * usages_json: what was counted last: {"bytes", "limitBytes", "entries", "complete"}; null: it has no such
 * limit, or has not been counted yet. Has it counted again when that was some time ago. The caller's.
 */
json_t *usages_json(struct usages *usages, const struct volume_record *vol);

#endif
