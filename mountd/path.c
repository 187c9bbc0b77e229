// SPDX-License-Identifier: Apache-2.0
#include "mountd/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

char *path_join(const char *dir, const char *name)
{
	char *path = NULL;
	const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";

	if (asprintf(&path, "%s%s%s", dir, slash, name) < 0)
		return NULL;
	return path;
}

int path_absolute(const char *path, char **ret_path)
{
	AUTO_FREE char *absolute = NULL;
	size_t len;

	if (path[0] == '\0')
		return -EINVAL;
	if (path[0] == '/') {
		absolute = strdup(path);
	} else {
		AUTO_FREE char *cwd = getcwd(NULL, 0);

		if (!cwd)
			return -errno;
		while (path[0] == '.' && path[1] == '/')
			path += 2 + strspn(path + 2, "/");
		absolute = path_join(cwd, path);
	}
	if (!absolute)
		return -ENOMEM;
	for (len = strlen(absolute); len > 1 && absolute[len - 1] == '/'; len--)
		absolute[len - 1] = '\0';
	*ret_path = take_ptr(&absolute);
	return 0;
}

socklen_t path_socket_address(int dir_fd, const char *dir_path, const char *name,
			      struct sockaddr_un *ret_address)
{
	int len;

	memset(ret_address, 0, sizeof(*ret_address));
	ret_address->sun_family = AF_UNIX;
	len = snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s/%s", dir_path,
		       name);
	if (len < 0 || (size_t)len >= sizeof(ret_address->sun_path))
		len = snprintf(ret_address->sun_path, sizeof(ret_address->sun_path),
			       "/proc/self/fd/%d/%s", dir_fd, name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len + 1);
}

int path_mkdir_all(int dir_fd, const char *path)
{
	char part[PATH_MAX];

	for (size_t i = 0;; i++) {
		if (i >= sizeof(part))
			return -ENAMETOOLONG;
		part[i] = path[i];
		if (path[i] != '/' && path[i] != '\0')
			continue;
		part[i] = '\0';
		if (i > 0 && mkdirat(dir_fd, part, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (path[i] == '\0')
			return 0;
		part[i] = '/';
	}
}

/*
 * Opens a directory of ours; what stands in it is secret, so nobody else may own or enter it; but the daemon lets
 * a group in to its socket (daemon_let_in()): to those of it what they may not read is as if it were not there.
 */
static int open_own_dir(int root_fd, const char *path, bool create, mode_t group_bits, int *ret_fd)
{
	const int how = create ? O_RDONLY : O_PATH;
	struct stat st;
	AUTO_FD int fd = -1;
	int r;

	if (create) {
		r = path_mkdir_all(root_fd, path);
		if (r < 0)
			return r;
	}
	fd = openat(root_fd, path, how | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		if ((errno == ENOENT || errno == EACCES) && !create) {
			*ret_fd = -1;
			return 0;
		}
		return -errno;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() && (create || st.st_uid != 0))
		return -EPERM;
	if (create && (st.st_mode & 07777 & ~group_bits) != 0700 && fchmod(fd, 0700) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int layout_open(const char *root, bool create, struct layout **ret_layout)
{
	AUTO(layout) *layout = calloc(1, sizeof(*layout));
	AUTO_FD int root_fd = -1;
	int r;

	if (!layout)
		return -ENOMEM;
	layout->state_fd = layout->run_fd = -1;
	r = path_absolute(root, &layout->root);
	if (r < 0)
		return r;
	layout->state_path = path_join(layout->root, PATH_STATE);
	layout->run_path = path_join(layout->root, PATH_RUN);
	layout->config_path = path_join(layout->root, PATH_CONFIG);
	if (!layout->state_path || !layout->run_path || !layout->config_path)
		return -ENOMEM;
	root_fd = open(layout->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	r = open_own_dir(root_fd, PATH_STATE, create, 0, &layout->state_fd);
	if (r < 0)
		return r;
	r = open_own_dir(root_fd, PATH_RUN, create, 0010, &layout->run_fd);
	if (r < 0)
		return r;
	*ret_layout = take_ptr(&layout);
	return 0;
}

void layout_free(struct layout *layout)
{
	if (!layout)
		return;
	cleanup_fd(&layout->state_fd);
	cleanup_fd(&layout->run_fd);
	free(layout->root);
	free(layout->state_path);
	free(layout->run_path);
	free(layout->config_path);
	free(layout);
}
