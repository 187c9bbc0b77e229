// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/ownership/apply.h"
#include "plugins/builder.h"
#include "plugins/quantity.h"
#include "plugins/tree_remove.h"
#include "plugins/tree_visit.h"

/* The tree, in the volume's own directory. */
static const char DATA[] = "data";

/* Kubernetes: every container of the pod may write, whoever it runs as. */
enum { DATA_MODE = 0777 };

/* How many entries are counted for a sizeLimit. */
enum { COUNTED_ENTRIES_MAX = 1000000 };

struct empty_dir {
	bool memory;
	uint64_t size_bytes; /* 0: no limit */
};

static int parse_size_limit(struct volume_builder *b, uint64_t *ret_bytes)
{
	const json_t *limit = json_object_get(b->source, "sizeLimit");
	const char *text = json_string_value(limit);
	char number[32], quoted[64];

	if (!limit || json_is_null(limit)) {
		*ret_bytes = 0;
		return 0;
	}
	if (json_is_integer(limit)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(limit));
		text = number;
	}
	if (!text)
		return builder_fail(b, -EINVAL, "sizeLimit: neither a string nor an integer");
	if (quantity_parse(text, 1, ret_bytes) < 0)
		return builder_fail(b, -EINVAL, "sizeLimit: %s is not a size such as 64Mi",
				    log_quote(text, quoted, sizeof(quoted)));
	return 0;
}

static int parse_source(struct volume_builder *b, struct empty_dir *ret_spec)
{
	const char *medium = NULL;
	char quoted[64];
	struct empty_dir spec;
	int r = builder_source_text(b, "medium", &medium);

	if (r < 0)
		return r;
	if (strncmp(medium, "HugePages", strlen("HugePages")) == 0)
		return builder_fail(b, -EINVAL, "medium: %s is not supported",
				    log_quote(medium, quoted, sizeof(quoted)));
	if (medium[0] != '\0' && strcmp(medium, "Memory") != 0)
		return builder_fail(b, -EINVAL, "medium: %s is neither empty nor Memory",
				    log_quote(medium, quoted, sizeof(quoted)));
	spec.memory = medium[0] != '\0';
	r = parse_size_limit(b, &spec.size_bytes);
	if (r < 0)
		return r;
	*ret_spec = spec;
	return 0;
}

static int empty_dir_check(struct volume_builder *b)
{
	struct empty_dir spec;

	return parse_source(b, &spec);
}

static char *empty_dir_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	struct empty_dir spec = { 0 };
	char *text;

	parse_source(&copy, &spec);
	if (asprintf(&text, "medium=%s sizeLimit=%" PRIu64, spec.memory ? "Memory" : "",
		     spec.size_bytes) < 0)
		return NULL;
	return text;
}

/* A tmpfs that an interrupted set-up mounted before it could be recorded is taken over. */
static uint64_t tmpfs_left_behind(const struct volume_builder *b)
{
	AUTO_FD int fd = openat(b->dir_fd, DATA, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return 0;
	return builder_mount_at(b, DATA);
}

static int mount_memory(struct volume_builder *b, uint64_t size_bytes)
{
	uint64_t mount_id = builder_mount_recorded(b);
	int r;

	if (mount_id != 0 && b->host->is_mounted(b, b->dir_fd, DATA, mount_id))
		return 0;
	mount_id = tmpfs_left_behind(b);
	if (mount_id == 0) {
		b->error[0] = '\0';
		r = b->host->mount_tmpfs(b, b->dir_fd, DATA, size_bytes, DATA_MODE, &mount_id);
		if (r < 0 && b->error[0] == '\0')
			builder_fail(b, r, "mount a tmpfs at %s/%s: %s", b->dir_path, DATA,
				     strerror(-r));
		if (r < 0)
			return r;
	}
	return builder_mount_record(b, mount_id);
}

static int dir_is_empty(int fd, bool *ret_empty)
{
	AUTO_FD int readable = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	bool empty = true;
	DIR *dir;

	if (readable < 0)
		return -errno;
	dir = fdopendir(readable);
	if (!dir)
		return -errno;
	take_fd(&readable);
	errno = 0;
	while (empty && (entry = readdir(dir)) != NULL)
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	if (empty && errno != 0) {
		int r = -errno;

		closedir(dir);
		return r;
	}
	closedir(dir);
	*ret_empty = empty;
	return 0;
}

/* Gives the empty root its mode, whatever the umask, and its group. */
static int own_root(int fd, gid_t gid, bool read_only)
{
	const struct ownership_rule rule = { .gid = gid, .read_only = read_only };
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (chmod(path, DATA_MODE) < 0)
		return -errno;
	if (gid == GID_UNSET)
		return 0;
	r = apply_entry(fd, "/proc/self/fd", &rule, NULL);
	return r < 0 ? r : 0;
}

static int empty_dir_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			    enum ownership_outcome *ret_ownership)
{
	struct empty_dir spec;
	AUTO_FD int fd = -1;
	bool empty = false;
	int r = parse_source(b, &spec);

	if (r < 0)
		return r;
	if (mkdirat(b->dir_fd, DATA, 0700) < 0 && errno != EEXIST) {
		r = -errno;
		return builder_fail(b, r, "make %s/%s: %s", b->dir_path, DATA, strerror(-r));
	}
	if (spec.memory && (r = mount_memory(b, spec.size_bytes)) < 0)
		return r;
	r = builder_open_dir(b, DATA, &fd);
	if (r < 0)
		return r;

	/* Files are there when the set-up before this one was finished but for its marker. */
	r = dir_is_empty(fd, &empty);
	if (r == 0 && empty)
		r = own_root(fd, gid, b->read_only);
	if (r < 0)
		return builder_fail(b, r, "own %s/%s: %s", b->dir_path, DATA, strerror(-r));
	*ret_ownership = empty || gid == GID_UNSET ? OWNERSHIP_DONE : OWNERSHIP_PRESENT;
	*ret_lower = take_fd(&fd);
	return 0;
}

