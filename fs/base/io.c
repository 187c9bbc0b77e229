// SPDX-License-Identifier: Apache-2.0
#include "fs/base/io.h"

#include <errno.h>
#include <unistd.h>

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
