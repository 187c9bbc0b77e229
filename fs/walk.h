/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_WALK_H
#define FS_WALK_H

/*
 * walk: every entry below a directory, by several threads, children before their directory, the first
 * directory last.
 *
 * A thread goes depth first and gives a subdirectory away where another thread has nothing to do. A
 * directory is left when its entries are visited and all its subdirectories are left, by whoever leaves
 * the last of these. Descriptors and handles only; a name that a reader of the directory saw is resolved
 * once. Of each piece of a directory that is read, entries come by inode number: the order in which most
 * file systems have them on disk. Memory is bounded by depth times threads, whatever the number of files;
 * where file handles can be opened so are descriptors.
 *
 * Knows the tree; does not know what the walk is for: that is the hooks'. They run in any of the walk's
 * threads, at the same time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/tree.h"

struct walk_dir; /* a directory that the walk is in */

struct walk_hooks {
	/* Before each entry; may block, and then sets *io_rested; false ends the walk. */
	bool (*go_on)(void *context, bool *io_rested);
	/*
	 * An entry that is no directory, says the listing: nobody has looked at it yet. @dir_fd is the
	 * directory's; it and @entry are for this call. False: it is a directory after all, and the walk
	 * goes on as with any other.
	 */
	bool (*file)(void *context, const struct walk_dir *dir, int dir_fd,
		     const struct tree_entry *entry);
	/*
	 * A subdirectory; true: the walk goes into it, with *ret_state for what lies below. False: what
	 * is to be done with it is done, by this call.
	 */
	bool (*enter)(void *context, const struct walk_dir *dir, const char *name,
		      uint64_t *ret_state);
	/* A directory whose children are all done; also the first one. */
	void (*leave)(void *context, const struct walk_dir *dir, int fd, const struct stat *st);
	/* An entry, or with name "" the directory itself, that cannot be read: errno, positive. */
	void (*failed)(void *context, const struct walk_dir *dir, const char *name, int error);
	/*
	 * There is no descriptor for the next directory. Whether there may be one now; may block. *io_began_ms is the hook's,
	 * and 0 the first time of each.
	 */
	bool (*find_descriptor)(void *context, uint64_t *io_began_ms);
	void *context;
};

/* walk_state: what enter() gave the directory. walk_is_first: the one that the walk began with. */
uint64_t walk_state(const struct walk_dir *dir);
bool walk_is_first(const struct walk_dir *dir);

/* walk_path: "a/b/name" relative to where the walk began, cut at the front to fit; "." for the first. */
void walk_path(const struct walk_dir *dir, const char *name, char *ret_path, size_t size);

/*
 * walk_tree: walks what lies below the directory @fd (borrowed). Blocks until all is visited, or go_on()
 * ended it; what was not left then is not. Threads that cannot be had are done without. While @threads wait
 * for the disk, or for the server of the file system, @further ones walk too.
 * Returns 1 (all is visited), 0 (ended), -ENOMEM, or -errno of the first directory.
 */
int walk_tree(const struct tree *tree, int fd, uint64_t state, unsigned threads, unsigned further,
	      const struct walk_hooks *hooks);

#endif
