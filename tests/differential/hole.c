// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/hole.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum { EXTENTS_MAX = 512, BLOCK = 4096 };

/* In the order of the file; none touches the next one of its kind. Between them are holes. */
struct extents {
	off_t size; /* of the file */
	unsigned count;
	struct extent {
		off_t begin, end;
		bool is_written;
	} all[EXTENTS_MAX];
};

static int add(struct extents *e, off_t begin, off_t end, bool is_written)
{
	struct extent *last = e->count > 0 ? &e->all[e->count - 1] : NULL;

	if (end > e->size)
		end = e->size;
	if (begin >= end)
		return 0;
	if (last && last->end == begin && last->is_written == is_written) {
		last->end = end;
		return 0;
	}
	if (e->count == EXTENTS_MAX)
		return -EFBIG;
	e->all[e->count++] = (struct extent){ begin, end, is_written };
	return 0;
}

static int ask(int fd, struct extents *ret)
{
	size_t bytes = sizeof(struct fiemap) + EXTENTS_MAX * sizeof(struct fiemap_extent);
	AUTO_FREE struct fiemap *map = calloc(1, bytes);
	int r = 0;

	if (!map)
		return -ENOMEM;
	map->fm_length = FIEMAP_MAX_OFFSET;
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = EXTENTS_MAX;
	if (ioctl(fd, FS_IOC_FIEMAP, map) < 0)
		return -errno;
	for (unsigned i = 0; i < map->fm_mapped_extents && r == 0; i++) {
		const struct fiemap_extent *x = &map->fm_extents[i];

		r = add(ret, (off_t)x->fe_logical, (off_t)(x->fe_logical + x->fe_length),
			!(x->fe_flags & FIEMAP_EXTENT_UNWRITTEN));
	}
	return r < 0 || map->fm_mapped_extents < EXTENTS_MAX ? r : -EFBIG;
}

/* Zeros may be a hole: all of the file is here, written or not. */
static int read_content(int fd, struct extents *ret)
{
	static const unsigned char zeros[BLOCK];
	unsigned char bytes[BLOCK];
	char path[64];
	AUTO_FD int readable = -1;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readable = open(path, O_RDONLY | O_NOATIME | O_CLOEXEC);
	if (readable < 0)
		return -errno;
	for (off_t at = 0; at < ret->size && r == 0; at += BLOCK) {
		ssize_t n = pread(readable, bytes, sizeof(bytes), at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		r = add(ret, at, at + n, memcmp(bytes, zeros, (size_t)n) != 0);
	}
	return r;
}

/* What lies at @at: an extent, or NULL. */
static const struct extent *find(const struct extents *e, off_t at)
{
	for (unsigned i = 0; i < e->count; i++) {
		if (at >= e->all[i].begin && at < e->all[i].end)
			return &e->all[i];
	}
	return NULL;
}

static bool is_written_between(const struct extents *e, off_t from, off_t to)
{
	for (unsigned i = 0; i < e->count; i++) {
		if (e->all[i].is_written && e->all[i].begin < to && e->all[i].end > from)
			return true;
	}
	return false;
}

static bool is_hole_between(const struct extents *e, off_t from, off_t to)
{
	while (from < to) {
		const struct extent *x = find(e, from);

		if (!x)
			return true;
		from = x->end;
	}
	return false;
}

static bool may_be_data(const struct extents *e, off_t offset, int64_t answer)
{
	if (answer < 0)
		return !is_written_between(e, offset, e->size);
	return answer >= offset && find(e, answer) && !is_written_between(e, offset, answer);
}

static bool may_be_hole(const struct extents *e, off_t offset, int64_t answer)
{
	const struct extent *x = find(e, answer);

	return answer >= offset && answer <= e->size && (!x || !x->is_written) &&
	       !is_hole_between(e, offset, answer);
}

static bool are_right(const struct extents *e, int whence, off_t offset, const int64_t *answers,
		      unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (whence == SEEK_DATA ? !may_be_data(e, offset, answers[i]) :
					  !may_be_hole(e, offset, answers[i]))
			return false;
	}
	return true;
}

bool hole_is_by_chance(int fd, int whence, off_t offset, const int64_t *answers, unsigned count)
{
	AUTO_FREE struct extents *content = calloc(1, sizeof(*content));
	AUTO_FREE struct extents *allocated = calloc(1, sizeof(*allocated));
	struct stat st;
	int r;

	if (!content || !allocated || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || offset < 0)
		return false;
	content->size = allocated->size = st.st_size;
	if (read_content(fd, content) < 0 || !are_right(content, whence, offset, answers, count))
		return false;
	r = ask(fd, allocated);
	return r == -EOPNOTSUPP || r == -ENOTTY ||
	       (r == 0 && are_right(allocated, whence, offset, answers, count));
}
