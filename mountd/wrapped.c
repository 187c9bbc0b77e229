// SPDX-License-Identifier: Apache-2.0
#include "mountd/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/log.h"
#include "mountd/flow.h"
#include "mountd/host.h"
#include "mountd/manager_impl.h"

/* A call into the plugin of a wrapped volume; the counterpart of struct volume_work. */
struct inner {
	struct building building;
	const struct volume_plugin *plugin;
	struct trace trace;
	struct wrapped_record *record;
	struct spec *spec;
	json_t *metadata;
	char *dir_path;
	int dir_fd; /* -1: the directory is not there */
};

static void inner_free(struct inner *inner)
{
	if (!inner)
		return;
	wrapped_record_free(inner->record);
	spec_free(inner->spec);
	json_decref(inner->metadata);
	free(inner->dir_path);
	cleanup_fd(&inner->dir_fd);
	free(inner);
}
DEFINE_AUTO(inner)

static int no_memory(struct volume_builder *b)
{
	return host_fail(b, -ENOMEM, "out of memory");
}

static int store_failed(struct volume_builder *b, int error)
{
	char why[PLUGIN_ERROR_MAX];

	return host_fail(b, error, "%s", store_why(error, why, sizeof(why)));
}

/* What the wrapped volume's plugin complained of, named after the volume it belongs to. */
static int inner_failed(struct volume_builder *b, const struct inner *inner, int error)
{
	const char *why = inner->building.b.error;

	return host_fail(b, error, "%s: %.400s", inner->plugin->name,
			 why[0] ? why : strerror(-error));
}

/* The name on record of what is called @name in the volume of @b. */
static int record_name(struct volume_builder *b, const char *name, char **ret_name)
{
	const char *outer = building_of(b)->name;
	char quoted[64];

	if (!name[0] || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    strlen(name) > NAME_MAX)
		return host_fail(b, -EINVAL, "%s: not a name for a wrapped volume",
				 log_quote(name, quoted, sizeof(quoted)));
	if (asprintf(ret_name, "%s%s%s", outer, outer[0] ? "/" : "", name) < 0) {
		*ret_name = NULL;
		return no_memory(b);
	}
	return 0;
}

static int open_dir(struct volume_builder *b, const char *name, bool make, struct inner *inner)
{
	int r;

	if (make && mkdirat(b->dir_fd, name, 0700) < 0 && errno != EEXIST)
		r = -errno;
	else
		r = 0;
	if (r == 0) {
		inner->dir_fd =
			openat(b->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inner->dir_fd < 0 && (errno != ENOENT || make))
			r = -errno;
	}
	return r < 0 ? host_fail(b, r, "%s/%s: %s", b->dir_path, name, strerror(-r)) : 0;
}

/*
 * All that a call into the plugin of @record (which becomes the inner's) needs.
 * @source: the live one, or NULL for the recorded one, which lacks secrets
 */
static int inner_open(struct volume_builder *b, const char *name, json_t *source, bool make_dir,
		      struct wrapped_record **io_record, struct inner **ret_inner)
{
	const struct building *outer = building_of(b);
	AUTO(inner) *inner = calloc(1, sizeof(*inner));
	int r;

	if (!inner)
		return no_memory(b);
	inner->dir_fd = -1;
	inner->record = take_ptr(io_record);
	inner->plugin = plugin_find(inner->record->plugin);
	if (!inner->plugin)
		return host_fail(b, -ENOSYS, "plugin %s is not built yet", inner->record->plugin);
	r = spec_restore(inner->record->plugin, inner->record->source, &inner->spec);
	if (r < 0)
		return host_fail(b, r, "the recorded source of %s cannot be read: %s", name,
				 strerror(-r));
	if (inner->record->plugin_metadata)
		inner->metadata = json_loads(inner->record->plugin_metadata, 0, NULL);
	if (!json_is_object(inner->metadata)) {
		json_decref(inner->metadata);
		inner->metadata = json_object();
	}
	if (!inner->metadata || asprintf(&inner->dir_path, "%s/%s", b->dir_path, name) < 0) {
		inner->dir_path = NULL;
		return no_memory(b);
	}
	r = open_dir(b, name, make_dir, inner);
	if (r < 0)
		return r;
	/* Flags, objects, what is allowed: as for the volume around it. */
	inner->building = *outer;
	inner->building.b.source = source ? source : inner->spec->source;
	inner->building.b.read_only |= inner->spec->read_only;
	inner->building.b.dir_fd = inner->dir_fd;
	inner->building.b.dir_path = inner->dir_path;
	inner->building.b.metadata = inner->metadata;
	inner->building.b.error[0] = '\0';
	inner->building.plugin = inner->plugin;
	inner->building.name = inner->record->name;
	inner->building.depth = outer->depth + 1;
	r = flow_metadata_restore(&inner->building.b);
	if (r < 0)
		return inner_failed(b, inner, r);
	inner->plugin = trace_plugin(&inner->trace, &inner->building.b, inner->plugin, host_trace);
	*ret_inner = take_ptr(&inner);
	return 0;
}

