// SPDX-License-Identifier: Apache-2.0
#include "mountd/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/apart.h"
#include "mountd/mount.h"
#include "mountd/path.h"

static int fail(int error, const char *path, const char *why, char *ret_error)
{
	char quoted[256];

	snprintf(ret_error, TARGET_ERROR_MAX, "target %s: %s",
		 log_quote(path, quoted, sizeof(quoted)), why);
	return error;
}

/* The path of a directory that is open as @fd. */
static int path_of_fd(int fd, char **ret_path)
{
	char link[64], path[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path));
	if (len < 0)
		return -errno;
	if ((size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	*ret_path = strndup(path, (size_t)len);
	return *ret_path ? 0 : -ENOMEM;
}

int target_open(const char *path, struct target **ret_target, char *ret_error)
{
	AUTO(target) *target = calloc(1, sizeof(*target));
	AUTO_FREE char *parent = NULL, *resolved_parent = NULL;
	char *slash;
	int r;

	ret_error[0] = '\0';
	if (!target)
		return -ENOMEM;
	target->parent_fd = -1;
	if (path[0] != '/')
		return fail(-EINVAL, path, "not an absolute path", ret_error);
	r = path_absolute(path, &target->given);
	if (r < 0)
		return r;
	slash = strrchr(target->given, '/');
	target->name = slash + 1;
	if (!*target->name || strcmp(target->name, ".") == 0 || strcmp(target->name, "..") == 0)
		return fail(-EINVAL, path, "must end in a name", ret_error);
	parent = strndup(target->given,
			 slash == target->given ? 1 : (size_t)(slash - target->given));
	if (!parent)
		return -ENOMEM;
	r = apart_open(AT_FDCWD, parent, O_PATH | O_DIRECTORY, 0, &target->parent_fd);
	if (r < 0)
		return fail(r, path,
			    r == -ETIMEDOUT ? "a file system above it does not answer" :
					      strerror(-r),
			    ret_error);
	r = path_of_fd(target->parent_fd, &resolved_parent);
	if (r < 0)
		return fail(r, path, strerror(-r), ret_error);
	target->resolved = path_join(resolved_parent, target->name);
	if (!target->resolved)
		return -ENOMEM;
	*ret_target = take_ptr(&target);
	return 0;
}

void target_free(struct target *target)
{
	if (!target)
		return;
	cleanup_fd(&target->parent_fd);
	free(target->given);
	free(target->resolved);
	free(target);
}

int target_look(const struct target *target, enum target_kind *ret_kind)
{
	struct mount_view view;
	int r = mount_look(target->parent_fd, target->name, &view);

	if (r == -ENOENT) {
		*ret_kind = TARGET_ABSENT;
		return 0;
	}
	if (r < 0)
		return r;
	*ret_kind = view.is_root       ? TARGET_MOUNT :
		    S_ISDIR(view.mode) ? TARGET_DIRECTORY :
		    S_ISREG(view.mode) ? TARGET_FILE :
					 TARGET_OTHER;
	return 0;
}

void target_id(const char *given, char ret_id[TARGET_ID_SIZE])
{
	char digest[SHA256_DIGEST_STRING_LENGTH];

	SHA256Data((const uint8_t *)given, strlen(given), digest);
	memcpy(ret_id, digest, TARGET_ID_SIZE - 1);
	ret_id[TARGET_ID_SIZE - 1] = '\0';
}
