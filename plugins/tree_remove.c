// SPDX-License-Identifier: Apache-2.0
#include "plugins/tree_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"

/*
 * Only the directory that is being emptied is open. It is left through "..", and what is found there must
 * be the directory that it was entered from: should someone move a directory out of the tree meanwhile,
 * we stop instead of deleting where it was moved to.
 *
 * A directory is read once: files go at once, directories that are not empty are remembered by name and
 * entered afterwards. Reading again after each of them would be quadratic.
 */
struct level {
	uint64_t mount_id, inode;
	dev_t device;
	char **children; /* directories to be emptied; the last one is entered next */
	size_t count, capacity;
};

struct removal {
	int fd; /* the directory of the deepest level */
	struct level *levels;
	size_t depth, capacity;
	unsigned again;	  /* how many directories were not empty after they had been emptied */
	uint64_t deleted; /* entries */
	void (*on_deleted)(void *arg, uint64_t entries); /* or NULL */
	void *arg;
	char *error; /* the caller's */
	size_t error_size;
};

/* Somebody who writes to the tree as fast as we delete it must not keep us for ever. */
enum { AGAIN_MAX = 1000, READ_BYTES = 32768 };

/* How often it is told how many there were: a power of two. */
#define TELL_EVERY 256

static struct level *deepest(struct removal *rm)
{
	return &rm->levels[rm->depth - 1];
}

/* The way down to @name; the child that a level has been left for is the last of its children. */
static int fail(struct removal *rm, int error, const char *name, const char *reason)
{
	char path[PATH_MAX], quoted[300];
	size_t used = 0;

	path[0] = '\0';
	for (size_t i = 0; i + 1 < rm->depth && used < sizeof(path); i++) {
		const struct level *level = &rm->levels[i];

		used += (size_t)snprintf(path + used, sizeof(path) - used, "%s/",
					 level->children[level->count - 1]);
	}
	if (used < sizeof(path))
		snprintf(path + used, sizeof(path) - used, "%s", name);
	snprintf(rm->error, rm->error_size, "%s: %s", log_quote(path, quoted, sizeof(quoted)),
		 reason);
	return error;
}

static int child_push(struct removal *rm, const char *name)
{
	struct level *level = deepest(rm);

	if (level->count == level->capacity) {
		size_t capacity = level->capacity ? 2 * level->capacity : 4;
		char **longer = reallocarray(level->children, capacity, sizeof(*longer));

		if (!longer)
			return fail(rm, -ENOMEM, name, "out of memory");
		level->children = longer;
		level->capacity = capacity;
	}
	level->children[level->count] = strdup(name);
	if (!level->children[level->count])
		return fail(rm, -ENOMEM, name, "out of memory");
	level->count++;
	return 0;
}

static void child_pop(struct removal *rm)
{
	struct level *level = deepest(rm);

	free(level->children[--level->count]);
}

static int level_push(struct removal *rm, const struct statx *st)
{
	if (rm->depth == rm->capacity) {
		size_t capacity = rm->capacity ? 2 * rm->capacity : 16;
		struct level *longer = reallocarray(rm->levels, capacity, sizeof(*longer));

		if (!longer)
			return -ENOMEM;
		rm->levels = longer;
		rm->capacity = capacity;
	}
	rm->levels[rm->depth++] = (struct level){
		.mount_id = st->stx_mnt_id,
		.inode = st->stx_ino,
		.device = makedev(st->stx_dev_major, st->stx_dev_minor),
	};
	return 0;
}

static void level_pop(struct removal *rm)
{
	while (deepest(rm)->count > 0)
		child_pop(rm);
	free(deepest(rm)->children);
	rm->depth--;
}

static int stat_entry(int fd, const char *name, struct statx *ret_st)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;

	if (statx(fd, name, flags, STATX_TYPE | STATX_INO | BUILDER_STATX_MOUNT, ret_st) < 0)
		return -errno;
	return 0;
}

static bool is_elsewhere(const struct level *level, const struct statx *st)
{
	return st->stx_mnt_id != level->mount_id ||
	       makedev(st->stx_dev_major, st->stx_dev_minor) != level->device;
}

static int fail_mount(struct removal *rm, const char *name)
{
	return fail(rm, -EBUSY, name, "a mount, or another file system; not deleted");
}

