// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"

/*
 * The values of "type" (source: Kubernetes HostPathType, and pkg/volume/hostpath for what each makes).
 * A format of 0 is not checked.
 */
struct path_type {
	const char *name;
	mode_t format;
	bool create;
	mode_t mode; /* of what is created, whatever the umask */
	const char *noun;
};

static const struct path_type path_types[] = {
	{ "", 0, false, 0, "file" },
	{ "DirectoryOrCreate", S_IFDIR, true, 0755, "directory" },
	{ "Directory", S_IFDIR, false, 0, "directory" },
	{ "FileOrCreate", S_IFREG, true, 0644, "regular file" },
	{ "File", S_IFREG, false, 0, "regular file" },
	{ "Socket", S_IFSOCK, false, 0, "socket" },
	{ "CharDevice", S_IFCHR, false, 0, "character device" },
	{ "BlockDevice", S_IFBLK, false, 0, "block device" },
};

static int parse_source(struct volume_builder *b, char **ret_path,
			const struct path_type **ret_type)
{
	const char *name = NULL;
	char quoted[64];
	int r = builder_source_text(b, "type", &name);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(path_types); i++) {
		if (strcmp(name, path_types[i].name) == 0) {
			r = builder_source_path(b, ret_path);
			if (r == 0)
				*ret_type = &path_types[i];
			return r;
		}
	}
	return builder_fail(b, -EINVAL, "type: %s is not a hostPath type",
			    log_quote(name, quoted, sizeof(quoted)));
}

static int host_path_check(struct volume_builder *b)
{
	AUTO_FREE char *path = NULL;
	const struct path_type *type;

	return parse_source(b, &path, &type);
}

static char *host_path_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	AUTO_FREE char *path = NULL;
	const struct path_type *type;
	char *text;

	if (parse_source(&copy, &path, &type) < 0 ||
	    asprintf(&text, "type=%s path=%s", type->name, path) < 0)
		return NULL;
	return text;
}

/* Makes the directory @name and opens it. Its mode is set only on what nobody has swapped. */
static int make_dir(int parent_fd, const char *name, mode_t mode, int *ret_fd)
{
	AUTO_FD int fd = -1;
	struct stat st;

	if (mkdirat(parent_fd, name, 0700) < 0)
		return -errno;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EBUSY;
	if (fchmod(fd, mode) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int make_file(int parent_fd, const char *name, mode_t mode, int *ret_fd)
{
	AUTO_FD int fd =
		openat(parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || fchmod(fd, mode) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/*
 * Opens the deepest directory of @path that is there, whose last component is not. As kubelet does, the
 * directories in between may be made for a directory, and not for a file.
 * *ret_rest: what is missing, within @path, whose slashes it turns into ends
 */
static int open_existing_parent(struct volume_builder *b, char *path, const struct path_type *type,
				int *ret_fd, char **ret_rest)
{
	for (char *slash = strrchr(path, '/');; slash = strrchr(path, '/')) {
		int r;

		*slash = '\0';
		r = builder_open_source(b, slash == path ? "/" : path, ret_fd);
		if (r != -ENOENT || slash == path || S_ISREG(type->format)) {
			*ret_rest = slash + 1;
			return r;
		}
	}
}

/* Makes what is missing of @path, component by component below a descriptor: no link is followed. */
static int create(struct volume_builder *b, char *path, size_t len, const struct path_type *type)
{
	AUTO_FD int parent_fd = -1;
	char *rest = NULL, quoted[256];
	int r = open_existing_parent(b, path, type, &parent_fd, &rest);

	while (r == 0 && rest < path + len) {
		AUTO_FD int fd = -1;

		r = S_ISDIR(type->format) ? make_dir(parent_fd, rest, type->mode, &fd) :
					    make_file(parent_fd, rest, type->mode, &fd);
		if (r < 0)
			return builder_fail(
				b, r, "create %s: %s", log_quote(rest, quoted, sizeof(quoted)),
				r == -EEXIST ? "a dangling symbolic link is in the way" :
					       strerror(-r));
		cleanup_fd(&parent_fd);
		parent_fd = take_fd(&fd);
		rest += strlen(rest) + 1;
	}
	return r;
}

static int open_checked(struct volume_builder *b, bool may_create, int *ret_lower)
{
	AUTO_FREE char *path = NULL, *scratch = NULL;
	const struct path_type *type = NULL;
	AUTO_FD int fd = -1;
	char quoted[256];
	struct stat st;
	int r = parse_source(b, &path, &type);

	if (r < 0)
		return r;
	r = builder_open_source(b, path, &fd);
	if (r == -ENOENT && may_create && type->create) {
		scratch = strdup(path);
		if (!scratch)
			return builder_fail(b, -ENOMEM, "out of memory");
		r = create(b, scratch, strlen(path), type);
		if (r == 0)
			r = builder_open_source(b, path, &fd);
	}
	if (r < 0)
		return r;
	log_quote(path, quoted, sizeof(quoted));
	if (fstat(fd, &st) < 0) {
		r = -errno;
		return builder_fail(b, r, "%s: %s", quoted, strerror(-r));
	}
	if (type->format != 0 && (st.st_mode & S_IFMT) != type->format)
		return builder_fail(b, S_ISDIR(type->format) ? -ENOTDIR : -EINVAL, "%s: not a %s",
				    quoted, type->noun);
	*ret_lower = take_fd(&fd);
	return 0;
}

static int host_path_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			    enum ownership_outcome *ret_ownership)
{
	int r = open_checked(b, true, ret_lower);

	(void)gid; /* the host's files are not ours to change: Kubernetes never does either */
	if (r == 0)
		*ret_ownership = OWNERSHIP_IGNORED;
	return r;
}

static int host_path_open_lower(struct volume_builder *b, int *ret_lower)
{
	return open_checked(b, false, ret_lower);
}

static int host_path_tear_down(struct volume_builder *b)
{
	(void)b;
	return 0;
}

const struct volume_plugin plugin_host_path = {
	.name = "hostPath",
	.attributes = { .idempotency = IDEMPOTENCY_NONE,
			.manages_ownership = false,
			.shared = true },
	.check = host_path_check,
	.identity = host_path_identity,
	.set_up = host_path_set_up,
	.open_lower = host_path_open_lower,
	.tear_down = host_path_tear_down,
};
