// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/refresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/eager.h"
#include "tests/differential/volume.h"

enum { CHANGES_MAX = 8, NAMES = 20, SIDES = 2 };

/* What has not got its name yet. */
static const char NEW[] = ".refresh";

enum kind { ARRIVE, WRITE, REMOVE, LINK, MOVE, KINDS };

struct change {
	enum kind kind;
	mode_t type; /* of what arrives */
	uint64_t seed;
	char path[TREE_PATH_MAX], path2[TREE_PATH_MAX];
};

/* ---- each of them, in the tree that is the working directory: 0 or -errno ---- */

/* @path, and what is in it when it is a new directory. */
static int change_eagerly(const char *path, mode_t type)
{
	char child[TREE_PATH_MAX + 16];
	int r = 0;

	for (unsigned i = 0; S_ISDIR(type) && r == 0 && i < TREE_ADDED; i++) {
		snprintf(child, sizeof(child), "%s/%c", path, 'a' + (int)i);
		r = eager_change_one(child, VOLUME_GID);
	}
	return r < 0 ? r : eager_change_one(path, VOLUME_GID);
}

static void remove_new(mode_t type)
{
	char child[32];

	for (unsigned i = 0; S_ISDIR(type) && i < TREE_ADDED; i++) {
		snprintf(child, sizeof(child), "%s/%c", NEW, 'a' + (int)i);
		unlink(child);
	}
	unlinkat(AT_FDCWD, NEW, S_ISDIR(type) ? AT_REMOVEDIR : 0);
}

/* In place of what has the name. */
static int arrive(const struct change *c, bool is_changed)
{
	struct random random = { .state = c->seed };
	int r = tree_add(NEW, c->type, &random);

	if (r == 0 && is_changed)
		r = change_eagerly(NEW, c->type);
	if (r == 0 && rename(NEW, c->path) < 0)
		r = -errno;
	if (r < 0)
		remove_new(c->type);
	return r;
}

static int write_to(const struct change *c)
{
	AUTO_FD int fd = open(c->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (c->seed % 3 == 0 && ftruncate(fd, (off_t)(c->seed >> 8) % 5000) < 0)
		return -errno;
	return pwrite(fd, &c->seed, sizeof(c->seed), (off_t)(c->seed >> 16) % 6000) < 0 ? -errno :
											  0;
}

static int apply(const struct change *c, bool is_changed)
{
	switch (c->kind) {
	case ARRIVE:
		return arrive(c, is_changed);
	case WRITE:
		return write_to(c);
	case REMOVE:
		return unlink(c->path) < 0 ? -errno : 0;
	case LINK:
		return link(c->path, c->path2) < 0 ? -errno : 0;
	default:
		return rename(c->path, c->path2) < 0 ? -errno : 0;
	}
}

/* ---- which ---- */

static void pick(const struct tree_paths *paths, struct random *random, mode_t type,
		 char ret_path[TREE_PATH_MAX])
{
	unsigned i = 0;

	for (unsigned tries = 0; tries < 40; tries++) {
		i = random_below(random, paths->count);
		if (paths->entries[i].type == type)
			break;
	}
	strcpy(ret_path, paths->entries[i].path);
}

static void pick_new(const struct tree_paths *paths, struct random *random,
		     char ret_path[TREE_PATH_MAX])
{
	char dir[TREE_PATH_MAX];

	pick(paths, random, S_IFDIR, dir);
	snprintf(ret_path, TREE_PATH_MAX, "%.280s/r%u", dir, random_below(random, NAMES));
}

static struct change make_up(const struct refresh *r, const struct tree_paths *paths,
			     struct random *random)
{
	static const mode_t types[] = { S_IFREG, S_IFREG, S_IFREG, S_IFDIR,
					S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK };
	static const enum kind kinds[] = { ARRIVE, ARRIVE, ARRIVE, ARRIVE, WRITE,
					   WRITE,  REMOVE, LINK,   MOVE,   MOVE };
	struct change c = { .kind = random_pick(random, kinds) };

	if (c.kind == MOVE && r->converges)
		c.kind = LINK;
	c.type = random_pick(random, types);
	c.seed = random_next(random);
	if (c.kind == ARRIVE && random_percent(random, 60))
		pick_new(paths, random, c.path);
	else
		pick(paths, random,
		     c.kind == ARRIVE				    ? c.type :
		     c.kind == REMOVE && random_percent(random, 30) ? S_IFLNK :
		     c.kind == MOVE && random_percent(random, 40)   ? S_IFDIR :
								      S_IFREG,
		     c.path);
	pick_new(paths, random, c.path2);
	return c;
}

/* Whether @path is such a file, or a directory: compare.h. */
static bool is_pinned(const struct refresh *r, const char *path)
{
	struct stat st;

	if (fstatat(r->eager_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return true;
	for (unsigned i = 0; i < r->pin_count; i++) {
		if (r->pins[i] == st.st_ino)
			return true;
	}
	return false;
}

static bool takes_pinned(const struct refresh *r, const struct change *c)
{
	return (c->kind == ARRIVE || c->kind == REMOVE) ? is_pinned(r, c->path) :
	       c->kind == MOVE				? is_pinned(r, c->path2) :
							  false;
}

/* Whether its set-ID bits, which root's write leaves, may go as it is converged at that moment: compare.h. */
static bool writes_set_id(const struct refresh *r, const struct change *c)
{
	struct stat st;

	return c->kind == WRITE && r->converges &&
	       fstatat(r->eager_fd, c->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_mode & (S_ISUID | S_ISGID);
}

unsigned refresh_run(const struct refresh *r, uint64_t seed, struct difference *d)
{
	AUTO_FREE struct tree_paths *paths = malloc(sizeof(*paths));
	AUTO_FD int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const int roots[SIDES] = { r->eager_fd, r->lower_fd };
	struct random random = { .state = seed };
	unsigned count = 1 + random_below(&random, CHANGES_MAX), made = 0;

	if (!paths || before < 0)
		return 0;
	tree_list(r->eager_fd, paths);
	for (unsigned i = 0; i < count && !d->is_found; i++) {
		struct change c = make_up(r, paths, &random);
		int results[SIDES] = { 0 };

		if (takes_pinned(r, &c) || writes_set_id(r, &c))
			continue;
		for (int side = 0; side < SIDES; side++)
			results[side] = fchdir(roots[side]) < 0 ?
						-errno :
						apply(&c, side == 0 || r->converges);
		made += results[0] == 0;
		if (results[0] != results[1])
			difference_set(d, "refresh", "result", "change %d of %s: A %s, B %s",
				       (int)c.kind, c.path, strerror(-results[0]),
				       strerror(-results[1]));
	}
	if (fchdir(before) < 0)
		difference_set(d, "refresh", "working directory", "%s", strerror(errno));
	return made;
}
