// SPDX-License-Identifier: Apache-2.0
/*
 * block: volumes on block devices: one plugin under the six names that Kubernetes has for them. Attaching is
 * somebody else's work: the caller says which device it is. A device is mounted once, when it is staged;
 * its consumers bind that mount.
 */
#include "plugins/plugin.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/device_grow.h"
#include "plugins/device_ready.h"
#include "plugins/lower.h"

/* How long a device may take to become free after its last mount. */
#define FREE_MS 1000

#define PARTITION_MAX 255
#define FS_TYPE_MAX 31

/* What names a device to each provider (source: Kubernetes core/v1, the volume source of that name). */
struct kind {
	const char *names[3]; /* strings that must be there */
	const char *number;   /* an integer that must be there, or NULL */
	const char *lists[2]; /* arrays of strings, one of which must be there */
	bool has_partition;
};

static const struct kind gce = { .names = { "pdName" }, .has_partition = true };
static const struct kind aws = { .names = { "volumeID" }, .has_partition = true };
static const struct kind azure = { .names = { "diskName", "diskURI" } };
static const struct kind cinder = { .names = { "volumeID" } };
static const struct kind iscsi = { .names = { "targetPortal", "iqn" }, .number = "lun" };
static const struct kind fc = { .lists = { "targetWWNs", "wwids" } };

/* ---- the source ---- */

static int check_texts(struct volume_builder *b, const struct kind *kind)
{
	const char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kind->names) && kind->names[i]; i++) {
		r = builder_source_text(b, kind->names[i], &text);
		if (r == 0 && !text[0])
			r = builder_fail(b, -EINVAL, "%s: missing", kind->names[i]);
	}
	return r;
}

static bool is_list_of_texts(const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		if (!json_is_string(item))
			return false;
	}
	return json_array_size(list) > 0;
}

static int check_lists(struct volume_builder *b, const struct kind *kind)
{
	bool any = kind->lists[0] == NULL;

	for (size_t i = 0; i < ARRAY_SIZE(kind->lists) && kind->lists[i]; i++) {
		json_t *list = json_object_get(b->source, kind->lists[i]);

		if (!list || json_is_null(list) ||
		    (json_is_array(list) && json_array_size(list) == 0))
			continue;
		if (!json_is_array(list) || !is_list_of_texts(list))
			return builder_fail(b, -EINVAL, "%s: not an array of strings",
					    kind->lists[i]);
		any = true;
	}
	return any ? 0 :
		     builder_fail(b, -EINVAL, "%s: missing, and %s too", kind->lists[0],
				  kind->lists[1]);
}

/* A type is a word: it becomes part of a program's name. */
static int check_fs_type(struct volume_builder *b)
{
	const char *type = NULL;
	char quoted[64];
	int r = builder_source_text(b, "fsType", &type);

	for (const char *p = r < 0 ? "" : type; *p; p++) {
		if ((!isalnum((unsigned char)*p) && *p != '_' && *p != '-') ||
		    p - type >= FS_TYPE_MAX)
			return builder_fail(b, -EINVAL, "fsType: %s is not a file system's name",
					    log_quote(type, quoted, sizeof(quoted)));
	}
	return r;
}

static int read_partition(struct volume_builder *b, const struct kind *kind,
			  unsigned *ret_partition)
{
	json_t *value = kind->has_partition ? json_object_get(b->source, "partition") : NULL;

	*ret_partition = 0;
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > PARTITION_MAX)
		return builder_fail(b, -EINVAL, "partition: not a number from 0 to %d",
				    PARTITION_MAX);
	*ret_partition = (unsigned)json_integer_value(value);
	return 0;
}

static int check(struct volume_builder *b, const struct kind *kind)
{
	unsigned partition;
	int r = check_texts(b, kind);

	if (r == 0 && kind->number && !json_is_integer(json_object_get(b->source, kind->number)))
		r = builder_fail(b, -EINVAL, "%s: missing, or not a number", kind->number);
	if (r == 0)
		r = check_lists(b, kind);
	if (r == 0)
		r = check_fs_type(b);
	return r < 0 ? r : read_partition(b, kind, &partition);
}

