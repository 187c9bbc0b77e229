// SPDX-License-Identifier: Apache-2.0
#include "plugins/device_ready.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "plugins/builder.h"
#include "plugins/device_program.h"

#define MKFS_MS (60 * 60 * 1000ULL)

/* b->metadata: the program that makes a file system, from before it runs until it has succeeded. */
static const char KEY_MKFS[] = "mkfs";

/* What is formatted, and how (-m 0: no blocks for root alone, as kubelet does). None of it overwrites. */
static const struct {
	const char *fs_type, *program, *args[3];
} makers[] = {
	{ "ext4", "mkfs.ext4", { "-q", "-m", "0" } },
	{ "ext3", "mkfs.ext3", { "-q", "-m", "0" } },
	{ "xfs", "mkfs.xfs", { "-q" } },
	{ "btrfs", "mkfs.btrfs", { "-q" } },
};

static bool is_ext(const char *fs_type)
{
	return strcmp(fs_type, "ext4") == 0 || strcmp(fs_type, "ext3") == 0 ||
	       strcmp(fs_type, "ext2") == 0;
}

/* ---- checking ---- */

/* Exit status (source: fsck(8)): 1 corrected, 2 restart the system (for a mounted one), 4 and up failed. */
static int check_ext(struct volume_builder *b, const struct device *device)
{
	static const char *const preen[3] = { "-p" };
	AUTO(program_result) *result = NULL;
	char line[256], quoted[256];
	int r = device_program_run(b, device, "e2fsck", preen, 0, &result);

	if (r < 0 || (result->exit_status >= 0 && result->exit_status < 4))
		return r;
	return builder_fail(b, -EUCLEAN, "e2fsck of %s failed with status %d: %s",
			    log_quote(device->path, quoted, sizeof(quoted)), result->exit_status,
			    program_result_line(result, line, sizeof(line)));
}

/* ---- formatting ---- */

/* All that "empty" means, on a claimed descriptor. */
static int require_empty(struct volume_builder *b, const struct device *device, int fd)
{
	struct device_content content;
	char quoted[256];
	int r;

	log_quote(device->path, quoted, sizeof(quoted));
	if (device->read_only || b->read_only)
		return builder_fail(b, -EROFS, "%s is not formatted: %s is read-only", quoted,
				    device->read_only ? "it" : "the volume");
	r = device_content_read(fd, &content);
	if (r < 0)
		return builder_fail(b, r, "%s is not formatted: probing it: %s", quoted,
				    strerror(-r));
	if (content.kind != CONTENT_NONE)
		return builder_fail(b, -ENOTEMPTY, "%s is not formatted: it holds %s", quoted,
				    content.what);
	r = device_ends_are_zero(fd, device->size_bytes);
	if (r == -ENOTEMPTY)
		return builder_fail(
			b, r, "%s is not formatted: it is not empty, though nothing known is on it",
			quoted);
	if (r < 0)
		return builder_fail(b, r, "%s is not formatted: reading it: %s", quoted,
				    strerror(-r));
	if (!device_is_same(device, fd))
		return builder_fail(b, -ESTALE, "%s is not formatted: its size has just changed",
				    quoted);
	return 0;
}

