// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* Newer than some distributions' headers; the kernel's uapi: linux/mount.h. */
struct mount_request {
	uint32_t size, spare;
	uint64_t mount_id, param, space_id;
};

struct mount_answer {
	uint32_t size, options;
	uint64_t mask;
	uint32_t dev_major, dev_minor;
	uint64_t magic;
	uint32_t sb_flags, type;
	uint64_t id, parent_id;
	uint32_t short_id, short_parent_id;
	uint64_t attributes, propagation, peer_group, master, propagate_from;
	uint32_t root, point; /* offsets of texts */
	uint64_t home_space_id;
	uint32_t subtype, source, option_count, options_array, security_count, security_array;
	uint64_t supported;
	uint32_t uid_map_count, uid_map, gid_map_count, gid_map;
	uint64_t rest[43];
	char texts[];
};
_Static_assert(sizeof(struct mount_answer) == 512, "struct statmount");

enum {
	ASK_SUPERBLOCK = 1,
	ASK_MOUNT = 2,
	ASK_ROOT = 8,
	ASK_POINT = 16,
	ASK_UID_MAP = 0x2000,
	ASK_GID_MAP = 0x4000
};
#define LIST_ROOT UINT64_MAX /* every mount of the namespace */

enum { LIST_STEP = 256, MOUNTS_MAX = 1 << 20, ANSWER_MAX = 512 + 2 * 4096 + 64 };
/* 340 lines of three numbers of at most ten digits, of users and of groups. */
enum { MAPS_ANSWER_MAX = 512 + 2 * 340 * 33 + 64 };

/* A mount and its parent, of the namespace that is looked at. */
struct link {
	uint64_t id, parent_id;
};

struct search;

/* A mount namespace that is looked at. */
struct space {
	int fd;
	uint64_t id;
	bool is_ours, is_kept; /* is_kept: it is in copies.spaces */
};

struct search {
	const struct overlay_mount *overlay;
	/* What is done with a mount of the overlay's superblock: 0, 1 (enough is known), -errno. */
	int (*found)(struct search *s, struct space *space, const struct mount_answer *mount);
	/* of copies_find() */
	struct copies *copies;
	struct link *links;
	size_t link_count, link_room;
	char *reason; /* 256 bytes */
	/* of mount_spaces_find_maps() */
	struct mount_maps *maps;
	size_t map_count, map_missing;
};

static int ask(uint64_t space_id, uint64_t mount_id, uint64_t what, struct mount_answer *answer,
	       size_t size)
{
	const struct mount_request request = { sizeof(request), 0, mount_id, what, space_id };

	return syscall(MOUNT_SPACES_STATMOUNT, &request, answer, size, 0) < 0 ? -errno : 0;
}

static int remember_link(struct search *s, const struct mount_answer *a)
{
	if (s->link_count == s->link_room) {
		size_t room = s->link_room ? 2 * s->link_room : LIST_STEP;
		struct link *grown =
			room > MOUNTS_MAX ? NULL : reallocarray(s->links, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->links = grown;
		s->link_room = room;
	}
	s->links[s->link_count++] = (struct link){ a->id, a->parent_id };
	return 0;
}

static int add_space(struct copies *copies, struct space *io_space)
{
	struct stat st;
	int fd = -1;

	if (io_space->is_kept)
		return 0;
	if (copies->space_count == COPIES_MAX)
		return -E2BIG;
	if (fstat(io_space->fd, &st) < 0 ||
	    (!io_space->is_ours && (fd = fcntl(io_space->fd, F_DUPFD_CLOEXEC, 3)) < 0))
		return -errno;
	copies->spaces[copies->space_count].fd = fd;
	copies->spaces[copies->space_count].ino = st.st_ino;
	copies->space_count++;
	io_space->is_kept = true;
	return 0;
}

/* @count texts, one behind the other, as lines. */
static char *join_lines(const struct mount_answer *a, uint32_t offset, uint32_t count)
{
	const char *from = a->texts + offset;
	size_t size = 1;
	char *lines, *to;

	for (uint32_t i = 0; i < count; i++)
		size += strlen(a->texts + offset + size - 1) + 1;
	lines = to = malloc(size);
	if (!lines)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		to = stpcpy(to, from);
		from += strlen(from) + 1;
		*to++ = '\n';
	}
	*to = '\0';
	return lines;
}