static char *identity(const struct volume_builder *b, const struct kind *kind)
{
	json_t *parts = json_object(), *value;
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(kind->names) && kind->names[i]; i++)
		json_object_set(parts, kind->names[i], json_object_get(b->source, kind->names[i]));
	for (size_t i = 0; i < ARRAY_SIZE(kind->lists) && kind->lists[i]; i++) {
		value = json_object_get(b->source, kind->lists[i]);
		if (json_array_size(value) > 0)
			json_object_set(parts, kind->lists[i], value);
	}
	/* fc has a lun beside its names, which tells apart what they lead to. */
	value = json_object_get(b->source, "lun");
	if ((kind->number || kind->lists[0]) && json_is_integer(value))
		json_object_set(parts, "lun", value);
	value = json_object_get(b->source, "partition");
	if (kind->has_partition && json_integer_value(value) > 0)
		json_object_set(parts, "partition", value);
	text = json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(parts);
	return text;
}

/* ---- staging ---- */

static int place_path_fail(struct volume_builder *b, const struct device_place *place)
{
	char quoted[256];

	return builder_fail(b, -EBUSY, "%s: something that is not of this device is mounted there",
			    log_quote(place->path, quoted, sizeof(quoted)));
}

static bool is_staged(struct volume_builder *b, const struct device_place *place)
{
	return b->host->is_mounted(b, place->dir_fd, place->name, builder_mount_recorded(b));
}

/* The file system type that the request and the source agree on; NULL: neither says one. */
static int agree_on_type(struct volume_builder *b, struct device_request *io_request)
{
	const char *type = NULL;
	char quoted[64];
	int r = builder_source_text(b, "fsType", &type);

	if (r < 0 || !type[0])
		return r;
	if (io_request->fs_type && strcmp(io_request->fs_type, type) != 0)
		return builder_fail(b, -EINVAL,
				    "two conflicting file systems: %s and the source's %s",
				    log_quote(io_request->fs_type, quoted, sizeof(quoted)), type);
	io_request->fs_type = type;
	return 0;
}

/* A mount that an interrupted stage made before it could be recorded. */
static bool is_left_behind(struct volume_builder *b, const struct device *device,
			   const struct device_place *place)
{
	const char *uuid = device_uuid(b);

	return uuid && device_is_mounted_at(device, uuid, place->dir_fd, place->name);
}

static int stage(struct volume_builder *b, struct device *device,
		 const struct device_request *request, const struct device_place *place)
{
	struct device_content content;
	uint64_t mount_id = builder_mount_in(place->dir_fd, place->name);
	int r;

	if (mount_id != 0 && is_left_behind(b, device, place))
		return builder_mount_record(b, mount_id);
	if (mount_id != 0)
		return place_path_fail(b, place);
	r = device_ready(b, device, request, false, &content);
	if (r == 0)
		r = device_mount(b, device, &content, request->options, place->dir_fd, place->name,
				 &mount_id);
	return r < 0 ? r : builder_mount_record(b, mount_id);
}

static int mount_device(struct volume_builder *b, const struct kind *kind,
			const struct device_request *request, const struct device_place *place)
{
	struct device_request agreed = *request;
	AUTO(device) *device = NULL;
	unsigned partition = 0;
	int r = agree_on_type(b, &agreed);

	if (r == 0 && is_staged(b, place))
		return 0;
	if (r == 0)
		r = read_partition(b, kind, &partition);
	if (r == 0)
		r = device_open(b, request->path, partition, &device);
	return r < 0 ? r : stage(b, device, &agreed, place);
}

/* Whether nobody on the node uses the device any more. */
static int await_free(struct volume_builder *b, const struct device *device)
{
	AUTO_FD int fd = -1;

	return device_claim(b, device, FREE_MS, &fd);
}

