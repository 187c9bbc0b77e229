// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/install.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/path_program.h"
#include "mountd/proto.h"

/* By this name of its the program knows which driver it is (flex/call.h). */
struct driver {
	const char *dir, *name, *staging_link, *root, *new_root;
};

#define DRIVER(name)                                                                               \
	{                                                                                          \
		"fsgroupfs~" name, name, "." name, "." name ".root", "." name ".new"               \
	}
static const struct driver volume_driver = DRIVER("volume"), device_driver = DRIVER("device");

/*
 * A symbolic link to the installed program, so that an upgrade of the package is one of the driver. kubelet
 * ignores names that begin with a dot and calls whatever appears under another: it appears complete.
 */
static int link_driver(int dir_fd, const struct driver *driver, const char *program)
{
	if (unlinkat(dir_fd, driver->staging_link, 0) < 0 && errno != ENOENT)
		return -errno;
	if (symlinkat(program, dir_fd, driver->staging_link) < 0)
		return -errno;
	return renameat(dir_fd, driver->staging_link, dir_fd, driver->name) < 0 ? -errno : 0;
}

/* Where the driver finds its volumes when that is not "/": kubelet gives it no environment of ours. */
static int write_root(int dir_fd, const struct driver *driver, const char *root)
{
	AUTO_FD int fd = -1;
	int r;

	if (strcmp(root, "/") == 0)
		return unlinkat(dir_fd, driver->root, 0) < 0 && errno != ENOENT ? -errno : 0;
	fd = openat(dir_fd, driver->new_root, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0644);
	if (fd < 0)
		return -errno;
	r = io_write_all(fd, root, strlen(root));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, driver->new_root, dir_fd, driver->root) < 0)
		r = -errno;
	return r;
}

static int install(const char *dir, const struct driver *driver, const char *root,
		   const char *program)
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
	if (mkdirat(base_fd, driver->dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir_fd = openat(base_fd, driver->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	r = write_root(dir_fd, driver, absolute);
	if (r == 0)
		r = link_driver(dir_fd, driver, program);
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r;
}

/* @drivers: the first, and perhaps the second. */
static void say(const struct ctl *ctl, const char *dir, const struct driver *const drivers[2],
		const char *program)
{
	static const char *const keys[] = { "driver", "deviceDriver" };
	json_t *result =
		json_pack("{s:s, s:s, s:n}", "directory", dir, "program", program, "deviceDriver");

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_object_set_new(
			result, keys[i],
			drivers[i] ? json_sprintf("%s/%s", drivers[i]->dir, drivers[i]->name) :
				     json_null());
		if (drivers[i] && !ctl->json)
			printf("%s/%s/%s -> %s\n", dir, drivers[i]->dir, drivers[i]->name, program);
	}
	if (ctl->json)
		show_json(result, false);
	json_decref(result);
}

int ctl_install_flexvolume(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "attachable", no_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	const struct driver *drivers[] = { &volume_driver, NULL };
	char found[PATH_MAX], program[PATH_MAX];
	const char *dir;
	int r, c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c != 'a')
			return EXIT_USAGE; /* getopt has said why */
		drivers[1] = &device_driver;
	}
	if (argc - optind != 1)
		return ctl_fail(ctl, EXIT_USAGE, NULL,
				"the plugin directory is missing (fsgroupctl --help says more)");
	dir = argv[optind];
	r = program_path("fsgroup-flexvolume", found, sizeof(found));
	if (r == 0 && !realpath(found, program))
		r = -errno;
	if (r < 0)
		return ctl_fail(ctl, EXIT_FAILED, dir, "the driver's program %s: %s", found,
				strerror(-r));
	for (size_t i = 0; i < ARRAY_SIZE(drivers) && drivers[i]; i++) {
		r = install(dir, drivers[i], ctl->root, program);
		if (r < 0)
			return ctl_fail(ctl, EXIT_FAILED, dir, "%s", strerror(-r));
	}
	say(ctl, dir, drivers, program);
	return EXIT_OK;
}
