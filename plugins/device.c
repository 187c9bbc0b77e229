// SPDX-License-Identifier: Apache-2.0
#include "plugins/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/base/io.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "plugins/builder.h"

#ifndef BLKGETDISKSEQ
#define BLKGETDISKSEQ _IOR(0x12, 128, uint64_t) /* Linux 5.15 (source: include/uapi/linux/fs.h) */
#endif

#define CLAIM_PAUSE_MS 40

/* b->metadata: what identifies the device, and where it is while this boot lasts. */
static const char KEY_IDENTITY[] = "deviceIdentity", KEY_PLACE[] = "devicePlace";

/* ---- sysfs ---- */

static int sysfs_open(dev_t rdev, int *ret_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(rdev), minor(rdev));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int parse_rdev(const char *text, dev_t *ret_rdev)
{
	const char *colon = strchr(text, ':');
	uint32_t minor_number = 0, major_number = 0;
	char first[16];

	if (!colon || (size_t)(colon - text) >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, (size_t)(colon - text));
	first[colon - text] = '\0';
	if (parse_u32(first, &major_number) < 0 || parse_u32(colon + 1, &minor_number) < 0)
		return -EINVAL;
	*ret_rdev = makedev(major_number, minor_number);
	return 0;
}

/* "/dev/NAME" as the kernel names the device; whether that is it is not looked at. */
static int kernel_path(int sysfs_fd, char *ret_path, size_t size)
{
	static const char word[] = "DEVNAME=";
	char text[1024], *line, *next = text;
	int r = io_read_text(sysfs_fd, "uevent", text, sizeof(text));

	if (r < 0)
		return r;
	while ((line = strsep(&next, "\n")) != NULL) {
		if (strncmp(line, word, strlen(word)) == 0) {
			snprintf(ret_path, size, "/dev/%s", line + strlen(word));
			return 0;
		}
	}
	return -ENOENT;
}

/* The device number of partition @number of the disk, by what sysfs says of each. */
static int find_partition(int sysfs_fd, unsigned number, dev_t *ret_rdev)
{
	AUTO_FD int own = openat(sysfs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	struct dirent *entry;
	int r = -ENXIO;

	if (!dir)
		return -errno;
	take_fd(&own);
	while (r == -ENXIO && (entry = readdir(dir)) != NULL) {
		AUTO_FD int fd = -1;
		char text[32];
		uint32_t found = 0;

		if (entry->d_name[0] == '.' || entry->d_type != DT_DIR)
			continue;
		fd = openat(sysfs_fd, entry->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || io_read_line(fd, "partition", text, sizeof(text)) < 0 ||
		    parse_u32(text, &found) < 0 || found != number)
			continue;
		r = io_read_line(fd, "dev", text, sizeof(text));
		if (r == 0)
			r = parse_rdev(text, ret_rdev);
	}
	closedir(dir);
	return r;
}

/* Disks say it in different places; a partition has that of its disk. */
static void read_serial(int sysfs_fd, char *ret_text, size_t size)
{
	static const char *const names[] = { "serial",	       "device/serial", "wwid",
					     "device/wwid",    "../serial",	"../device/serial",
					     "../device/wwid", "dm/uuid" };
	char text[128];

	ret_text[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names) && !ret_text[0]; i++) {
		if (io_read_line(sysfs_fd, names[i], text, sizeof(text)) == 0)
			log_quote(text + strspn(text, " "), ret_text, size);
	}
}

/* ---- opening ---- */

void device_free(struct device *device)
{
	if (!device)
		return;
	cleanup_fd(&device->fd);
	free(device);
}

void device_program_path(const struct device *device, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "/proc/%d/fd/%d", (int)getpid(), device->fd);
}

static int reopen(int node_fd, int flags, int *ret_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", node_fd);
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* Whether @path leads to device @rdev; then also a descriptor of it. */
static bool node_open(const char *path, dev_t rdev, int *ret_fd)
{
	AUTO_FD int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode) || st.st_rdev != rdev)
		return false;
	cleanup_fd(ret_fd);
	*ret_fd = take_fd(&fd);
	return true;
}

void device_mount_path(const struct device *device, char *ret_path, size_t size)
{
	AUTO_FD int fd = -1;

	if (node_open(device->path, device->rdev, &fd))
		snprintf(ret_path, size, "%s", device->path);
	else
		snprintf(ret_path, size, "/proc/self/fd/%d", device->fd);
}

int device_look(struct volume_builder *b, const struct device *device, int *ret_fd)
{
	char quoted[256];
	int r = reopen(device->fd, O_RDONLY, ret_fd);

	return r < 0 ? builder_fail(b, r, "%s: %s", log_quote(device->path, quoted, sizeof(quoted)),
				    strerror(-r)) :
		       0;
}