static int certify_memory(struct volume_builder *b, char **ret_text)
{
	uint64_t mount_id = builder_mount_recorded(b);
	char *text;

	if (mount_id == 0 || !b->host->is_mounted(b, b->dir_fd, DATA, mount_id))
		return builder_fail(b, -ENOENT, "%s/%s: its tmpfs is not mounted", b->dir_path,
				    DATA);
	if (asprintf(&text, "tmpfs %s %" PRIu64, b->host->boot_id(b), mount_id) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	*ret_text = text;
	return 0;
}

/* Where a file system has no handles: no other directory has had this number since that time. */
static int certify_by_birth(struct volume_builder *b, int fd, char **ret_text)
{
	struct statx st;
	char *text;
	int n;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0) {
		int r = -errno;

		return builder_fail(b, r, "stat %s/%s: %s", b->dir_path, DATA, strerror(-r));
	}
	if (st.stx_mask & STATX_BTIME)
		n = asprintf(&text, "inode %llu %lld.%09u", (unsigned long long)st.stx_ino,
			     (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
	else
		n = asprintf(&text, "inode %llu", (unsigned long long)st.stx_ino);
	if (n < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	*ret_text = text;
	return 0;
}

static int certify_directory(struct volume_builder *b, int fd, char **ret_text)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = { .handle.handle_bytes = MAX_HANDLE_SZ };
	char hex[2 * MAX_HANDLE_SZ + 1], *text;
	int mount_id;

	if (name_to_handle_at(fd, "", &h.handle, &mount_id, AT_EMPTY_PATH) < 0)
		return certify_by_birth(b, fd, ret_text);
	format_hex(h.handle.f_handle, h.handle.handle_bytes, hex);
	if (asprintf(&text, "handle %d %s", h.handle.handle_type, hex) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	*ret_text = text;
	return 0;
}

static int empty_dir_certify(struct volume_builder *b, char **ret_text)
{
	struct empty_dir spec;
	AUTO_FD int fd = -1;
	int r = parse_source(b, &spec);

	if (r < 0)
		return r;
	if (spec.memory)
		return certify_memory(b, ret_text);
	r = builder_open_dir(b, DATA, &fd);
	return r < 0 ? r : certify_directory(b, fd, ret_text);
}

static int empty_dir_open_lower(struct volume_builder *b, int *ret_lower)
{
	return builder_open_dir(b, DATA, ret_lower);
}

/* A tmpfs is kept to its size by the kernel; on disk nobody does more than count, as kubelet too. */
static int empty_dir_usage(struct volume_builder *b, struct volume_usage *ret_usage)
{
	struct empty_dir spec;
	struct tree_usage usage;
	AUTO_FD int fd = -1;
	int r = parse_source(b, &spec);

	if (r < 0)
		return r;
	if (spec.memory || spec.size_bytes == 0)
		return -ENODATA;
	r = builder_open_dir(b, DATA, &fd);
	if (r == 0)
		r = tree_usage(fd, COUNTED_ENTRIES_MAX, &usage);
	if (r < 0)
		return builder_fail(b, r, "count %s/%s: %s", b->dir_path, DATA, strerror(-r));
	*ret_usage = (struct volume_usage){ .bytes = usage.bytes,
					    .entries = usage.entries,
					    .limit_bytes = spec.size_bytes,
					    .is_cut = usage.cut };
	return 0;
}

static int empty_dir_tear_down(struct volume_builder *b)
{
	struct empty_dir spec = { 0 };
	int r;

	/* What cannot be read was never set up with a tmpfs. On disk, a mount there is not ours. */
	parse_source(b, &spec);
	r = spec.memory ? builder_unmount(b, DATA, tmpfs_left_behind(b)) : 0;
	if (r < 0)
		return r;
	return tree_remove_told(b->dir_fd, DATA, b->on_deleted, b->on_deleted_arg, b->error,
				sizeof(b->error));
}

const struct volume_plugin plugin_empty_dir = {
	.name = "emptyDir",
	.attributes = { .idempotency = IDEMPOTENCY_MARKER, .manages_ownership = true },
	.check = empty_dir_check,
	.identity = empty_dir_identity,
	.set_up = empty_dir_set_up,
	.certify = empty_dir_certify,
	.usage = empty_dir_usage,
	.open_lower = empty_dir_open_lower,
	.tear_down = empty_dir_tear_down,
};
