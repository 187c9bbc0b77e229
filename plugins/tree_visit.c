// SPDX-License-Identifier: Apache-2.0
#include "plugins/tree_visit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "plugins/builder.h"

/* A walk: the directories from the top to the one that is read. */
struct visiting {
	unsigned mask;
	uint64_t mount_id;
	tree_visitor *visit;
	void *arg;
	DIR *open[TREE_DEPTH_MAX];
	size_t depth;
};

static int look(struct visiting *v, int fd, const char *name, struct statx *ret_st)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;

	if (statx(fd, name, flags, STATX_TYPE | BUILDER_STATX_MOUNT | v->mask, ret_st) < 0)
		return -errno;
	return 0;
}

/* Takes @io_fd over. */
static int push(struct visiting *v, int *io_fd)
{
	DIR *dir;

	if (v->depth == TREE_DEPTH_MAX)
		return -ELOOP;
	dir = fdopendir(*io_fd);
	if (!dir)
		return -errno;
	take_fd(io_fd);
	v->open[v->depth++] = dir;
	return 0;
}

static int enter(struct visiting *v, int dir_fd, const char *name)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statx st;
	int r = fd < 0 ? -errno : look(v, fd, "", &st);

	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0; /* somebody has put something else there */
	if (r == 0 && st.stx_mnt_id != v->mount_id)
		return 0;
	return r < 0 ? r : push(v, &fd);
}

static int visit_entry(struct visiting *v, int dir_fd, const char *name)
{
	struct statx st;
	int r = look(v, dir_fd, name, &st);

	if (r == -ENOENT)
		return 0;
	if (r < 0 || st.stx_mnt_id != v->mount_id)
		return r;
	r = v->visit(v->arg, dir_fd, name, &st);
	return r == 0 && S_ISDIR(st.stx_mode) ? enter(v, dir_fd, name) : r;
}

static int walk(struct visiting *v)
{
	while (v->depth > 0) {
		DIR *dir = v->open[v->depth - 1];
		struct dirent *entry;
		int r;

		errno = 0;
		entry = readdir(dir);
		if (!entry && errno != 0)
			return -errno;
		if (!entry) {
			closedir(dir);
			v->depth--;
			continue;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		r = visit_entry(v, dirfd(dir), entry->d_name);
		if (r < 0)
			return r;
	}
	return 0;
}

int tree_visit(int dir_fd, unsigned mask, tree_visitor *visit, void *arg)
{
	struct visiting v = { .mask = mask, .visit = visit, .arg = arg };
	AUTO_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statx st;
	int r = fd < 0 ? -errno : look(&v, fd, "", &st);

	if (r < 0)
		return r;
	v.mount_id = st.stx_mnt_id;
	r = push(&v, &fd);
	if (r == 0)
		r = walk(&v);
	while (v.depth > 0)
		closedir(v.open[--v.depth]);
	return r;
}

/* ---- usage ---- */

struct measuring {
	uint64_t max_entries;
	struct tree_usage usage;
};

static int measure(void *arg, int dir_fd, const char *name, const struct statx *st)
{
	struct measuring *m = arg;
	uint64_t bytes = st->stx_blocks * 512;

	(void)dir_fd;
	(void)name;
	if (m->usage.entries == m->max_entries)
		return -E2BIG;
	m->usage.entries++;
	m->usage.bytes +=
		!S_ISDIR(st->stx_mode) && st->stx_nlink > 1 ? bytes / st->stx_nlink : bytes;
	return 0;
}

int tree_usage(int dir_fd, uint64_t max_entries, struct tree_usage *ret_usage)
{
	struct measuring m = { .max_entries = max_entries };
	int r = tree_visit(dir_fd, STATX_BLOCKS | STATX_NLINK, measure, &m);

	if (r < 0 && r != -E2BIG && r != -ELOOP)
		return r;
	m.usage.cut = r < 0;
	*ret_usage = m.usage;
	return 0;
}
