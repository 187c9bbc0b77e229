// SPDX-License-Identifier: Apache-2.0
#include "mountd/flow.h"

#include <errno.h>
#include <string.h>

#include "fs/base/log.h"

struct flow *flow_new(const struct volume_plugin *plugin, struct building *building)
{
	struct flow *flow = calloc(1, sizeof(*flow));

	if (flow)
		*flow = (struct flow){ .plugin = plugin, .building = building, .lower_fd = -1 };
	return flow;
}

void flow_free(struct flow *flow)
{
	if (!flow)
		return;
	cleanup_fd(&flow->lower_fd);
	free(flow->certifies);
	free(flow);
}

/* ---- markers ---- */

static bool is_wrapped(const struct building *building)
{
	return building->name[0] != '\0';
}

/* What the marker on record certifies: -ENOENT: there is none. */
static int marker_get(const struct building *building, char **ret_certifies)
{
	struct store *store = building->manager->store;
	AUTO(wrapped_record) *wrapped = NULL;
	int r;

	if (!is_wrapped(building))
		return store_marker_get(store, building->b.id, ret_certifies);
	r = store_wrapped_get(store, building->b.id, building->name, &wrapped);
	if (r < 0)
		return r;
	if (!wrapped->certifies)
		return -ENOENT;
	*ret_certifies = take_ptr(&wrapped->certifies);
	return 0;
}

static int marker_drop(const struct building *building)
{
	struct store *store = building->manager->store;
	AUTO(wrapped_record) *wrapped = NULL;
	int r;

	if (!is_wrapped(building))
		return store_marker_drop(store, building->b.id);
	r = store_wrapped_get(store, building->b.id, building->name, &wrapped);
	if (r < 0)
		return r;
	free(take_ptr(&wrapped->certifies));
	return store_wrapped_set(store, wrapped);
}

static bool marker_is_valid(const struct volume_plugin *plugin, struct building *building,
			    const char *recorded)
{
	AUTO_FREE char *found = NULL;

	return plugin->certify(&building->b, &found) == 0 && strcmp(recorded, found) == 0;
}

bool flow_is_set_up(const struct volume_plugin *plugin, struct building *building)
{
	AUTO_FREE char *recorded = NULL;

	switch (plugin->attributes.idempotency) {
	case IDEMPOTENCY_MOUNTPOINT:
		return plugin->is_set_up(&building->b);
	case IDEMPOTENCY_MARKER:
		return marker_get(building, &recorded) == 0 &&
		       marker_is_valid(plugin, building, recorded);
	case IDEMPOTENCY_NONE:
		break;
	}
	return true;
}

/* Whether the marker on record still certifies what is there; else it is dropped, with an event. */
static bool has_marker(struct flow *flow)
{
	struct building *building = flow->building;
	AUTO_FREE char *recorded = NULL;

	if (marker_get(building, &recorded) < 0)
		return false;
	if (marker_is_valid(flow->plugin, building, recorded))
		return true;
	event(building->manager, building->b.id, "marker-dropped",
	      "the marker%s%s no longer matches what is there: set-up runs again",
	      is_wrapped(building) ? " of " : "", building->name);
	if (marker_drop(building) < 0)
		log_line(LOG_WARNING, "mount", "vol=%s ignoring that its marker cannot be dropped",
			 building->b.id);
	return false;
}

static bool needs_set_up(struct flow *flow)
{
	switch (flow->plugin->attributes.idempotency) {
	case IDEMPOTENCY_MOUNTPOINT:
		return !flow->plugin->is_set_up(&flow->building->b);
	case IDEMPOTENCY_MARKER:
		return !has_marker(flow);
	case IDEMPOTENCY_NONE:
		break;
	}
	return true;
}

/* ---- the flow ---- */

/* What becomes of the gid where set_up did not run. */
static enum ownership_outcome outcome_of(const struct volume_plugin *plugin,
					 const struct volume_builder *b)
{
	if (plugin->manages ? !plugin->manages(b) : !plugin->attributes.manages_ownership)
		return OWNERSHIP_IGNORED;
	/* What the plugin alone writes carries its final ownership from birth. */
	return plugin->attributes.is_read_only ? OWNERSHIP_DONE : OWNERSHIP_PRESENT;
}

/* Only after a set-up that succeeded, and with what it takes. */
static int refresh(struct flow *flow, gid_t gid)
{
	struct volume_builder *b = &flow->building->b;

	if (!flow->plugin->attributes.refreshable ||
	    (flow->plugin->attributes.needs_objects && !b->objects))
		return 0;
	return flow->plugin->refresh(b, gid, &flow->changed);
}

int flow_set_up(struct flow *flow, gid_t gid)
{
	const struct volume_plugin *plugin = flow->plugin;
	struct volume_builder *b = &flow->building->b;
	int r = 0;

	b->error[0] = '\0';
	flow->ran = needs_set_up(flow) || plugin->open_lower(b, &flow->lower_fd) < 0;
	b->error[0] = '\0'; /* what is not there yet is no failure */
	if (flow->ran) {
		r = plugin->set_up(b, gid, &flow->lower_fd, &flow->outcome);
	} else {
		flow->outcome = outcome_of(plugin, b);
		r = refresh(flow, gid);
	}
	if (r == 0 && plugin->attributes.idempotency == IDEMPOTENCY_MARKER)
		r = plugin->certify(b, &flow->certifies);
	return r;
}

/* ---- metadata ---- */

/* A member of the recorded object that no plugin has; absent: version 0. */
static const char KEY_VERSION[] = "metadataVersion";

char *flow_metadata(const struct volume_builder *b)
{
	const struct building *building = (const struct building *)b;
	int version = building->plugin->attributes.metadata_version;
	json_t *recorded = json_copy(b->metadata);
	char *text = NULL;

	if (recorded && (version == 0 ||
			 json_object_set_new(recorded, KEY_VERSION, json_integer(version)) == 0))
		text = json_dumps(recorded, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(recorded);
	return text;
}

int flow_metadata_restore(struct volume_builder *b)
{
	const struct volume_plugin *plugin = building_of(b)->plugin;
	json_int_t version = json_integer_value(json_object_get(b->metadata, KEY_VERSION));

	json_object_del(b->metadata, KEY_VERSION);
	/* Of a volume that was never set up there is nothing to bring to any form. */
	if (version == plugin->attributes.metadata_version || json_object_size(b->metadata) == 0)
		return 0;
	if (version < 0 || version > plugin->attributes.metadata_version || !plugin->restore)
		return host_fail(
			b, -ENOTSUP,
			"what is recorded of %s has version %lld, of which this program knows nothing",
			plugin->name, (long long)version);
	return plugin->restore(b, (int)version);
}
