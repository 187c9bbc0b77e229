// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "mountd/mount.h"

/* Linux 6.8; the same numbers on every architecture (source: include/uapi/linux/mount.h). */
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef SYS_listmount
#define SYS_listmount 458
#endif
#define ROOT_OF_NAMESPACE UINT64_MAX
enum { WANT_MOUNT = 0x2, WANT_MNT_POINT = 0x10, WANT_FS_TYPE = 0x20 };
enum { PART = 256, STAT_BYTES = 16384 };

struct request {
	uint32_t size, spare;
	uint64_t mount_id, param;
};

/* The same with a namespace (6.11). */
struct space_request {
	struct request request;
	uint64_t space_id;
};

/* The beginning of struct statmount; its texts begin at STRINGS. */
struct reply {
	uint32_t size, options;
	uint64_t mask;
	uint32_t device_major, device_minor;
	uint64_t magic;
	uint32_t flags, fs_type;
	uint64_t ids[2];
	uint32_t old_ids[2];
	uint64_t attributes, propagation, peer_group, master, from;
	uint32_t root, mount_point;
};
enum { STRINGS = 512 };

int mount_list_add(struct mount_entry **io_list, size_t count, uint64_t id, const char *point,
		   const char *type)
{
	struct mount_entry *longer = reallocarray(*io_list, count + 1, sizeof(**io_list));
	struct mount_entry entry = { .id = id, .point = strdup(point), .type = strdup(type) };

	if (longer)
		*io_list = longer;
	if (!longer || !entry.point || !entry.type) {
		free(entry.point);
		free(entry.type);
		return -ENOMEM;
	}
	longer[count] = entry;
	return 0;
}

void mount_list_free(struct mount_entry *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(list[i].point);
		free(list[i].type);
	}
	free(list);
}

static bool is_below(const char *point, const char *path)
{
	size_t len = strlen(path);

	return strncmp(point, path, len) == 0 && point[len] == '/';
}

/* 1 added, 0 not below or gone meanwhile. */
static int add_one(uint64_t id, const char *path, char *buffer, struct mount_entry **io_list,
		   size_t count)
{
	struct request request = { .size = sizeof(request),
				   .mount_id = id,
				   .param = WANT_MNT_POINT | WANT_FS_TYPE };
	const struct reply *reply = (const struct reply *)buffer;
	const char *point, *type;
	int r;

	if (syscall(SYS_statmount, &request, buffer, STAT_BYTES, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* One that cannot be reached from our root has no mount point. */
	if (!(reply->mask & WANT_MNT_POINT) || !(reply->mask & WANT_FS_TYPE))
		return 0;
	point = buffer + STRINGS + reply->mount_point;
	type = buffer + STRINGS + reply->fs_type;
	if (!is_below(point, path))
		return 0;
	r = mount_list_add(io_list, count, id, point, type);
	return r < 0 ? r : 1;
}

static int list_by_ids(const char *path, struct mount_entry **ret_list)
{
	struct request request = { .size = sizeof(request), .mount_id = ROOT_OF_NAMESPACE };
	AUTO_FREE char *buffer = aligned_alloc(sizeof(uint64_t), STAT_BYTES);
	struct mount_entry *list = NULL;
	uint64_t ids[PART];
	size_t count = 0;
	long n = PART;
	int r = buffer ? 0 : -ENOMEM;

	while (r >= 0 && n == PART) {
		n = syscall(SYS_listmount, &request, ids, PART, 0);
		if (n < 0)
			r = -errno;
		for (long i = 0; r >= 0 && i < n; i++) {
			r = add_one(ids[i], path, buffer, &list, count);
			count += r > 0;
		}
		if (n > 0)
			request.param = ids[n - 1];
	}
	if (r < 0) {
		mount_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

int mount_list_below(const char *path, struct mount_entry **ret_list)
{
	int n = list_by_ids(path, ret_list);

	/* An old kernel, or one whose answer we do not understand. */
	return n < 0 && n != -ENOMEM ? mount_table_below(path, ret_list) : n;
}

/* ---- ids only ---- */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int all_ids(uint64_t **ret_ids)
{
	struct request request = { .size = sizeof(request), .mount_id = ROOT_OF_NAMESPACE };
	AUTO_FREE uint64_t *ids = NULL;
	size_t count = 0;
	long n = PART;

	while (n == PART) {
		uint64_t *longer = reallocarray(ids, count + PART, sizeof(*ids));

		if (!longer)
			return -ENOMEM;
		ids = longer;
		n = syscall(SYS_listmount, &request, ids + count, PART, 0);
		if (n < 0)
			return -errno;
		count += (size_t)n;
		if (n > 0)
			request.param = ids[count - 1];
	}
	*ret_ids = take_ptr(&ids);
	return (int)count;
}

int mount_list_ids(uint64_t **ret_ids)
{
	int n = all_ids(ret_ids);

	if (n < 0 && n != -ENOMEM)
		n = mount_table_ids(ret_ids);
	if (n > 0)
		qsort(*ret_ids, (size_t)n, sizeof(**ret_ids), compare_ids);
	return n;
}

bool mount_list_has(const uint64_t *ids, size_t count, uint64_t id)
{
	return count > 0 && bsearch(&id, ids, count, sizeof(*ids), compare_ids) != NULL;
}

bool mount_is_present(uint64_t id)
{
	AUTO_FREE uint64_t *ids = NULL;
	int n = mount_list_ids(&ids);

	return n < 0 || mount_list_has(ids, (size_t)n, id);
}

int mount_peers_get(uint64_t space_id, uint64_t id, struct mount_peers *ret_peers)
{
	const struct space_request request = {
		.request = { .size = sizeof(request), .mount_id = id, .param = WANT_MOUNT },
		.space_id = space_id,
	};
	AUTO_FREE char *buffer = aligned_alloc(sizeof(uint64_t), STAT_BYTES);
	const struct reply *reply = (const struct reply *)buffer;

	if (!buffer)
		return -ENOMEM;
	if (syscall(SYS_statmount, &request, buffer, STAT_BYTES, 0) < 0)
		return -errno;
	if (!(reply->mask & WANT_MOUNT))
		return -ENOSYS;
	*ret_peers = (struct mount_peers){ reply->peer_group, reply->master };
	return 0;
}
