/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PATH_H
#define MOUNTD_PATH_H

/*
 * path: where the files of one root directory are (interface.md, fsgroupctl), and how a socket among
 * them is addressed.
 *
 * Knows names and directories. Does not know what is in the files. Used by the daemon and by
 * fsgroupctl. No state of its own, any thread.
 */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fs/base/cleanup.h"

#define PATH_STATE "var/lib/fsgroupfs"
#define PATH_RUN "run/fsgroupfs"
#define PATH_CONFIG "etc/fsgroupfs/mountd.conf"
#define PATH_SOCKET "mountd.sock"
#define PATH_LOCK "mountd.lock"
#define PATH_START_LOCK "start.lock"
#define PATH_LOG "mountd.log"
#define PATH_STORE "store.db"
#define PATH_VOLUMES "volumes"
#define PATH_RUNS "runs"
#define PATH_KEEPERS "keepers"

/* The directories of one root. Descriptors are -1 where the directory is not there. */
struct layout {
	char *root;	   /* absolute, without a trailing slash but for "/" */
	char *state_path;  /* <root>/var/lib/fsgroupfs */
	char *run_path;	   /* <root>/run/fsgroupfs */
	char *config_path; /* <root>/etc/fsgroupfs/mountd.conf */
	int state_fd, run_fd;
};

/*
 * layout_open: the directories of @root.
 * @create: makes what is missing below @root, mode 0700, and brings ours to 0700
 *
 * Without @create a missing directory is no error; its descriptor is -1 then.
 * Returns 0, -ENOMEM, -ENOENT (@root itself is not there), -ENOTDIR, -EACCES, -EROFS, -ENOSPC, or
 * -EPERM: a directory of ours belongs to somebody else.
 */
int layout_open(const char *root, bool create, struct layout **ret_layout);
void layout_free(struct layout *layout);
DEFINE_AUTO(layout)

/*
 * path_socket_address: the address of socket @name in the directory @dir_path, open as @dir_fd: by
 * its path where that fits into sun_path, else through the descriptor, which must stay open meanwhile.
 * Returns the address's length.
 */
socklen_t path_socket_address(int dir_fd, const char *dir_path, const char *name,
			      struct sockaddr_un *ret_address);

/*
 * path_absolute: @path made absolute with the working directory; trailing slashes go, all else stays
 * as given. The caller's to free. Returns 0, -EINVAL (empty), -ENOMEM, or getcwd()'s error.
 */
int path_absolute(const char *path, char **ret_path);

/* path_join: "<dir>/<name>"; the caller's to free; NULL: no memory. */
char *path_join(const char *dir, const char *name);

/* path_mkdir_all: the directory @path below @dir_fd, each missing part made with mode 0700. */
int path_mkdir_all(int dir_fd, const char *path);

#endif