/* -ENOENT: there is no such wrapped volume. */
static int inner_find(struct volume_builder *b, const char *name, struct inner **ret_inner)
{
	AUTO(wrapped_record) *record = NULL;
	AUTO_FREE char *full = NULL;
	int r = record_name(b, name, &full);

	if (r < 0)
		return r;
	r = store_wrapped_get(building_of(b)->manager->store, b->id, full, &record);
	if (r == -ENOENT)
		return host_fail(b, r, "%s/%s: not set up", b->dir_path, name);
	if (r < 0)
		return store_failed(b, r);
	return inner_open(b, name, NULL, false, &record, ret_inner);
}

/* ---- setting up ---- */

/* emptyDir reaches nothing outside the volume's own directory: it needs nobody's leave. */
static int check_rules(struct volume_builder *b, const char *plugin)
{
	const struct front_rules *front = building_of(b)->front;

	if (strcmp(plugin, plugin_empty_dir.name) == 0)
		return 0;
	if (!front)
		return host_fail(b, -EACCES, "plugin %s: not to be set up now", plugin);
	if (!rules_plugin_is_allowed(front, plugin))
		return host_fail(
			b, -EACCES,
			"plugin %s is not allowed here: no rule 'plugins' of mountd.conf names it",
			plugin);
	return 0;
}

/* The record of a wrapped volume that is not on record yet. */
static int record_new(struct volume_builder *b, const char *name, const struct spec *spec,
		      struct wrapped_record **ret_record)
{
	AUTO(wrapped_record) *record = wrapped_record_new();

	if (!record)
		return no_memory(b);
	record->volume_id = strdup(b->id);
	record->name = strdup(name);
	record->plugin = strdup(spec->plugin);
	record->source = spec_record(spec);
	if (!record->volume_id || !record->name || !record->plugin || !record->source)
		return no_memory(b);
	*ret_record = take_ptr(&record);
	return 0;
}

/* The recorded form of the source: what spec_parse() takes away is not recorded. */
static int spec_of(struct volume_builder *b, const char *plugin, json_t *source,
		   struct spec **ret_spec)
{
	AUTO_FREE char *text = json_dumps(source, JSON_COMPACT);
	char why[SPEC_ERROR_MAX];
	int r;

	if (!text)
		return no_memory(b);
	r = spec_parse(plugin, text, NULL, ret_spec, why);
	return r < 0 ? host_fail(b, r, "%.400s", why[0] ? why : strerror(-r)) : 0;
}

/* What is on record under this name must be the same volume: what is there would be taken for ours. */
static int check_same(struct volume_builder *b, const struct wrapped_record *old,
		      struct inner *inner)
{
	AUTO_FREE char *before = NULL, *now = NULL;
	AUTO(spec) *spec = NULL;
	struct volume_builder as_before = inner->building.b, as_now = inner->building.b;
	int r = -EEXIST;

	if (strcmp(old->plugin, inner->plugin->name) == 0)
		r = spec_restore(old->plugin, old->source, &spec);
	if (r == 0) {
		/* As recorded, both: what is not recorded makes no difference. */
		as_before.source = spec->source;
		as_now.source = inner->spec->source;
		before = inner->plugin->identity(&as_before);
		now = inner->plugin->identity(&as_now);
		if (!before || !now)
			return no_memory(b);
		r = strcmp(before, now) == 0 ? 0 : -EEXIST;
	}
	if (r == -EEXIST)
		return host_fail(b, r, "%s: a %s of another source is set up there",
				 inner->dir_path, old->plugin);
	return r < 0 ? host_fail(b, r, "%s: %s", inner->dir_path, strerror(-r)) : 0;
}

static int record_inner(struct volume_builder *b, struct inner *inner, const char *certifies)
{
	struct wrapped_record record = *inner->record;
	AUTO_FREE char *metadata = flow_metadata(&inner->building.b);
	int r;

	if (!metadata)
		return no_memory(b);
	record.plugin_metadata = metadata;
	record.certifies = (char *)certifies;
	r = store_wrapped_set(building_of(b)->manager->store, &record);
	return r < 0 ? store_failed(b, r) : 0;
}

/* The intent is on record before anything is done, and success, with the marker, after it. */
static int set_up_inner(struct volume_builder *b, struct inner *inner, gid_t gid, struct flow *flow)
{
	int r, recorded;

	r = record_inner(b, inner, inner->record->certifies);
	if (r < 0)
		return r;
	step_reached(building_of(b)->manager, STEP_WRAPPED_RECORDED);
	r = flow_set_up(flow, gid);
	if (r < 0)
		inner_failed(b, inner, r);
	step_reached(building_of(b)->manager, STEP_WRAPPED_SET_UP);
	/* Also of a set-up that failed: its tear-down must find what it made. */
	recorded = record_inner(b, inner, r < 0 ? NULL : flow->certifies);
	step_reached(building_of(b)->manager, STEP_WRAPPED_DONE);
	return r < 0 ? r : recorded;
}

