// SPDX-License-Identifier: Apache-2.0
#include "fs/caller_views.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/mount_spaces.h"

/* More mounts of one volume than this has no pod; who makes them is told less. */
enum { MOUNTS_MAX = 64 };

static int open_text(int proc_fd, const char *path, FILE **ret_file)
{
	AUTO_FD int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	FILE *file;

	if (fd < 0)
		return -errno;
	file = fdopen(fd, "r");
	if (!file)
		return -ENOMEM;
	take_fd(&fd);
	*ret_file = file;
	return 0;
}

/* The overlay's device number, which nothing but the kernel knows here: it is mounted where we do not see it. */
static int find_device(int proc_fd, int device_fd, struct overlay_mount *ret_device)
{
	char path[48], line[128];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "self/fdinfo/%d", device_fd);
	r = open_text(proc_fd, path, &file);
	if (r < 0)
		return r;
	r = -ENOSYS;
	while (r < 0 && fgets(line, sizeof(line), file)) {
		unsigned device;

		/* Major and minor as the kernel has them in one number (MINORBITS). */
		if (sscanf(line, "fuse_connection: %u", &device) == 1) {
			*ret_device = (struct overlay_mount){ .dev_major = device >> 20,
							      .dev_minor = device & 0xfffff };
			r = 0;
		}
	}
	fclose(file);
	return r;
}

struct mounts {
	struct mount_maps *idmapped;
	size_t idmapped_count;
	bool has_plain; /* one that is not */
};

/* One line of mountinfo: "36 35 98:0 /root /point options ...". 0 or -errno. */
static int take_mount(struct mounts *m, const struct overlay_mount *device, const char *line)
{
	unsigned id, dev_major, dev_minor;
	const char *options;
	int at = 0;

	if (sscanf(line, "%u %*u %u:%u %*s %*s %n", &id, &dev_major, &dev_minor, &at) < 3 ||
	    at == 0 || dev_major != device->dev_major || dev_minor != device->dev_minor)
		return 0;
	options = line + at;
	for (size_t len; (len = strcspn(options, ", \n")) > 0; options += len + 1) {
		if (len == strlen("idmapped") && strncmp(options, "idmapped", len) == 0) {
			if (m->idmapped_count == MOUNTS_MAX)
				return -E2BIG;
			m->idmapped[m->idmapped_count++].short_id = id;
			return 0;
		}
		if (options[len] != ',')
			break;
	}
	m->has_plain = true;
	return 0;
}

static int read_mounts(int proc_fd, pid_t pid, const struct overlay_mount *device,
		       struct mounts *io_mounts)
{
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	char path[32];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "%d/mountinfo", (int)pid);
	r = open_text(proc_fd, path, &file);
	if (r < 0)
		return r;
	while (r == 0 && getline(&line, &room, file) > 0)
		r = take_mount(io_mounts, device, line);
	if (r == 0 && ferror(file))
		r = -EIO;
	fclose(file);
	return r;
}

/* A view that is there already is not added. */
static int add_view(struct caller_view *views, size_t *io_count, const char *uids, const char *gids)
{
	struct caller_view *view = &views[*io_count];

	memset(view, 0, sizeof(*view));
	if (!uids) {
		id_map_identity(&view->uids);
		id_map_identity(&view->gids);
	} else if (id_map_parse(uids, &view->uids) < 0 || id_map_parse(gids, &view->gids) < 0) {
		return -EINVAL;
	}
	for (size_t i = 0; i < *io_count; i++) {
		if (memcmp(&views[i], view, sizeof(*view)) == 0)
			return 0;
	}
	(*io_count)++;
	return 0;
}

static int make_views(const struct mounts *m, struct caller_view **ret_views)
{
	AUTO_FREE struct caller_view *views = calloc(m->idmapped_count + 1, sizeof(*views));
	size_t count = 0;
	int r = views ? 0 : -ENOMEM;

	if (r == 0 && m->has_plain)
		r = add_view(views, &count, NULL, NULL);
	for (size_t i = 0; r == 0 && i < m->idmapped_count; i++)
		r = add_view(views, &count, m->idmapped[i].uid_map, m->idmapped[i].gid_map);
	if (r == 0 && count == 0)
		r = -ENOENT;
	if (r < 0)
		return r;
	*ret_views = take_ptr(&views);
	return (int)count;
}

int caller_views_find(int proc_fd, int device_fd, pid_t pid, struct caller_view **ret_views)
{
	struct mounts m = { .idmapped = calloc(MOUNTS_MAX, sizeof(*m.idmapped)) };
	AUTO_FD int space_fd = openat(proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	struct overlay_mount device;
	int r = !m.idmapped ? -ENOMEM : space_fd < 0 ? -errno : 0;

	if (r == 0)
		r = find_device(proc_fd, device_fd, &device);
	if (r == 0)
		r = read_mounts(proc_fd, pid, &device, &m);
	if (r == 0)
		r = mount_spaces_find_maps(space_fd, &device, m.idmapped, m.idmapped_count);
	if (r == 0)
		r = make_views(&m, ret_views);
	if (m.idmapped)
		mount_maps_free(m.idmapped, m.idmapped_count);
	return r;
}
