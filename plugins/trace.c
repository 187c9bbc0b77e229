// SPDX-License-Identifier: Apache-2.0
#include "plugins/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static const char *name_of(int result)
{
	const char *name = result < 0 ? strerrorname_np(-result) : "ok";

	return name ? name : "error";
}

static void say(const struct volume_builder *b, const char *call, const char *result,
		uint64_t began_us)
{
	char line[256];
	const struct traced_call traced = { .plugin = b->trace->plugin->name,
					    .call = call,
					    .result = result,
					    .us = now_us() - began_us,
					    .line = line };

	snprintf(line, sizeof(line), "vol=%s plugin=%s call=%s result=%s us=%" PRIu64, b->id,
		 traced.plugin, call, result, traced.us);
	b->trace->say(b, &traced);
}

static int done(const struct volume_builder *b, const char *call, int result, uint64_t began_us)
{
	say(b, call, name_of(result), began_us);
	return result;
}

static int trace_check(struct volume_builder *b)
{
	uint64_t began = now_us();

	return done(b, "check", b->trace->plugin->check(b), began);
}

static int trace_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	uint64_t began = now_us();

	return done(b, "set_up", b->trace->plugin->set_up(b, gid, ret_lower, ret_ownership), began);
}

static int trace_certify(struct volume_builder *b, char **ret_text)
{
	uint64_t began = now_us();

	return done(b, "certify", b->trace->plugin->certify(b, ret_text), began);
}

static bool trace_is_set_up(struct volume_builder *b)
{
	uint64_t began = now_us();
	bool is_set_up = b->trace->plugin->is_set_up(b);

	say(b, "is_set_up", is_set_up ? "yes" : "no", began);
	return is_set_up;
}

static int trace_refresh(struct volume_builder *b, gid_t gid, bool *ret_changed)
{
	uint64_t began = now_us();
	int r = b->trace->plugin->refresh(b, gid, ret_changed);

	say(b, "refresh", r < 0 ? name_of(r) : *ret_changed ? "changed" : "unchanged", began);
	return r;
}

static int trace_restore(struct volume_builder *b, int version)
{
	uint64_t began = now_us();

	return done(b, "restore", b->trace->plugin->restore(b, version), began);
}

static int trace_open_lower(struct volume_builder *b, int *ret_lower)
{
	uint64_t began = now_us();

	return done(b, "open_lower", b->trace->plugin->open_lower(b, ret_lower), began);
}

static int trace_tear_down(struct volume_builder *b)
{
	uint64_t began = now_us();

	return done(b, "tear_down", b->trace->plugin->tear_down(b), began);
}

static int trace_mount_device(struct volume_builder *b, const struct device_request *request,
			      const struct device_place *place)
{
	uint64_t began = now_us();

	return done(b, "mount_device", b->trace->plugin->mount_device(b, request, place), began);
}

static int trace_unmount_device(struct volume_builder *b, const struct device_place *place)
{
	uint64_t began = now_us();

	return done(b, "unmount_device", b->trace->plugin->unmount_device(b, place), began);
}

static int trace_grow_device(struct volume_builder *b, int mount_fd, bool *ret_grown)
{
	uint64_t began = now_us();
	int r = b->trace->plugin->grow_device(b, mount_fd, ret_grown);

	say(b, "grow_device", r < 0 ? name_of(r) : *ret_grown ? "grown" : "filled", began);
	return r;
}

const struct volume_plugin *
trace_plugin(struct trace *trace, struct volume_builder *b, const struct volume_plugin *plugin,
	     void (*sink)(const struct volume_builder *b, const struct traced_call *call))
{
	struct volume_plugin *table = &trace->table;

	trace->plugin = plugin;
	trace->say = sink;
	*table = *plugin;
	table->check = trace_check;
	table->set_up = trace_set_up;
	table->open_lower = trace_open_lower;
	table->tear_down = trace_tear_down;
	if (plugin->certify)
		table->certify = trace_certify;
	if (plugin->is_set_up)
		table->is_set_up = trace_is_set_up;
	if (plugin->refresh)
		table->refresh = trace_refresh;
	if (plugin->restore)
		table->restore = trace_restore;
	if (plugin->mount_device)
		table->mount_device = trace_mount_device;
	if (plugin->unmount_device)
		table->unmount_device = trace_unmount_device;
	if (plugin->grow_device)
		table->grow_device = trace_grow_device;
	b->trace = trace;
	return table;
}