/* What the opened device says of itself. */
static int measure(struct volume_builder *b, struct device *device)
{
	AUTO_FD int fd = -1;
	int read_only = 0;
	char quoted[256];
	int r = device_look(b, device, &fd);

	if (r < 0)
		return r;
	log_quote(device->path, quoted, sizeof(quoted));
	if (ioctl(fd, BLKGETSIZE64, &device->size_bytes) < 0 ||
	    ioctl(fd, BLKROGET, &read_only) < 0) {
		r = -errno;
		return builder_fail(b, r, "%s: asking its size: %s", quoted, strerror(-r));
	}
	if (device->size_bytes == 0)
		return builder_fail(b, -ENOMEDIUM, "%s: its size is 0", quoted);
	if (ioctl(fd, BLKGETDISKSEQ, &device->disk_seq) < 0)
		device->disk_seq = 0;
	device->read_only = read_only != 0;
	return 0;
}

/* From a node to all that is known of the device. */
static int identify(struct volume_builder *b, struct device *device)
{
	AUTO_FD int sysfs_fd = -1;
	char path[PATH_MAX];

	if (sysfs_open(device->rdev, &sysfs_fd) == 0) {
		read_serial(sysfs_fd, device->serial, sizeof(device->serial));
		if (kernel_path(sysfs_fd, path, sizeof(path)) == 0 &&
		    node_open(path, device->rdev, &device->fd))
			memcpy(device->path, path, sizeof(path));
	}
	return measure(b, device);
}

/* The device becomes that partition of it. */
static int choose_partition(struct volume_builder *b, struct device *device, unsigned partition)
{
	AUTO_FD int sysfs_fd = -1, part_fd = -1;
	char quoted[256], path[PATH_MAX];
	dev_t rdev = 0;
	int r = sysfs_open(device->rdev, &sysfs_fd);

	log_quote(device->path, quoted, sizeof(quoted));
	if (r == 0)
		r = find_partition(sysfs_fd, partition, &rdev);
	if (r == 0)
		r = sysfs_open(rdev, &part_fd);
	if (r < 0)
		return builder_fail(b, -ENXIO, "%s has no partition %u", quoted, partition);
	r = kernel_path(part_fd, path, sizeof(path));
	if (r < 0 || !node_open(path, rdev, &device->fd))
		return builder_fail(b, -ENXIO, "partition %u of %s: no node of device %u:%u",
				    partition, quoted, major(rdev), minor(rdev));
	device->rdev = rdev;
	memcpy(device->path, path, sizeof(path));
	return 0;
}

int device_pin(struct volume_builder *b, int node_fd, const char *path, unsigned partition,
	       struct device **ret_device)
{
	AUTO(device) *device = calloc(1, sizeof(*device));
	char quoted[256];
	struct stat st;
	int r = 0;

	if (!device)
		return builder_fail(b, -ENOMEM, "out of memory");
	log_quote(path, quoted, sizeof(quoted));
	device->fd = fcntl(node_fd, F_DUPFD_CLOEXEC, 3);
	if (device->fd < 0 || fstat(node_fd, &st) < 0) {
		r = -errno;
		return builder_fail(b, r, "%s: %s", quoted, strerror(-r));
	}
	if (!S_ISBLK(st.st_mode))
		return builder_fail(b, -ENOTBLK, "%s: not a block device", quoted);
	device->rdev = st.st_rdev;
	snprintf(device->path, sizeof(device->path), "%s", path);
	if (partition > 0)
		r = choose_partition(b, device, partition);
	if (r == 0)
		r = identify(b, device);
	if (r == 0)
		*ret_device = take_ptr(&device);
	return r;
}

int device_open(struct volume_builder *b, const char *path, unsigned partition,
		struct device **ret_device)
{
	AUTO_FD int fd = -1;
	int r = builder_open_source(b, path, &fd);

	return r < 0 ? r : device_pin(b, fd, path, partition, ret_device);
}

/* ---- identity ---- */

int device_record(struct volume_builder *b, const struct device *device, const char *fs_type,
		  const char *uuid)
{
	char rdev[32];
	json_t *identity, *place;

	snprintf(rdev, sizeof(rdev), "%u:%u", major(device->rdev), minor(device->rdev));
	identity = json_pack("{s:s, s:s, s:I, s:s}", "fsType", fs_type, "uuid", uuid, "sizeBytes",
			     (json_int_t)device->size_bytes, "serial", device->serial);
	place = json_pack("{s:s, s:I, s:s}", "dev", rdev, "diskSeq", (json_int_t)device->disk_seq,
			  "bootId", b->host->boot_id(b));
	/* A path that is no UTF-8 is only missed in messages. */
	if (place)
		json_object_set_new(place, "path", json_string(device->path));
	if (json_object_set_new(b->metadata, KEY_IDENTITY, identity) < 0 ||
	    json_object_set_new(b->metadata, KEY_PLACE, place) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

static const char *recorded(const struct volume_builder *b, const char *key, const char *name)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(b->metadata, key), name));

	return text ? text : "";
}

