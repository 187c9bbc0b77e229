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
