// SPDX-License-Identifier: Apache-2.0
#include "fs/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

ssize_t io_read_all(int fd, void *ret_bytes, size_t size)
{
	size_t used = 0;

	while (used < size) {
		ssize_t n = read(fd, (char *)ret_bytes + used, size - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

int io_read_text(int dir_fd, const char *name, char *ret_text, size_t size)
{
	AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io_read_all(fd, ret_text, size - 1);
	if (n < 0)
		return (int)n;
	ret_text[n] = '\0';
	return 0;
}

int io_read_line(int dir_fd, const char *name, char *ret_text, size_t size)
{
	int r = io_read_text(dir_fd, name, ret_text, size);

	if (r == 0)
		ret_text[strcspn(ret_text, "\n")] = '\0';
	return r;
}

int io_write_all(int fd, const void *bytes, size_t size)
{
	size_t used = 0;

	while (used < size) {
		ssize_t n = write(fd, (const char *)bytes + used, size - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	return 0;
}
