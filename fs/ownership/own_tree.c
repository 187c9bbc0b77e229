// SPDX-License-Identifier: Apache-2.0
#include "fs/ownership/own_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/ownership/apply.h"

/*
 * Only the directory that is being worked on is open. It is left through "..", and what is found there
 * must be the directory that it was entered from: should someone move a directory out of the tree
 * meanwhile, we stop instead of changing where it was moved to.
 */
struct level {
	uint64_t mount_id, inode;
	uint32_t dev_major, dev_minor;
	char **children; /* directories still to be entered; the last one is next */
	size_t count, capacity;
};

struct owning {
	const struct ownership_rule *rule;
	int fd; /* the directory of the deepest level */
	struct level *levels;
	size_t depth, capacity;
	char *error; /* the caller's */
	size_t error_size;
};

enum { READ_BYTES = 32768 };

static const char FD_DIR[] = "/proc/self/fd";

static struct level *deepest(struct owning *o)
{
	return &o->levels[o->depth - 1];
}

static int fail(struct owning *o, int error, const char *name, const char *reason)
{
	char quoted[300];

	snprintf(o->error, o->error_size, "%s: %s", log_quote(name, quoted, sizeof(quoted)),
		 reason);
	return error;
}

static int look(int fd, struct statx *ret_st)
{
	/* The unique id where the kernel has it; fields that it does not know stay as they were asked. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_INO | 0x5000U /* STATX_MNT_ID | STATX_MNT_ID_UNIQUE */,
		  ret_st) < 0)
		return -errno;
	return 0;
}

static bool is_elsewhere(const struct level *level, const struct statx *st)
{
	return st->stx_mnt_id != level->mount_id || st->stx_dev_major != level->dev_major ||
	       st->stx_dev_minor != level->dev_minor;
}

static int level_push(struct owning *o, const struct statx *st)
{
	if (o->depth == o->capacity) {
		size_t capacity = o->capacity ? 2 * o->capacity : 16;
		struct level *longer = reallocarray(o->levels, capacity, sizeof(*longer));

		if (!longer)
			return -ENOMEM;
		o->levels = longer;
		o->capacity = capacity;
	}
	o->levels[o->depth++] = (struct level){
		.mount_id = st->stx_mnt_id,
		.inode = st->stx_ino,
		.dev_major = st->stx_dev_major,
		.dev_minor = st->stx_dev_minor,
	};
	return 0;
}

static void level_pop(struct owning *o)
{
	struct level *level = deepest(o);

	while (level->count > 0)
		free(level->children[--level->count]);
	free(level->children);
	o->depth--;
}

static int child_push(struct level *level, const char *name)
{
	if (level->count == level->capacity) {
		size_t capacity = level->capacity ? 2 * level->capacity : 4;
		char **longer = reallocarray(level->children, capacity, sizeof(*longer));

		if (!longer)
			return -ENOMEM;
		level->children = longer;
		level->capacity = capacity;
	}
	level->children[level->count] = strdup(name);
	if (!level->children[level->count])
		return -ENOMEM;
	level->count++;
	return 0;
}

/* One entry: a directory is remembered, anything else is changed; what is mounted there is another's. */
static int own_entry(struct owning *o, const char *name)
{
	AUTO_FD int fd = openat(o->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statx st;
	int r = fd < 0 ? -errno : look(fd, &st);

	if (r == -ENOENT)
		return 0; /* it went meanwhile */
	if (r == 0 && is_elsewhere(deepest(o), &st))
		return 0;
	if (r == 0)
		r = S_ISDIR(st.stx_mode) ? child_push(deepest(o), name) :
					   apply_entry(fd, FD_DIR, o->rule, NULL);
	return r < 0 ? fail(o, r, name, strerror(-r)) : 0;
}

static int level_scan(struct owning *o)
{
	char buffer[READ_BYTES] __attribute__((aligned(8)));
	ssize_t len;

	while ((len = getdents64(o->fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			bool is_dot =
				strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
			int r = is_dot ? 0 : own_entry(o, entry->d_name);

			if (r < 0)
				return r;
			at += entry->d_reclen;
		}
	}
	if (len < 0) {
		int r = -errno;

		return fail(o, r, ".", strerror(-r));
	}
	return 0;
}

/* Goes into the last child of the deepest level; one that is no directory any more is left out. */
static int descend(struct owning *o)
{
	struct level *parent = deepest(o);
	AUTO_FREE char *name = take_ptr(&parent->children[--parent->count]);
	AUTO_FD int fd = openat(o->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statx st;
	int r = fd < 0 ? -errno : look(fd, &st);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	if (r == 0 && is_elsewhere(parent, &st))
		return 0;
	if (r == 0)
		r = level_push(o, &st);
	if (r < 0)
		return fail(o, r, name, strerror(-r));
	cleanup_fd(&o->fd);
	o->fd = take_fd(&fd);
	return level_scan(o);
}

/* The deepest level's directory comes after all that it holds; then it is left. */
static int ascend(struct owning *o)
{
	const struct level *parent = o->depth > 1 ? &o->levels[o->depth - 2] : NULL;
	AUTO_FD int fd = -1;
	struct statx st;
	int r = apply_entry(o->fd, FD_DIR, o->rule, NULL);

	if (r < 0)
		return fail(o, r, parent ? "a directory" : ".", strerror(-r));
	if (parent) {
		fd = openat(o->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : look(fd, &st);
		if (r < 0)
			return fail(o, r, "..", strerror(-r));
		if (st.stx_ino != parent->inode || is_elsewhere(parent, &st))
			return fail(o, -EBUSY, "..", "moved while its ownership was changed");
	}
	level_pop(o);
	cleanup_fd(&o->fd);
	o->fd = take_fd(&fd);
	return 0;
}

int own_tree(int dir_fd, const struct ownership_rule *rule, char *ret_error, size_t size)
{
	struct owning o = { .rule = rule, .fd = -1, .error = ret_error, .error_size = size };
	struct statx st;
	int r;

	ret_error[0] = '\0';
	if (rule->gid == GID_UNSET)
		return 0;
	o.fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = o.fd < 0 ? -errno : look(o.fd, &st);
	if (r == 0)
		r = level_push(&o, &st);
	if (r < 0)
		fail(&o, r, ".", strerror(-r));
	else
		r = level_scan(&o);
	while (r == 0 && o.depth > 0)
		r = deepest(&o)->count > 0 ? descend(&o) : ascend(&o);

	while (o.depth > 0)
		level_pop(&o);
	free(o.levels);
	cleanup_fd(&o.fd);
	return r;
}