int device_compare(struct volume_builder *b, const struct device *device, const char *fs_type,
		   const char *uuid)
{
	json_t *identity = json_object_get(b->metadata, KEY_IDENTITY);
	const struct {
		const char *name, *recorded, *found;
	} texts[] = {
		{ "file system UUID", recorded(b, KEY_IDENTITY, "uuid"), uuid },
		{ "file system type", recorded(b, KEY_IDENTITY, "fsType"), fs_type },
		{ "serial number", recorded(b, KEY_IDENTITY, "serial"), device->serial },
	};
	char quoted[256];
	json_int_t size = json_integer_value(json_object_get(identity, "sizeBytes"));

	if (!identity)
		return 0;
	log_quote(device->path, quoted, sizeof(quoted));
	/* A disk may be made larger while it is used; that it is the one is then for its file system to say. */
	if ((uint64_t)size > device->size_bytes ||
	    ((uint64_t)size < device->size_bytes && !texts[0].recorded[0]))
		return builder_fail(
			b, -ESTALE,
			"%s is another device than the recorded one: its size is %llu, not %lld",
			quoted, (unsigned long long)device->size_bytes, (long long)size);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		/* What was not known then says nothing now: a device is formatted after it is recorded. */
		if (!texts[i].recorded[0] || strcmp(texts[i].recorded, texts[i].found) == 0)
			continue;
		return builder_fail(
			b, -ESTALE,
			"%s is another device than the recorded one: its %s is \"%.64s\", not \"%.64s\"",
			quoted, texts[i].name, texts[i].found, texts[i].recorded);
	}
	return 0;
}

const char *device_uuid(const struct volume_builder *b)
{
	return json_string_value(
		json_object_get(json_object_get(b->metadata, KEY_IDENTITY), "uuid"));
}

char *device_identity(const struct volume_builder *b)
{
	json_t *size = json_object_get(json_object_get(b->metadata, KEY_IDENTITY), "sizeBytes");
	char *text = NULL;

	if (!size)
		return strdup("");
	if (asprintf(&text, "uuid=%s;type=%s;size=%lld;serial=%s",
		     recorded(b, KEY_IDENTITY, "uuid"), recorded(b, KEY_IDENTITY, "fsType"),
		     (long long)json_integer_value(size), recorded(b, KEY_IDENTITY, "serial")) < 0)
		return NULL;
	return text;
}

int device_reopen(struct volume_builder *b, struct device **ret_device)
{
	json_t *seq = json_object_get(json_object_get(b->metadata, KEY_PLACE), "diskSeq");
	AUTO(device) *device = NULL;
	AUTO_FD int sysfs_fd = -1, node_fd = -1;
	char path[PATH_MAX] = "";
	dev_t rdev = 0;
	int r;

	if (parse_rdev(recorded(b, KEY_PLACE, "dev"), &rdev) < 0 ||
	    strcmp(recorded(b, KEY_PLACE, "bootId"), b->host->boot_id(b)) != 0 ||
	    sysfs_open(rdev, &sysfs_fd) < 0)
		return -ENODEV;
	if (kernel_path(sysfs_fd, path, sizeof(path)) < 0 || !node_open(path, rdev, &node_fd)) {
		snprintf(path, sizeof(path), "%s", recorded(b, KEY_PLACE, "path"));
		if (!node_open(path, rdev, &node_fd))
			return builder_fail(b, -ENXIO,
					    "device %u:%u is there, but no node leads to it",
					    major(rdev), minor(rdev));
	}
	r = device_pin(b, node_fd, path, 0, &device);
	/* A loop device that is free now, or whose node is there and nothing behind it. */
	if (r == -ENOMEDIUM || r == -ENXIO)
		return -ENODEV;
	if (r < 0)
		return r;
	if (device->disk_seq != (uint64_t)json_integer_value(seq))
		return -ENODEV;
	*ret_device = take_ptr(&device);
	return 0;
}

/* ---- claiming ---- */

int device_claim(struct volume_builder *b, const struct device *device, unsigned patience_ms,
		 int *ret_fd)
{
	char quoted[256], holders[PLUGIN_ERROR_MAX / 2] = "";
	int r = reopen(device->fd, O_RDONLY | O_EXCL, ret_fd);

	for (unsigned waited = 0; r == -EBUSY && waited < patience_ms; waited += CLAIM_PAUSE_MS) {
		poll(NULL, 0, CLAIM_PAUSE_MS);
		r = reopen(device->fd, O_RDONLY | O_EXCL, ret_fd);
	}
	if (r == 0)
		return 0;
	log_quote(device->path, quoted, sizeof(quoted));
	if (r == -EBUSY && patience_ms > 0)
		b->host->device_holders(b, device->rdev, holders, sizeof(holders));
	if (r == -EBUSY)
		return builder_fail(b, r, "%s is busy%s%s", quoted, holders[0] ? ": " : "",
				    holders);
	return builder_fail(b, r, "%s: %s", quoted, strerror(-r));
}

bool device_is_same(const struct device *device, int fd)
{
	uint64_t size_bytes = 0, disk_seq = 0;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode) || st.st_rdev != device->rdev ||
	    ioctl(fd, BLKGETSIZE64, &size_bytes) < 0)
		return false;
	if (ioctl(fd, BLKGETDISKSEQ, &disk_seq) < 0)
		disk_seq = 0;
	return size_bytes == device->size_bytes && disk_seq == device->disk_seq;
}