static int probe_device(struct volume_builder *b, const struct kind *kind,
			const struct device_request *request, char *ret_text, size_t size)
{
	struct device_request agreed = *request;
	AUTO(device) *device = NULL;
	unsigned partition = 0;
	int r = agree_on_type(b, &agreed);

	if (r == 0)
		r = read_partition(b, kind, &partition);
	if (r == 0)
		r = device_open(b, request->path, partition, &device);
	return r < 0 ? r : device_probe(b, device, &agreed, ret_text, size);
}

static int block_unmount_device(struct volume_builder *b, const struct device_place *place)
{
	uint64_t mount_id = builder_mount_recorded(b);
	AUTO(device) *device = NULL;
	int found = device_reopen(b, &device), r;

	if (mount_id == 0 && found == 0 && is_left_behind(b, device, place))
		mount_id = builder_mount_in(place->dir_fd, place->name);
	if (mount_id == 0)
		return 0; /* what was never mounted here need not be free */
	r = b->host->unmount(b, place->dir_fd, place->name, mount_id);
	if (r < 0)
		return r;
	/* What has gone nobody can use. The mount stays on record until the device is free. */
	if (found != -ENODEV)
		r = found < 0 ? found : await_free(b, device);
	if (r == 0)
		builder_mount_forget(b);
	return r;
}

/* ---- the consumers ---- */

static int bind_staged(struct volume_builder *b)
{
	AUTO_FD int fd = -1;
	struct stat st;
	int r = b->host->open_staged(b, &fd);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0) {
		r = -errno;
		return builder_fail(b, r, "the staged device: %s", strerror(-r));
	}
	return lower_bind(b, fd, &st);
}

static int block_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	int r = lower_is_set_up(b) ? 0 : bind_staged(b);

	return r < 0 ? r : lower_set_up(b, gid, ret_lower, ret_ownership);
}

/* The tables differ in what names a device. */
#define BLOCK_PLUGIN(symbol, key, kind)                                                            \
	static int kind##_check(struct volume_builder *b)                                          \
	{                                                                                          \
		return check(b, &kind);                                                            \
	}                                                                                          \
	static char *kind##_identity(const struct volume_builder *b)                               \
	{                                                                                          \
		return identity(b, &kind);                                                         \
	}                                                                                          \
	static int kind##_mount_device(struct volume_builder *b,                                   \
				       const struct device_request *request,                       \
				       const struct device_place *place)                           \
	{                                                                                          \
		return mount_device(b, &kind, request, place);                                     \
	}                                                                                          \
	static int kind##_probe_device(struct volume_builder *b,                                   \
				       const struct device_request *request, char *ret_text,       \
				       size_t size)                                                \
	{                                                                                          \
		return probe_device(b, &kind, request, ret_text, size);                            \
	}                                                                                          \
	const struct volume_plugin symbol = {                                                      \
		.name = key,                                                                       \
		.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,                             \
				.manages_ownership = true,                                         \
				.attachable = true },                                              \
		.check = kind##_check,                                                             \
		.identity = kind##_identity,                                                       \
		.set_up = block_set_up,                                                            \
		.is_set_up = lower_is_set_up,                                                      \
		.open_lower = lower_open,                                                          \
		.tear_down = lower_tear_down,                                                      \
		.mount_device = kind##_mount_device,                                               \
		.probe_device = kind##_probe_device,                                               \
		.unmount_device = block_unmount_device,                                            \
		.grow_device = device_grow,                                                        \
		.device_identity = device_identity,                                                \
		.device_unfinished = device_unfinished,                                            \
	}

BLOCK_PLUGIN(plugin_gce_persistent_disk, "gcePersistentDisk", gce);
BLOCK_PLUGIN(plugin_aws_elastic_block_store, "awsElasticBlockStore", aws);
BLOCK_PLUGIN(plugin_azure_disk, "azureDisk", azure);
BLOCK_PLUGIN(plugin_cinder, "cinder", cinder);
BLOCK_PLUGIN(plugin_iscsi, "iscsi", iscsi);
BLOCK_PLUGIN(plugin_fc, "fc", fc);
