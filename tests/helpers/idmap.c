// SPDX-License-Identifier: Apache-2.0

/*
 * idmap: idmapped mounts, and processes in the user namespaces that these are made for.
 *
 *     idmap mount MAP SOURCE TARGET     TARGET shows the tree at SOURCE by the map
 *     idmap enter MAP COMMAND...        runs a command as root of a new user namespace with that map, in a mount
 *                                       namespace of its own
 *
 * MAP is "FIRST:LOWER:COUNT", for users and groups alike: the id FIRST, on disk or in the namespace, is LOWER outside.
 * Exit status 0, that of the command, or 1 with the error on standard error.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/idmap.h"

static int fail(const char *what)
{
	fprintf(stderr, "idmap: %s: %s\n", what, strerror(errno));
	return EXIT_FAILURE;
}

static int mount_mapped(const char *map, const char *source, const char *target)
{
	AUTO_FD int space = idmap_user_namespace(map);
	AUTO_FD int tree = -1;

	if (space < 0) {
		errno = -space;
		return fail("user namespace");
	}
	tree = idmap_clone(source, space);
	if (tree < 0) {
		errno = -tree;
		return fail(source);
	}
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return fail(target);
	return EXIT_SUCCESS;
}

static int enter(const char *map, char *const command[])
{
	AUTO_FD int space = idmap_user_namespace(map);

	if (space < 0) {
		errno = -space;
		return fail("user namespace");
	}
	if (setns(space, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return fail("entering");
	if (unshare(CLONE_NEWNS) < 0)
		return fail("mount namespace");
	execvp(command[0], command);
	return fail(command[0]);
}

int main(int argc, char *argv[])
{
	if (argc == 5 && strcmp(argv[1], "mount") == 0)
		return mount_mapped(argv[2], argv[3], argv[4]);
	if (argc >= 4 && strcmp(argv[1], "enter") == 0)
		return enter(argv[2], argv + 3);
	fprintf(stderr, "usage: idmap mount MAP SOURCE TARGET | enter MAP COMMAND...\n");
	return 2;
}
