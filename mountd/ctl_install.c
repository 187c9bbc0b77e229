// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_install.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "mountd/ctl_show.h"
#include "mountd/path.h"
#include "mountd/path_program.h"
#include "mountd/proto.h"

#define DRIVER_DIR "fsgroupfs~volume"
#define DRIVER "volume"

/*
 * A symbolic link to the installed program, so that an upgrade of the package is one of the driver. kubelet
 * ignores names that begin with a dot and calls whatever appears under another: it appears complete.
 */
static int link_driver(int dir_fd, const char *program)
{
	if (unlinkat(dir_fd, "." DRIVER, 0) < 0 && errno != ENOENT)
		return -errno;
	if (symlinkat(program, dir_fd, "." DRIVER) < 0)
		return -errno;
	return renameat(dir_fd, "." DRIVER, dir_fd, DRIVER) < 0 ? -errno : 0;
}

/* Where the driver finds its volumes when that is not "/": kubelet gives it no environment of ours. */
static int write_root(int dir_fd, const char *root)
{
	AUTO_FD int fd = -1;
	int r;

	if (strcmp(root, "/") == 0)
		return unlinkat(dir_fd, "." DRIVER ".root", 0) < 0 && errno != ENOENT ? -errno : 0;
	fd = openat(dir_fd, "." DRIVER ".new",
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, root, strlen(root));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, "." DRIVER ".new", dir_fd, "." DRIVER ".root") < 0)
		r = -errno;
	return r;
}

static int install(const char *dir, const char *root, const char *program)
{
	AUTO_FREE char *absolute = NULL;
	AUTO_FD int base_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int dir_fd = -1;
	int r;

	if (base_fd < 0)
		return -errno;
	r = path_absolute(root, &absolute);
	if (r < 0)
		return r;
	if (mkdirat(base_fd, DRIVER_DIR, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir_fd = openat(base_fd, DRIVER_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	r = write_root(dir_fd, absolute);
	if (r == 0)
		r = link_driver(dir_fd, program);
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r;
}

int ctl_install_flexvolume(const struct ctl *ctl, int argc, char **argv)
{
	char found[PATH_MAX], program[PATH_MAX];
	int r;

	if (argc != 2 || argv[1][0] == '-')
		return ctl_fail(ctl, EXIT_USAGE, NULL,
				"the plugin directory is missing (fsgroupctl --help says more)");
	r = program_path("fsgroup-flexvolume", found, sizeof(found));
	if (r == 0 && !realpath(found, program))
		r = -errno;
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, argv[1], "the driver's program %s: %s", found,
				strerror(-r));
	r = install(argv[1], ctl->root, program);
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, argv[1], "%s", strerror(-r));
	if (ctl->json) {
		json_t *result = json_pack("{s:s, s:s, s:s}", "directory", argv[1], "driver",
					   DRIVER_DIR "/" DRIVER, "program", program);

		show_json(result, false);
		json_decref(result);
		return EXIT_OK;
	}
	printf("%s/%s/%s -> %s\n", argv[1], DRIVER_DIR, DRIVER, program);
	return EXIT_OK;
}
