// SPDX-License-Identifier: Apache-2.0
#include "mountd/volume_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"

#define LINKS_MAX 40 /* as the kernel's */

struct walk {
	struct store *store;
	int dir_fd;	   /* O_PATH: of @at */
	char at[PATH_MAX]; /* without links, and without a slash at its end: "" is the root */
	char *rest;	   /* what is to be walked still; ours */
	unsigned links;
};

static int enter_root(struct walk *w)
{
	cleanup_fd(&w->dir_fd);
	w->at[0] = '\0';
	w->dir_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->dir_fd < 0 ? -errno : 0;
}

static int enter(struct walk *w, const char *name)
{
	int fd = openat(w->dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	cleanup_fd(&w->dir_fd);
	w->dir_fd = fd;
	return 0;
}

static int go_up(struct walk *w)
{
	char *slash = strrchr(w->at, '/');

	if (slash)
		*slash = '\0';
	return slash ? enter(w, "..") : 0;
}

/* What a link says stands before the rest from now on. 0: the name is no link. */
static int follow(struct walk *w, const char *name, const char *rest)
{
	char link[PATH_MAX];
	ssize_t len = readlinkat(w->dir_fd, name, link, sizeof(link) - 1);
	char *text = NULL;

	if (len < 0)
		return errno == EINVAL ? 0 : -errno;
	link[len] = '\0';
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (asprintf(&text, "%s/%s", link, rest) < 0)
		return -ENOMEM;
	free(w->rest);
	w->rest = text;
	if (link[0] == '/') {
		int r = enter_root(w);

		return r < 0 ? r : 1;
	}
	return 1;
}

static bool has_dot_dot(const char *rest)
{
	for (const char *at = rest; (at = strstr(at, "..")) != NULL; at += 2) {
		if ((at == rest || at[-1] == '/') && (at[2] == '\0' || at[2] == '/'))
			return true;
	}
	return false;
}

/* One component. 1: the volume is found, and *ret_rest is in w->rest. */
static int step(struct walk *w, struct volume_record **ret_vol, const char **ret_rest)
{
	char *name = w->rest + strspn(w->rest, "/"), *rest;
	size_t len = strcspn(name, "/"), at_len = strlen(w->at);
	AUTO_FREE char *own = strndup(name, len);
	int r;

	if (!own)
		return -ENOMEM;
	rest = name + len;
	rest += strspn(rest, "/");
	if (len == 0)
		return -ENOENT;
	if (strcmp(own, "..") == 0 || strcmp(own, ".") == 0) {
		memmove(w->rest, rest, strlen(rest) + 1);
		return own[1] ? go_up(w) : 0;
	}
	if (at_len + 1 + len >= sizeof(w->at))
		return -ENAMETOOLONG;
	snprintf(w->at + at_len, sizeof(w->at) - at_len, "/%s", own);
	r = store_volume_by_target(w->store, w->at, ret_vol);
	if (r == 0) {
		*ret_rest = rest;
		return has_dot_dot(rest) ? -EXDEV : 1;
	}
	if (r != -ENOENT || !*rest)
		return r;
	w->at[at_len] = '\0';
	r = follow(w, own, rest);
	if (r != 0)
		return r < 0 ? r : 0;
	r = enter(w, own);
	if (r < 0)
		return r;
	w->at[at_len] = '/';
	memmove(w->rest, rest, strlen(rest) + 1);
	return 0;
}

/* Without the slashes and dots that mean nothing. */
static void tidy(char *io_rest)
{
	char *to = io_rest;

	for (const char *at = io_rest; *at;) {
		size_t len = strcspn(at, "/");

		if (len > 0 && !(len == 1 && *at == '.')) {
			if (to > io_rest)
				*to++ = '/';
			memmove(to, at, len);
			to += len;
		}
		at += len + strspn(at + len, "/");
	}
	*to = '\0';
}

/* A volume may be mounted inside another: the innermost has it. What is between the two is not looked at. */
static int find_inner(struct store *store, struct volume_record **io_vol, char *io_rest)
{
	for (char *at = io_rest; *at;) {
		size_t len = strcspn(at, "/");
		AUTO(volume_record) *inner = NULL;
		AUTO_FREE char *path = NULL;
		const struct volume_record *vol = *io_vol;
		int r;

		if (asprintf(&path, "%s/%.*s",
			     vol->target_resolved ? vol->target_resolved : vol->target,
			     (int)(at + len - io_rest), io_rest) < 0)
			return -ENOMEM;
		at += len + (at[len] == '/');
		r = store_volume_by_target(store, path, &inner);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		memmove(io_rest, at, strlen(at) + 1);
		at = io_rest;
		volume_record_free(*io_vol);
		*io_vol = take_ptr(&inner);
	}
	return 0;
}

int volume_of_path(struct store *store, const char *path, struct volume_record **ret_vol,
		   char **ret_rest)
{
	struct walk w = { .store = store, .dir_fd = -1, .rest = strdup(path) };
	AUTO(volume_record) *vol = NULL;
	const char *rest = NULL;
	char *copy = NULL;
	int r = w.rest ? enter_root(&w) : -ENOMEM;

	while (r == 0)
		r = step(&w, &vol, &rest);
	if (r > 0)
		copy = strdup(rest);
	free(w.rest);
	cleanup_fd(&w.dir_fd);
	if (r < 0)
		return r;
	if (!copy)
		return -ENOMEM;
	tidy(copy);
	r = find_inner(store, &vol, copy);
	if (r < 0) {
		free(copy);
		return r;
	}
	*ret_rest = copy;
	*ret_vol = take_ptr(&vol);
	return 0;
}
