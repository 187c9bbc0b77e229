// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/object_file.h"
#include "mountd/proto.h"

/* What it holds may be secret: from here on this process dumps no core. */
static int open_file(int dir_fd, const char *path, int *ret_fd)
{
	int r = proto_keep_secret(), fd;

	if (r < 0)
		return r;
	if (strcmp(path, "-") == 0)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int ctl_file_read(int dir_fd, const char *path, char **ret_text)
{
	AUTO_FD int fd = -1;
	struct stat st;
	int r = open_file(dir_fd, path, &fd);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? -EISDIR : object_text_read(fd, ret_text);
}

int ctl_objects_load(const struct ctl *ctl, const char *subject, const char *path,
		     json_t **ret_array)
{
	char why[OBJECT_FILE_ERROR_MAX], quoted[256];
	AUTO_FD int fd = -1;
	int r = open_file(AT_FDCWD, path, &fd);

	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, subject, "objects %s: %s",
				log_quote(path, quoted, sizeof(quoted)), strerror(-r));
	r = object_file_read(fd, path, true, ret_array, why);
	return r < 0 ? ctl_fail(ctl, EXIT_FAILED, subject, "%s", why) : EXIT_OK;
}
