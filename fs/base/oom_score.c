// SPDX-License-Identifier: Apache-2.0
#include "fs/base/oom_score.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

int oom_score_set(int score)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", score);

	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) == len || (errno == EACCES && write(fd, "0", 1) == 1))
		return 0;
	return -errno;
}

int oom_score_raise(void)
{
	AUTO_FD int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char first;

	if (fd < 0 || read(fd, &first, 1) != 1)
		return -errno;
	return first != '-' || pwrite(fd, "0", 1, 0) == 1 ? 0 : -errno;
}
