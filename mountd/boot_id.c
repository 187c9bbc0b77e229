// SPDX-License-Identifier: Apache-2.0
#include "mountd/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"

int boot_id_get(const char *root, char ret_id[BOOT_ID_SIZE], char *ret_error, size_t size)
{
	const char *given = getenv(BOOT_ID_VARIABLE);
	int r;

	if (!given) {
		r = io_read_line(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret_id, BOOT_ID_SIZE);
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