int wrapped_set_up(struct volume_builder *b, const char *name, const char *plugin, json_t *source,
		   gid_t gid, int *ret_lower, enum ownership_outcome *ret_ownership, bool *ret_ran)
{
	struct building *outer = building_of(b);
	AUTO(wrapped_record) *old = NULL, *record = NULL;
	AUTO(spec) *spec = NULL;
	AUTO(inner) *inner = NULL;
	AUTO(flow) *flow = NULL;
	AUTO_FREE char *full = NULL;
	int r;

	if (outer->depth + 1 >= PLUGIN_DEPTH_MAX)
		return host_fail(b, -ELOOP, "volumes wrap volumes more than %d deep",
				 PLUGIN_DEPTH_MAX);
	if ((r = record_name(b, name, &full)) < 0 || (r = check_rules(b, plugin)) < 0 ||
	    (r = spec_of(b, plugin, source, &spec)) < 0)
		return r;
	r = store_wrapped_get(outer->manager->store, b->id, full, &old);
	if (r < 0 && r != -ENOENT)
		return store_failed(b, r);
	r = record_new(b, full, spec, &record);
	if (r < 0)
		return r;
	if (old) {
		record->plugin_metadata = take_ptr(&old->plugin_metadata);
		record->certifies = take_ptr(&old->certifies);
	}
	r = inner_open(b, name, source, true, &record, &inner);
	if (r < 0)
		return r;
	r = inner->plugin->check(&inner->building.b);
	if (r < 0)
		return inner_failed(b, inner, r);
	if (old && (r = check_same(b, old, inner)) < 0)
		return r;
	flow = flow_new(inner->plugin, &inner->building);
	if (!flow)
		return no_memory(b);
	r = set_up_inner(b, inner, gid, flow);
	if (r < 0)
		return r;
	*ret_lower = take_fd(&flow->lower_fd);
	*ret_ownership = flow->outcome;
	*ret_ran = flow->ran || flow->changed;
	return 0;
}

/* ---- looking ---- */

/* @ret_inner: on record, its directory there, and set up as far as can be told; else -ENOENT. */
static int inner_find_set_up(struct volume_builder *b, const char *name, struct inner **ret_inner)
{
	AUTO(inner) *inner = NULL;
	int r = inner_find(b, name, &inner);

	if (r < 0)
		return r;
	if (inner->dir_fd < 0 || !flow_is_set_up(inner->plugin, &inner->building))
		return host_fail(b, -ENOENT, "%s: not set up", inner->dir_path);
	*ret_inner = take_ptr(&inner);
	return 0;
}

int wrapped_open_lower(struct volume_builder *b, const char *name, int *ret_lower)
{
	AUTO(inner) *inner = NULL;
	int r = inner_find_set_up(b, name, &inner);

	if (r < 0)
		return r;
	r = inner->plugin->open_lower(&inner->building.b, ret_lower);
	return r < 0 ? inner_failed(b, inner, r) : 0;
}

int wrapped_certify(struct volume_builder *b, const char *name, char **ret_text)
{
	AUTO(inner) *inner = NULL;
	int r = inner_find_set_up(b, name, &inner);

	if (r < 0)
		return r;
	if (inner->plugin->attributes.idempotency != IDEMPOTENCY_MARKER)
		return host_fail(b, -ENOENT, "%s: has no marker", inner->dir_path);
	r = inner->plugin->certify(&inner->building.b, ret_text);
	return r < 0 ? inner_failed(b, inner, r) : 0;
}

/* ---- tearing down ---- */

int wrapped_tear_down(struct volume_builder *b, const char *name)
{
	AUTO(inner) *inner = NULL;
	int r = inner_find(b, name, &inner);

	if (r == -ENOENT) {
		b->error[0] = '\0';
		return 0;
	}
	if (r < 0)
		return r;
	if (inner->dir_fd >= 0) {
		r = inner->plugin->tear_down(&inner->building.b);
		if (r < 0)
			return inner_failed(b, inner, r);
	}
	if (unlinkat(b->dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		r = -errno;
		return host_fail(b, r, "%s: %s", inner->dir_path, strerror(-r));
	}
	step_reached(building_of(b)->manager, STEP_WRAPPED_TORN_DOWN);
	/* The record last: whoever is cut off before finds it, and goes on. */
	r = store_wrapped_delete(building_of(b)->manager->store, b->id, inner->record->name);
	return r < 0 ? store_failed(b, r) : 0;
}
