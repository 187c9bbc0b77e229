// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/git.h"

/* The emptyDir that the clone is in. */
static const char WRAPPED[] = "tree";

/*
 * What the wrapped volume's marker certified when the clone was whole: as long as it still does, the clone
 * is there, with what its users have changed since.
 */
static const char KEY_WHOLE[] = "whole";

struct git_repo {
	struct git_source source;
	const char *directory; /* "": git's own name for it; ".": the volume's root */
};

/* As the API server has it: below the volume, without "..". One that names git's own is none of ours. */
static int check_directory(struct volume_builder *b, const char *directory)
{
	char quoted[128];

	log_quote(directory, quoted, sizeof(quoted));
	if (directory[0] == '-')
		return builder_fail(b, -EINVAL, "directory: %s begins with \"-\"", quoted);
	if (directory[0] == '/')
		return builder_fail(b, -EINVAL, "directory: %s is absolute", quoted);
	if (strlen(directory) >= PATH_MAX)
		return builder_fail(b, -EINVAL, "directory: too long");
	for (const char *p = directory; *p;) {
		size_t len = strcspn(p, "/");

		if (len == 2 && memcmp(p, "..", 2) == 0)
			return builder_fail(b, -EINVAL, "directory: %s leaves the volume", quoted);
		if (len == 4 && memcmp(p, ".git", 4) == 0)
			return builder_fail(b, -EINVAL, "directory: %s names git's own directory",
					    quoted);
		if (len > NAME_MAX)
			return builder_fail(b, -EINVAL, "directory: a name of it is too long");
		p += len + (p[len] == '/');
	}
	return 0;
}

static int parse_source(struct volume_builder *b, struct git_repo *ret_spec)
{
	struct git_repo spec;
	char name[NAME_MAX + 1];
	int r;

	if ((r = builder_source_text(b, "repository", &spec.source.repository)) < 0 ||
	    (r = builder_source_text(b, "revision", &spec.source.revision)) < 0 ||
	    (r = builder_source_text(b, "directory", &spec.directory)) < 0 ||
	    (r = check_directory(b, spec.directory)) < 0)
		return r;
	if (!spec.source.repository[0])
		return builder_fail(b, -EINVAL, "repository: missing");
	if (!spec.directory[0] && git_directory_name(spec.source.repository, name) < 0)
		return builder_fail(
			b, -EINVAL,
			"directory: missing, and the repository's URL has no name for it");
	*ret_spec = spec;
	return 0;
}

static int git_repo_check(struct volume_builder *b)
{
	struct git_repo spec;
	int r = parse_source(b, &spec);

	return r < 0 ? r : git_check(b, &spec.source);
}

static char *git_repo_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	struct git_repo spec = { { "", "" }, "" };
	json_t *list;
	char *text;

	parse_source(&copy, &spec);
	list = json_pack("{s:s, s:s, s:s}", "repository", spec.source.repository, "revision",
			 spec.source.revision, "directory", spec.directory);
	text = list ? json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(list);
	return text;
}

