// SPDX-License-Identifier: Apache-2.0

/*
 * steady: whether files look the same whatever becomes of them below.
 *
 *     steady MODE FILE...
 *     steady -k PID MODE FILE...
 *
 * Asks for the attributes of the files again and again, past what the kernel has cached: the mode is MODE (octal), and
 * there is a security.capability, which is listed too. Prints "looks" when it begins. At the end of its input it ends,
 * with status 0; before that with a line and status 1 when a file looked otherwise. With -k the process is killed then,
 * and the status is 0.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static const char CAPABILITY[] = "security.capability";

static int is_listed(const char *path)
{
	char names[4096];
	ssize_t len = listxattr(path, names, sizeof(names));

	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		if (strcmp(names + at, CAPABILITY) == 0)
			return 1;
	}
	return 0;
}

static int looks_otherwise(const char *path, unsigned mode)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_MODE, &stx) < 0) {
		printf("#  %s: %s\n", path, strerror(errno));
		return 1;
	}
	if ((stx.stx_mode & 07777) != mode) {
		printf("#  %s: for a moment mode %o\n", path, stx.stx_mode & 07777);
		return 1;
	}
	if (getxattr(path, CAPABILITY, NULL, 0) < 0) {
		printf("#  %s: for a moment %s: %s\n", path, CAPABILITY, strerror(errno));
		return 1;
	}
	if (!is_listed(path)) {
		printf("#  %s: for a moment %s was not listed\n", path, CAPABILITY);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .events = POLLIN };
	int first = 1, pid = 0;
	unsigned mode;

	if (argc > 3 && strcmp(argv[1], "-k") == 0 && sscanf(argv[2], "%d", &pid) == 1)
		first = 3;
	if (argc < first + 2 || sscanf(argv[first], "%o", &mode) != 1) {
		fprintf(stderr, "usage: steady [-k PID] MODE FILE...\n");
		return 2;
	}
	puts("looks");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0) {
		for (int i = first + 1; i < argc; i++) {
			if (!looks_otherwise(argv[i], mode))
				continue;
			return pid > 0 && kill(pid, SIGKILL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
