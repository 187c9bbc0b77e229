/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_TREE_H
#define TESTS_DIFFERENTIAL_TREE_H

/*
 * tree: a random tree of every type of file, owner, mode and attribute that matters; and the list of
 * the paths of a tree, of which steps choose theirs.
 */

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/differential/random.h"

enum { TREE_PATH_MAX = 320, TREE_PATHS_MAX = 600, TREE_ADDED = 3 };

/* tree_make: fills the directory @path, which exists. The same seed makes the same tree. */
int tree_make(const char *path, uint64_t seed);

/*
 * tree_add: one object of a type (S_IFREG ...; no device), with random content and attributes; in a new directory
 * TREE_ADDED files, a, b ... 0 or -errno.
 */
int tree_add(const char *path, mode_t type, struct random *io_random);

struct tree_paths {
	unsigned count;
	struct {
		char path[TREE_PATH_MAX];
		mode_t type; /* S_IFREG ... */
	} entries[TREE_PATHS_MAX];
};

/* tree_list: the paths below @root_fd, relative to it, sorted; the first is ".". Looks at no file but directories. */
void tree_list(int root_fd, struct tree_paths *ret_paths);

/* tree_describe: one line for the file: type, mode, owner, size, link target, attributes. */
void tree_describe(FILE *out, int root_fd, const char *path);

#endif
