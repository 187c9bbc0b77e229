/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_TREE_VISIT_H
#define PLUGINS_TREE_VISIT_H

/*
 * tree_visit: looks at each entry of a tree that may change meanwhile, by descriptor and single names.
 *
 * No symbolic link is followed; no mount and no other file system is entered or shown. One directory of
 * each level is open, so depth is bounded. Knows nothing of volumes. No state, any thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define TREE_DEPTH_MAX 256

/*
 * A visitor: @name below @dir_fd, a directory before what is in it. 0: go on; a -errno ends the walk and is
 * what tree_visit() returns.
 */
typedef int tree_visitor(void *arg, int dir_fd, const char *name, const struct statx *st);

/*
 * tree_visit: all that is below @dir_fd (O_PATH will do), but not @dir_fd itself. What goes away meanwhile is
 * left out.
 * @mask: STATX_ fields that the visitor wants besides the type
 *
 * Returns 0, what the visitor returned, -ELOOP (deeper than TREE_DEPTH_MAX), or the errno of the first
 * directory that cannot be read.
 */
int tree_visit(int dir_fd, unsigned mask, tree_visitor *visit, void *arg);

/* What a tree takes on its disk. A file with several links counts in equal parts. */
struct tree_usage {
	uint64_t bytes, entries;
	bool cut; /* there is more than was counted */
};

/*
 * tree_usage: measures what is below @dir_fd, and stops at @max_entries or TREE_DEPTH_MAX.
 * Returns 0 or the errno of the first directory that cannot be read.
 */
int tree_usage(int dir_fd, uint64_t max_entries, struct tree_usage *ret_usage);

#endif