/* Both stay NULL where the kernel does not say. */
static int ask_maps(uint64_t space_id, uint64_t mount_id, char **ret_uids, char **ret_gids)
{
	AUTO_FREE struct mount_answer *a = calloc(1, MAPS_ANSWER_MAX);
	int r = a ? ask(space_id, mount_id, ASK_UID_MAP | ASK_GID_MAP, a, MAPS_ANSWER_MAX - 1) :
		    -ENOMEM;

	*ret_uids = *ret_gids = NULL;
	if (r < 0 || (a->mask & (ASK_UID_MAP | ASK_GID_MAP)) != (ASK_UID_MAP | ASK_GID_MAP))
		return r;
	*ret_uids = join_lines(a, a->uid_map, a->uid_map_count);
	*ret_gids = join_lines(a, a->gid_map, a->gid_map_count);
	return *ret_uids && *ret_gids ? 0 : -ENOMEM;
}

/*
 * @path, from the root of the overlay's file system, as it is from that of the volume, which may lie below
 * (ops_top.c). What is above that is as little to be found there as what is removed.
 */
static const char *from_volume(const char *path, bool is_below)
{
	static const char prefix[] = "/" MOUNTING_ROOT_NAME;
	size_t len = sizeof(prefix) - 1;

	if (!is_below)
		return path;
	if (strncmp(path, prefix, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return "";
	return path[len] ? path + len : "/";
}

static int add_copy(struct search *s, uint64_t space_id, uint64_t mount_id)
{
	AUTO_FREE struct mount_answer *a = calloc(1, ANSWER_MAX);
	struct copies *copies = s->copies;
	struct copy *copy = &copies->list[copies->count];
	int r;

	if (!a)
		return -ENOMEM;
	if (copies->count == COPIES_MAX)
		return -E2BIG;
	r = ask(space_id, mount_id, ASK_MOUNT | ASK_ROOT | ASK_POINT, a, ANSWER_MAX);
	if (r < 0)
		return r;
	/* Without a path to it the namespace's root cannot reach it, and neither can we. */
	if ((a->mask & (ASK_ROOT | ASK_POINT)) != (ASK_ROOT | ASK_POINT))
		return -ENOENT;
	*copy = (struct copy){
		.id = a->id,
		.parent_id = a->parent_id,
		.space = (int)copies->space_count - 1,
		.attributes = a->attributes,
		.propagation = a->propagation,
		.root = strdup(from_volume(a->texts + a->root, s->overlay->is_below)),
		.point = strdup(a->texts + a->point),
	};
	copies->count++;
	if (!copy->root || !copy->point)
		return -ENOMEM;
	return a->attributes & MOUNT_ATTR_IDMAP ?
		       ask_maps(space_id, mount_id, &copy->uid_map, &copy->gid_map) :
		       0;
}

static int found_copy(struct search *s, struct space *space, const struct mount_answer *mount)
{
	int r;

	if (mount->id == s->overlay->id)
		return 0;
	r = add_space(s->copies, space);
	return r < 0 ? r : add_copy(s, space->id, mount->id);
}

static int look_at_mount(struct search *s, struct space *space, uint64_t mount_id)
{
	struct mount_answer a = { .size = 0 };
	int r = ask(space->id, mount_id, ASK_SUPERBLOCK | ASK_MOUNT, &a, sizeof(a));

	if (r == -ENOENT)
		return 0; /* unmounted meanwhile */
	if (r == 0 && s->copies)
		r = remember_link(s, &a);
	if (r < 0 || a.dev_major != s->overlay->dev_major || a.dev_minor != s->overlay->dev_minor)
		return r;
	return s->found(s, space, &a);
}

/* Whether something is mounted on the overlay or on one of the copies from index @first on. */
static int find_descendant(struct search *s, size_t first)
{
	for (size_t i = 0; i < s->link_count; i++) {
		uint64_t parent = s->links[i].parent_id;
		bool found = parent == s->overlay->id && s->links[i].id != parent;

		for (size_t k = first; !found && k < s->copies->count; k++)
			found = parent == s->copies->list[k].id && s->links[i].id != parent;
		if (found) {
			snprintf(s->reason, 256, "something is mounted below it");
			return 1;
		}
	}
	return 0;
}

static int look_at_space(struct search *s, int space_fd, uint64_t space_id, bool is_ours)
{
	struct mount_request request = { sizeof(request), 0, LIST_ROOT, 0, space_id };
	struct space space = { .fd = space_fd, .id = space_id, .is_ours = is_ours };
	size_t first = s->copies ? s->copies->count : 0;
	uint64_t ids[LIST_STEP];
	long n;

	s->link_count = 0;
	do {
		n = syscall(MOUNT_SPACES_LISTMOUNT, &request, ids, LIST_STEP, 0);
		/* A namespace may end, and one of another user's may be none of our business. */
		if (n < 0)
			return is_ours ? -errno : 0;
		for (long i = 0; i < n; i++) {
			int r = look_at_mount(s, &space, ids[i]);

			if (r != 0)
				return r;
		}
		if (n > 0)
			request.param = ids[n - 1];
	} while (n == LIST_STEP);
	return s->copies ? find_descendant(s, first) : 0;
}

/* All namespaces on one side of ours in the kernel's list. */
static int look_towards(struct search *s, int own_fd, unsigned long direction)
{
	AUTO_FD int fd = fcntl(own_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	for (;;) {
		struct mount_space_info info = { .size = sizeof(info) };
		int next = ioctl(fd, direction, &info), r;

		if (next < 0)
			return errno == ENOENT ? 0 : errno == EPERM ? -ENOSYS : -errno;
		cleanup_fd(&fd);
		fd = next;
		r = look_at_space(s, fd, info.id, false);
		if (r != 0)
			return r;
	}
}

/* @own_fd: of our own namespace. */
static int look_everywhere(struct search *s, int own_fd)
{
	struct mount_space_info info = { .size = sizeof(info) };
	int r;

	if (ioctl(own_fd, MOUNT_SPACE_INFO, &info) < 0)
		return -ENOSYS;
	r = look_at_space(s, own_fd, info.id, true);
	if (r == 0)
		r = look_towards(s, own_fd, MOUNT_SPACE_PREVIOUS);
	if (r == 0)
		r = look_towards(s, own_fd, MOUNT_SPACE_NEXT);
	return r;
}

int copies_find(const struct overlay_mount *overlay, struct copies *ret_copies,
		char ret_reason[256])
{
	AUTO_FD int own_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	struct search s = {
		.overlay = overlay, .found = found_copy, .copies = ret_copies, .reason = ret_reason
	};
	int r;

	ret_copies->count = ret_copies->space_count = 0;
	if (own_fd < 0)
		return -errno;
	r = look_everywhere(&s, own_fd);
	free(s.links);
	return r;
}

void copies_fini(struct copies *copies)
{
	for (size_t i = 0; i < copies->count; i++) {
		free(copies->list[i].root);
		free(copies->list[i].point);
		free(copies->list[i].uid_map);
		free(copies->list[i].gid_map);
	}
	for (size_t i = 0; i < copies->space_count; i++)
		cleanup_fd(&copies->spaces[i].fd);
	copies->count = copies->space_count = 0;
}

int mount_spaces_attributes(uint64_t id, uint64_t *ret_attributes)
{
	AUTO_FREE struct mount_answer *a = calloc(1, ANSWER_MAX);
	int r = a ? ask(0, id, ASK_MOUNT, a, ANSWER_MAX) : -ENOMEM;

	if (r < 0)
		return r;
	if (!(a->mask & ASK_MOUNT))
		return -ENOSYS;
	*ret_attributes = a->attributes;
	return 0;
}

static int found_map(struct search *s, struct space *space, const struct mount_answer *mount)
{
	for (size_t i = 0; i < s->map_count; i++) {
		struct mount_maps *m = &s->maps[i];
		int r;

		if (m->short_id != mount->short_id || m->uid_map)
			continue;
		r = ask_maps(space->id, mount->id, &m->uid_map, &m->gid_map);
		if (r < 0)
			return r == -ENOENT ? 0 : r;
		if (!m->uid_map)
			return -ENOSYS;
		s->map_missing--;
	}
	return s->map_missing == 0;
}

int mount_spaces_find_maps(int own_space_fd, const struct overlay_mount *device,
			   struct mount_maps *io_maps, size_t count)
{
	struct search s = { .overlay = device,
			    .found = found_map,
			    .maps = io_maps,
			    .map_count = count,
			    .map_missing = count };
	int r;

	if (count == 0)
		return 0;
	r = look_everywhere(&s, own_space_fd);
	return r < 0 ? r : s.map_missing > 0 ? -ENOENT : 0;
}

void mount_maps_free(struct mount_maps *maps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(maps[i].uid_map);
		free(maps[i].gid_map);
	}
	free(maps);
}