/* Mode 0755, whatever the umask. */
static int make_and_open(int parent_fd, const char *name, int *ret_fd)
{
	AUTO_FD int fd = -1;

	if (mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* The directory that the clone goes to, made in the volume's tree. */
static int open_directory(struct volume_builder *b, const struct git_repo *spec, int lower_fd,
			  int *ret_fd)
{
	AUTO_FD int fd = fcntl(lower_fd, F_DUPFD_CLOEXEC, 0);
	AUTO_FREE char *path = NULL;
	char name[NAME_MAX + 1], quoted[96];
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && !spec->directory[0])
		r = git_directory_name(spec->source.repository, name);
	if (r == 0) {
		path = strdup(spec->directory[0] ? spec->directory : name);
		r = path ? 0 : -ENOMEM;
	}
	if (r < 0)
		return builder_fail(b, r, "directory: %s", strerror(-r));
	for (char *rest = path, *part; (part = strsep(&rest, "/")) != NULL;) {
		int next = -1;

		if (!*part || strcmp(part, ".") == 0)
			continue;
		r = make_and_open(fd, part, &next);
		if (r < 0)
			return builder_fail(b, r, "directory: %s: %s",
					    log_quote(part, quoted, sizeof(quoted)), strerror(-r));
		cleanup_fd(&fd);
		fd = next;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* What is there is whole; false also where it cannot be told. */
static bool is_whole(struct volume_builder *b)
{
	const char *recorded = json_string_value(json_object_get(b->metadata, KEY_WHOLE));
	AUTO_FREE char *now = NULL;

	return recorded && b->host->certify(b, WRAPPED, &now) == 0 && strcmp(recorded, now) == 0;
}

static int record_whole(struct volume_builder *b)
{
	AUTO_FREE char *text = NULL;
	int r = b->host->certify(b, WRAPPED, &text);

	if (r == 0 && json_object_set_new(b->metadata, KEY_WHOLE, json_string(text)) < 0)
		r = builder_fail(b, -ENOMEM, "out of memory");
	return r;
}

/* Begins anew, whatever an interrupted clone has left: it was never shown to anybody. */
static int clone_anew(struct volume_builder *b, const struct git_repo *spec, gid_t gid,
		      int *ret_lower)
{
	AUTO_FD int lower = -1, fd = -1;
	enum ownership_outcome ignored;
	json_t *source = json_object();
	bool ran;
	int r;

	json_object_del(b->metadata, KEY_WHOLE);
	r = source ? b->host->tear_down(b, WRAPPED) : builder_fail(b, -ENOMEM, "out of memory");
	if (r == 0)
		r = b->host->set_up(b, WRAPPED, "emptyDir", source, GID_UNSET, &lower, &ignored,
				    &ran);
	json_decref(source);
	if (r < 0 || (r = open_directory(b, spec, lower, &fd)) < 0 ||
	    (r = git_clone(b, &spec->source, fd)) < 0)
		return r;
	if (gid != GID_UNSET)
		r = b->host->own_tree(b, lower, gid, b->read_only);
	if (r == 0)
		r = record_whole(b);
	if (r == 0)
		*ret_lower = take_fd(&lower);
	return r;
}

static int git_repo_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			   enum ownership_outcome *ret_ownership)
{
	struct git_repo spec;
	int r = parse_source(b, &spec);

	if (r < 0)
		return r;
	if (is_whole(b)) {
		*ret_ownership = gid == GID_UNSET ? OWNERSHIP_DONE : OWNERSHIP_PRESENT;
		return b->host->open_lower(b, WRAPPED, ret_lower);
	}
	*ret_ownership = OWNERSHIP_DONE;
	return clone_anew(b, &spec, gid, ret_lower);
}

static int git_repo_certify(struct volume_builder *b, char **ret_text)
{
	if (!is_whole(b))
		return builder_fail(b, -ENOENT, "%s/%s: holds no whole clone", b->dir_path,
				    WRAPPED);
	return b->host->certify(b, WRAPPED, ret_text);
}

static int git_repo_open_lower(struct volume_builder *b, int *ret_lower)
{
	return b->host->open_lower(b, WRAPPED, ret_lower);
}

static int git_repo_tear_down(struct volume_builder *b)
{
	int r = b->host->tear_down(b, WRAPPED);

	if (r == 0)
		json_object_del(b->metadata, KEY_WHOLE);
	return r;
}

const struct volume_plugin plugin_git_repo = {
	.name = "gitRepo",
	.attributes = { .idempotency = IDEMPOTENCY_MARKER, .manages_ownership = true },
	.check = git_repo_check,
	.identity = git_repo_identity,
	.set_up = git_repo_set_up,
	.certify = git_repo_certify,
	.open_lower = git_repo_open_lower,
	.tear_down = git_repo_tear_down,
};
