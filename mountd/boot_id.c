// SPDX-License-Identifier: Apache-2.0
#include "mountd/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"

static int read_kernels(char ret_id[BOOT_ID_SIZE])
{
	AUTO_FD int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io_read_all(fd, ret_id, BOOT_ID_SIZE - 1);
	if (n < 0)
		return (int)n;
	ret_id[n] = '\0';
	ret_id[strcspn(ret_id, "\n")] = '\0';
	return 0;
}

int boot_id_get(const char *root, char ret_id[BOOT_ID_SIZE], char *ret_error, size_t size)
{
	const char *given = getenv(BOOT_ID_VARIABLE);
	int r;

	if (!given) {
		r = read_kernels(ret_id);
		if (r < 0)
			snprintf(ret_error, size, "the kernel's boot id: %s", strerror(-r));
		return r;
	}
	if (strcmp(root, "/") == 0) {
		snprintf(ret_error, size, BOOT_ID_VARIABLE " is for tests: not with the root /");
		return -EPERM;
	}
	if (strlen(given) != BOOT_ID_SIZE - 1 ||
	    strspn(given, "0123456789abcdef-") != BOOT_ID_SIZE - 1) {
		snprintf(ret_error, size, BOOT_ID_VARIABLE " is not a boot id");
		return -EINVAL;
	}
	memcpy(ret_id, given, BOOT_ID_SIZE);
	return 0;
}
