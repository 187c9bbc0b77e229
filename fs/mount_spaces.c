// SPDX-License-Identifier: Apache-2.0
#include "fs/mount_spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

/* Newer than some distributions' headers; the kernel's uapi: linux/nsfs.h, linux/mount.h, unistd.h. */
struct space_info {
	uint32_t size;
	uint32_t mount_count;
	uint64_t id;
};
#define SPACE_INFO _IOR(0xb7, 10, struct space_info)
#define SPACE_NEXT _IOR(0xb7, 11, struct space_info)
#define SPACE_PREVIOUS _IOR(0xb7, 12, struct space_info)

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
	uint64_t rest[50];
	char texts[];
};
_Static_assert(sizeof(struct mount_answer) == 512, "struct statmount");

enum { CALL_STATMOUNT = 457, CALL_LISTMOUNT = 458 };
enum { ASK_SUPERBLOCK = 1, ASK_MOUNT = 2, ASK_ROOT = 8, ASK_POINT = 16 };
#define LIST_ROOT UINT64_MAX /* every mount of the namespace */

enum { LIST_STEP = 256, MOUNTS_MAX = 1 << 20, ANSWER_MAX = 512 + 2 * 4096 + 64 };

/* A mount and its parent, of the namespace that is looked at. */
struct link {
	uint64_t id, parent_id;
};

struct search {
	const struct overlay_mount *overlay;
	struct copies *copies;
	struct link *links;
	size_t link_count, link_room;
	char *reason; /* 256 bytes */
};

static int ask(uint64_t space_id, uint64_t mount_id, uint64_t what, struct mount_answer *answer,
	       size_t size)
{
	const struct mount_request request = { sizeof(request), 0, mount_id, what, space_id };

	return syscall(CALL_STATMOUNT, &request, answer, size, 0) < 0 ? -errno : 0;
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

static int add_space(struct copies *copies, int space_fd, bool is_ours)
{
	struct stat st;
	int fd = -1;

	if (copies->space_count == COPIES_MAX)
		return -E2BIG;
	if (fstat(space_fd, &st) < 0 ||
	    (!is_ours && (fd = fcntl(space_fd, F_DUPFD_CLOEXEC, 3)) < 0))
		return -errno;
	copies->spaces[copies->space_count].fd = fd;
	copies->spaces[copies->space_count].ino = st.st_ino;
	copies->space_count++;
	return 0;
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
		.root = strdup(a->texts + a->root),
		.point = strdup(a->texts + a->point),
	};
	copies->count++;
	return copy->root && copy->point ? 0 : -ENOMEM;
}

static int look_at_mount(struct search *s, int space_fd, uint64_t space_id, bool is_ours,
			 uint64_t mount_id, bool *io_has_space)
{
	struct mount_answer a = { .size = 0 };
	int r = ask(space_id, mount_id, ASK_SUPERBLOCK | ASK_MOUNT, &a, sizeof(a));

	if (r == -ENOENT)
		return 0; /* unmounted meanwhile */
	if (r == 0)
		r = remember_link(s, &a);
	if (r < 0 || a.dev_major != s->overlay->dev_major || a.dev_minor != s->overlay->dev_minor ||
	    a.id == s->overlay->id)
		return r;
	if (!*io_has_space) {
		r = add_space(s->copies, space_fd, is_ours);
		*io_has_space = r == 0;
	}
	return r < 0 ? r : add_copy(s, space_id, mount_id);
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
	size_t first = s->copies->count;
	uint64_t ids[LIST_STEP];
	bool has_space = false;
	long n;

	s->link_count = 0;
	do {
		n = syscall(CALL_LISTMOUNT, &request, ids, LIST_STEP, 0);
		/* A namespace may end, and one of another user's may be none of our business. */
		if (n < 0)
			return is_ours ? -errno : 0;
		for (long i = 0; i < n; i++) {
			int r = look_at_mount(s, space_fd, space_id, is_ours, ids[i], &has_space);

			if (r < 0)
				return r;
		}
		if (n > 0)
			request.param = ids[n - 1];
	} while (n == LIST_STEP);
	return find_descendant(s, first);
}

/* All namespaces on one side of ours in the kernel's list. */
static int look_towards(struct search *s, int own_fd, unsigned long direction)
{
	AUTO_FD int fd = fcntl(own_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	for (;;) {
		struct space_info info = { .size = sizeof(info) };
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

int copies_find(const struct overlay_mount *overlay, struct copies *ret_copies,
		char ret_reason[256])
{
	AUTO_FD int own_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	struct space_info info = { .size = sizeof(info) };
	struct search s = { .overlay = overlay, .copies = ret_copies, .reason = ret_reason };
	int r;

	ret_copies->count = ret_copies->space_count = 0;
	if (own_fd < 0)
		return -errno;
	if (ioctl(own_fd, SPACE_INFO, &info) < 0)
		return -ENOSYS;
	r = look_at_space(&s, own_fd, info.id, true);
	if (r == 0)
		r = look_towards(&s, own_fd, SPACE_PREVIOUS);
	if (r == 0)
		r = look_towards(&s, own_fd, SPACE_NEXT);
	free(s.links);
	return r;
}

void copies_fini(struct copies *copies)
{
	for (size_t i = 0; i < copies->count; i++) {
		free(copies->list[i].root);
		free(copies->list[i].point);
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