/* Deletes one entry of the deepest level; a directory that is not empty is remembered. */
static int entry_remove(struct removal *rm, const char *name)
{
	struct statx st;
	bool is_dir;
	int r = stat_entry(rm->fd, name, &st);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return fail(rm, r, name, strerror(-r));
	if (is_elsewhere(deepest(rm), &st) || (st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return fail_mount(rm, name);
	is_dir = S_ISDIR(st.stx_mode);
	if (unlinkat(rm->fd, name, is_dir ? AT_REMOVEDIR : 0) == 0) {
		if (++rm->deleted % TELL_EVERY == 0 && rm->on_deleted)
			rm->on_deleted(rm->arg, rm->deleted);
		return 0;
	}
	if (errno == ENOENT)
		return 0;
	r = -errno;
	if (is_dir && (r == -ENOTEMPTY || r == -EEXIST))
		return child_push(rm, name);
	return fail(rm, r, name, strerror(-r));
}

static bool is_dot_or_dotdot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Deletes what the deepest level's directory holds, down to directories that are not empty. */
static int level_scan(struct removal *rm)
{
	char buffer[READ_BYTES] __attribute__((aligned(8)));
	ssize_t len;

	while ((len = getdents64(rm->fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			int r = is_dot_or_dotdot(entry->d_name) ? 0 :
								  entry_remove(rm, entry->d_name);

			if (r < 0)
				return r;
			at += entry->d_reclen;
		}
	}
	if (len < 0) {
		int r = -errno;

		return fail(rm, r, ".", strerror(-r));
	}
	return 0;
}

/* Goes into the last child of the deepest level. */
static int descend(struct removal *rm)
{
	const struct level *parent = deepest(rm);
	const char *name = parent->children[parent->count - 1];
	AUTO_FD int fd = openat(rm->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statx st;
	int r = fd < 0 ? -errno : stat_entry(fd, "", &st);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
		/* Somebody has put something else there; should it not be gone, the parent says so. */
		child_pop(rm);
		return 0;
	}
	if (r < 0)
		return fail(rm, r, name, strerror(-r));
	if (is_elsewhere(parent, &st))
		return fail_mount(rm, name);
	r = level_push(rm, &st);
	if (r < 0)
		return fail(rm, r, name, strerror(-r));
	cleanup_fd(&rm->fd);
	rm->fd = take_fd(&fd);
	return level_scan(rm);
}

/* Leaves the deepest level, which has been emptied, and deletes its directory. */
static int ascend(struct removal *rm)
{
	const struct level *parent = &rm->levels[rm->depth - 2];
	AUTO_FD int fd = openat(rm->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *name = NULL;
	struct statx st;
	int r = fd < 0 ? -errno : stat_entry(fd, "", &st);
	size_t before;

	if (r < 0)
		return fail(rm, r, "..", strerror(-r));
	if (st.stx_ino != parent->inode || is_elsewhere(parent, &st))
		return fail(rm, -EBUSY, ".", "moved while it was being deleted");
	level_pop(rm);
	cleanup_fd(&rm->fd);
	rm->fd = take_fd(&fd);

	name = take_ptr(&deepest(rm)->children[--deepest(rm)->count]);
	before = deepest(rm)->count;
	r = entry_remove(rm, name);
	if (r == 0 && deepest(rm)->count > before && ++rm->again > AGAIN_MAX)
		return fail(rm, -EBUSY, name, "written to while it was being deleted");
	return r;
}

static int remove_below(struct removal *rm, const char *name)
{
	int r = entry_remove(rm, name);

	while (r == 0 && (rm->depth > 1 || deepest(rm)->count > 0))
		r = deepest(rm)->count > 0 ? descend(rm) : ascend(rm);
	return r;
}

int tree_remove_told(int dir_fd, const char *name, void (*on_deleted)(void *arg, uint64_t entries),
		     void *arg, char *ret_error, size_t size)
{
	AUTO_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct removal rm = { .fd = -1,
			      .on_deleted = on_deleted,
			      .arg = arg,
			      .error = ret_error,
			      .error_size = size };
	struct statx st;
	int r = fd < 0 ? -errno : stat_entry(fd, "", &st);

	if (r == 0)
		r = level_push(&rm, &st);
	if (r < 0)
		return fail(&rm, r, name, strerror(-r));
	rm.fd = take_fd(&fd);
	r = remove_below(&rm, name);

	while (rm.depth > 0)
		level_pop(&rm);
	free(rm.levels);
	cleanup_fd(&rm.fd);
	if (r == 0 && on_deleted)
		on_deleted(arg, rm.deleted);
	return r;
}

int tree_remove(int dir_fd, const char *name, char *ret_error, size_t size)
{
	return tree_remove_told(dir_fd, name, NULL, NULL, ret_error, size);
}