static int set_intent(struct volume_builder *b, const char *program)
{
	if (!program)
		json_object_del(b->metadata, KEY_MKFS);
	else if (json_object_set_new(b->metadata, KEY_MKFS, json_string(program)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return b->host->record(b);
}

/* What mkfs has made, read back. */
static int verify(struct volume_builder *b, const struct device *device, const char *fs_type,
		  struct device_content *ret_content)
{
	AUTO_FD int fd = -1;
	int r = device_claim(b, device, DEVICE_GLANCE_MS, &fd);
	char quoted[256];

	if (r < 0)
		return r;
	r = device_content_read(fd, ret_content);
	if (r == 0 && ret_content->kind == CONTENT_FILE_SYSTEM &&
	    strcmp(ret_content->fs_type, fs_type) == 0 && device_is_same(device, fd))
		return 0;
	return builder_fail(b, -EIO, "mkfs.%s reports success, and %s holds %s", fs_type,
			    log_quote(device->path, quoted, sizeof(quoted)),
			    r < 0 ? "what cannot be read" : ret_content->what);
}

/* @io_fd: the claim; given up just before mkfs, which claims the device itself and finds it busy otherwise. */
static int make_fs(struct volume_builder *b, const struct device *device, const char *fs_type,
		   int *io_fd, struct device_content *ret_content)
{
	AUTO(program_result) *result = NULL;
	char line[256], quoted[256], path[PATH_MAX];
	size_t i = 0;
	int r;

	while (i < ARRAY_SIZE(makers) && strcmp(makers[i].fs_type, fs_type) != 0)
		i++;
	if (i == ARRAY_SIZE(makers))
		return builder_fail(b, -EINVAL, "%s is not a file system that is made here",
				    log_quote(fs_type, quoted, sizeof(quoted)));
	if (program_find(makers[i].program, path, sizeof(path)) < 0)
		return builder_fail(b, -ENOENT, "%s is not installed", makers[i].program);
	r = require_empty(b, device, *io_fd);
	if (r == 0)
		r = set_intent(b, makers[i].program);
	if (r == 0)
		r = require_empty(b, device, *io_fd);
	if (r < 0) {
		json_object_del(b->metadata, KEY_MKFS); /* nothing was begun */
		return r;
	}
	cleanup_fd(io_fd);
	r = device_program_run(b, device, makers[i].program, makers[i].args, MKFS_MS, &result);
	if (r < 0)
		return r;
	if (result->exit_status != 0)
		return builder_fail(
			b, -EIO, "%s of %s failed with status %d: %s", makers[i].program,
			log_quote(device->path, quoted, sizeof(quoted)), result->exit_status,
			program_result_line(result, line, sizeof(line)));
	r = verify(b, device, fs_type, ret_content);
	if (r == 0)
		r = device_record(b, device, ret_content->fs_type, ret_content->uuid);
	return r < 0 ? r : set_intent(b, NULL);
}

/* ---- the whole ---- */

const char *device_unfinished(const struct volume_builder *b)
{
	return json_string_value(json_object_get(b->metadata, KEY_MKFS));
}

static int refuse_interrupted(struct volume_builder *b, const struct device *device)
{
	const char *program = device_unfinished(b);
	char quoted[256];

	if (!program)
		return 0;
	return builder_fail(
		b, -EUCLEAN,
		"%.16s of %s was interrupted, and is not repeated: see what is on it, unstage, stage again",
		program, log_quote(device->path, quoted, sizeof(quoted)));
}

/* What is on the device, as far as it can be used. */
static int judge_content(struct volume_builder *b, const struct device *device,
			 const struct device_request *request, int fd,
			 struct device_content *ret_content)
{
	char quoted[256], quoted_type[32];
	int r = device_content_read(fd, ret_content);

	log_quote(device->path, quoted, sizeof(quoted));
	if (r == -EMLINK)
		return builder_fail(
			b, -EUCLEAN,
			"%s holds signatures of several file systems: it is not touched", quoted);
	if (r < 0)
		return builder_fail(b, r, "%s: probing it: %s", quoted, strerror(-r));
	if (ret_content->kind == CONTENT_OTHER)
		return builder_fail(b, -EUCLEAN, "%s holds %s: it is not touched", quoted,
				    ret_content->what);
	if (ret_content->kind == CONTENT_NONE && !request->format)
		return builder_fail(b, -ENODATA,
				    "%s holds no file system, and is not to be formatted", quoted);
	if (ret_content->kind == CONTENT_FILE_SYSTEM && request->fs_type &&
	    strcmp(request->fs_type, ret_content->fs_type) != 0)
		return builder_fail(b, -EINVAL, "%s holds %s, not %s", quoted, ret_content->fs_type,
				    log_quote(request->fs_type, quoted_type, sizeof(quoted_type)));
	return 0;
}

int device_ready(struct volume_builder *b, struct device *device,
		 const struct device_request *request, bool may_be_mounted,
		 struct device_content *ret_content)
{
	AUTO_FD int fd = -1;
	bool claimed;
	char quoted[256];
	int r = refuse_interrupted(b, device);

	if (r < 0)
		return r;
	r = device_claim(b, device, may_be_mounted ? 0 : DEVICE_GLANCE_MS, &fd);
	claimed = r == 0;
	if (r == -EBUSY && may_be_mounted)
		r = device_look(b, device, &fd);
	if (r < 0)
		return r;
	r = judge_content(b, device, request, fd, ret_content);
	if (r == 0)
		r = device_compare(b, device, ret_content->fs_type, ret_content->uuid);
	if (r == 0)
		r = device_record(b, device, ret_content->fs_type, ret_content->uuid);
	if (r == 0)
		r = b->host->record(b);
	if (r < 0)
		return r;
	if (ret_content->kind == CONTENT_NONE && !claimed)
		return builder_fail(b, -EBUSY, "%s is busy and holds no file system",
				    log_quote(device->path, quoted, sizeof(quoted)));
	if (ret_content->kind == CONTENT_NONE)
		return make_fs(b, device, request->fs_type ? request->fs_type : "ext4", &fd,
			       ret_content);
	if (!claimed || device->read_only || b->read_only || !is_ext(ret_content->fs_type))
		return 0;
	cleanup_fd(&fd); /* e2fsck claims it itself */
	return check_ext(b, device);
}

int device_probe(struct volume_builder *b, struct device *device,
		 const struct device_request *request, char *ret_text, size_t size)
{
	const char *fs_type = request->fs_type ? request->fs_type : "ext4";
	struct device_content content = { 0 };
	AUTO_FD int fd = -1;
	char quoted[256];
	int r = refuse_interrupted(b, device);

	if (r == 0)
		r = device_claim(b, device, DEVICE_GLANCE_MS, &fd);
	if (r == 0)
		r = judge_content(b, device, request, fd, &content);
	if (r == 0)
		r = device_compare(b, device, content.fs_type, content.uuid);
	if (r == 0 && content.kind == CONTENT_NONE)
		r = require_empty(b, device, fd);
	if (r < 0)
		return r;
	log_quote(device->path, quoted, sizeof(quoted));
	if (content.kind == CONTENT_NONE)
		snprintf(ret_text, size, "make %.16s on %s, which is empty", fs_type, quoted);
	else if (device->read_only || b->read_only || !is_ext(content.fs_type))
		snprintf(ret_text, size, "mount the %s file system of %s", content.fs_type, quoted);
	else
		snprintf(ret_text, size, "check the %s file system of %s, and mount it",
			 content.fs_type, quoted);
	return 0;
}

/* ---- mounting ---- */

/* The UUID of libblkid's spelling is that of the mounted btrfs. */
static bool same_uuid(int dir_fd, const char *uuid)
{
	struct btrfs_ioctl_fs_info_args found = { 0 };
	char hex[33] = "", wanted[33] = "";
	size_t used = 0;

	for (const char *p = uuid; *p; p++) {
		if (*p == '-')
			continue;
		if (used == sizeof(wanted) - 1)
			return false;
		wanted[used++] = *p;
	}
	if (used != sizeof(wanted) - 1 || ioctl(dir_fd, BTRFS_IOC_FS_INFO, &found) < 0)
		return false;
	format_hex(found.fsid, sizeof(found.fsid), hex);
	return strcmp(hex, wanted) == 0;
}

bool device_is_mounted_at(const struct device *device, const char *uuid, int dir_fd,
			  const char *name)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	/* btrfs has device numbers of its own: there the file system is known by its UUID. */
	return st.st_dev == device->rdev || (major(st.st_dev) == 0 && same_uuid(fd, uuid));
}

int device_mount(struct volume_builder *b, const struct device *device,
		 const struct device_content *content, const char *options, int dir_fd,
		 const char *name, uint64_t *ret_mount_id)
{
	AUTO_FREE char *all = NULL;
	char source[PATH_MAX], quoted[256];
	const char *sep = options && *options ? "," : "";
	uint64_t mount_id = 0;
	int r;

	/* Last, so that it wins over an option "rw". */
	if ((b->read_only || device->read_only) &&
	    asprintf(&all, "%s%sro", options ? options : "", sep) < 0) {
		all = NULL;
		return builder_fail(b, -ENOMEM, "out of memory");
	}
	device_mount_path(device, source, sizeof(source));
	r = b->host->mount_fs(b, source, content->fs_type, all ? all : options, dir_fd, name,
			      &mount_id);
	if (r < 0)
		return r;
	if (!device_is_mounted_at(device, content->uuid, dir_fd, name)) {
		(void)b->host->unmount(b, dir_fd, name, mount_id);
		return builder_fail(b, -ESTALE,
				    "%s was exchanged for another device while it was mounted",
				    log_quote(device->path, quoted, sizeof(quoted)));
	}
	*ret_mount_id = mount_id;
	return 0;
}
