/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_TREE_H
#define FS_TREE_H

/*
 * tree: the system calls on the lower tree, all of them by descriptor and one name.
 *
 * The tree is hostile: names, types and links may change between any two calls. So a name is resolved
 * once, without following, to an O_PATH descriptor; everything after works on that descriptor; FIFOs,
 * sockets and devices are never opened. Knows nothing of FUSE, nodes, runs or credentials: calls run
 * with what the thread has. No state but what tree_init() sets; any thread.
 *
 * Functions return 0 (or a count where said) or the system call's -errno; where that is all, the
 * comments do not repeat it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "fs/shared.h"

/* The working directory of every server thread is its /proc/self/fd: see tree_fd_path(). */
#define TREE_FD_DIR "."

enum { TREE_FD_PATH_MAX = 32, TREE_NAME_MAX = 255 };

struct tree {
	int root_fd;  /* O_PATH */
	int mount_fd; /* O_RDONLY: open_by_handle_at() refuses O_PATH ones */
	int quiet_fd; /* O_RDONLY, of another mount of it, without access times; -1: there is none */
	bool has_handles; /* file handles can be made and opened here */
	bool has_btime;
	bool lists_trusted; /* trusted xattrs are listed for everybody */
	bool is_tmpfs;
	bool acl_removal_takes_sgid; /* as setting one does, of who is not in the group */
	bool has_fine_times; /* a change after a look at ctime always shows in ctime (Linux 6.13) */
	bool is_xfs;	     /* shows ACLs as trusted.SGI_ACL_FILE too */
	bool is_local;	     /* who may do what is decided here, not by a server far away */
};

/*
 * What stands for an inode: its file handle, or device, inode number and time of birth (then it must stay pinned to be
 * found, and without that time to be told from the next one with its number).
 */
struct tree_key {
	bool is_handle;
	int type;
	uint32_t len;
	unsigned char bytes[NODE_HANDLE_MAX];
};

/*
 * tree_init: looks at the directory @root_fd (taken over also on failure) and probes what its file
 * system can do.
 */
int tree_init(int root_fd, struct tree *ret_tree);
void tree_fini(struct tree *t);

/* tree_name_is_valid: one component, not "." or "..": the check before any name goes to the kernel. */
bool tree_name_is_valid(const char *name);

/* tree_name_check: the same as an error: 0, -ENAMETOOLONG or -EINVAL. */
int tree_name_check(const char *name);

/* tree_fd_path: a path that leads to what @fd is open on, whatever its type, without following it. */
const char *tree_fd_path(int fd, char ret_path[TREE_FD_PATH_MAX]);

/* tree_pin: an O_PATH descriptor of the entry @name, never following it, and its attributes unless NULL. */
int tree_pin(int dir_fd, const char *name, int *ret_fd, struct stat *ret_st);
int tree_stat(int fd, struct stat *ret_st);

/* tree_stat_entry: the attributes of the entry @name, never following it; only to look: it may change. */
int tree_stat_entry(int dir_fd, const char *name, struct stat *ret_st);

/*
 * tree_has_no_xattr: whether the file has no extended attribute at all that we may list; no when it is
 * unknown. tree_entry_has_no_xattr: the same by name, which costs half; only to look: the name may change.
 */
bool tree_has_no_xattr(int fd);
bool tree_entry_has_no_xattr(int dir_fd, const char *name);

/* tree_btime: -ENODATA where the file system has no birth times. */
int tree_btime(int fd, struct timespec *ret_btime);

/* tree_is_immutable: whether the file has the immutable or append-only attribute; no when it is unknown. */
bool tree_is_immutable(int fd);

int tree_key_get(const struct tree *t, int fd, const struct stat *st, struct tree_key *ret_key);

/* tree_open_handle: an O_PATH descriptor; -ESTALE when the file is gone. Only for is_handle keys. */
int tree_open_handle(const struct tree *t, const struct tree_key *key, int *ret_fd);

/*
 * tree_open_dir_handle: the same for a directory. The kernel finds the name of one that it has forgotten by reading its
 * parents (exportfs: reconnect_path): that changes none of their access times where there is a quiet_fd.
 */
int tree_open_dir_handle(const struct tree *t, const struct tree_key *key, int *ret_fd);

/* tree_open_file_handle: of a regular file, as tree_reopen() would open it. */
int tree_open_file_handle(const struct tree *t, const struct tree_key *key, int flags, int *ret_fd);

/*
 * tree_reopen: opens the regular file or directory that the O_PATH descriptor @fd stands for, with
 * @flags (access mode, O_APPEND, O_DIRECT, O_DIRECTORY ...). -ENXIO for any other type: those are never
 * opened.
 */
int tree_reopen(int fd, mode_t type, int flags, int *ret_fd);

/*
 * tree_has_no_writer: nobody has the file open for writing, or a mapping of it that may be stored to. As owner
 * of the regular file, and with SIGIO ignored; no when it cannot be told. Who opens it for writing at
 * this very moment waits until we have looked. @fd: open for reading, or O_PATH, which takes two calls more
 */
bool tree_has_no_writer(int fd);

/* One entry of a directory as getdents64(2) gives it; entries follow each other by reclen. */
struct tree_entry {
	ino64_t ino;
	off64_t next; /* the cookie at which reading goes on behind this one */
	unsigned short reclen;
	unsigned char type; /* DT_* */
	char name[];
};

/*
 * tree_seek: lets the open directory @fd go on behind the entry with the cookie @next; 0: at its beginning. Returns 0,
 * -ENOENT when the directory has been removed, or -errno.
 */
int tree_seek(int fd, off64_t next);

/* tree_read_entries: the next entries of the open directory @fd. Returns bytes, 0 at its end, or -errno. */
ssize_t tree_read_entries(int fd, void *ret_entries, size_t size);

/* tree_probe_clock: the file system's own clock: the birth time of a nameless file made now. */
int tree_probe_clock(const struct tree *t, struct timespec *ret_now);

#endif
