/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_EXCLUDE_H
#define FS_EXCLUDE_H

/*
 * exclude: which files the policy leaves out, by patterns like those of gitignore(5).
 *
 * A pattern without a slash (but at its end) matches a name at any depth; one with a slash is anchored
 * at the volume's root; a slash at the end matches directories only; a component "**" stands for any
 * number of directories, at the end for everything below. What lies below an excluded directory is
 * excluded. "!" and empty patterns are refused.
 *
 * The server knows inodes, not paths. So the patterns are one automaton, and each directory carries
 * the set of positions that can still match below it, in 64 bits: a child's set follows from its
 * parent's and its name alone. Pure functions, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exclude;

/* The set of a volume's root, and the bit that says "this one is excluded". */
#define EXCLUDE_MATCHED (1ULL << 63)
#define EXCLUDE_POSITIONS 62 /* components of all patterns together */

struct exclude *exclude_new(void); /* NULL: no memory */
void exclude_free(struct exclude *ex);

/*
 * exclude_add: adds one pattern.
 * Returns 0, -EINVAL (empty, "!", "." or ".." or empty components), -E2BIG (more than
 * EXCLUDE_POSITIONS components in all), -ENOMEM.
 */
int exclude_add(struct exclude *ex, const char *pattern);

bool exclude_is_empty(const struct exclude *ex);
uint64_t exclude_root(const struct exclude *ex);

/* exclude_child: the set of the child @name of a directory whose set is @parent. */
uint64_t exclude_child(const struct exclude *ex, uint64_t parent, const char *name, bool is_dir);

/*
 * exclude_pattern: the pattern that makes exclude_child() add EXCLUDE_MATCHED, as it was added; NULL: none does,
 * or the parent is excluded already. Borrowed.
 */
const char *exclude_pattern(const struct exclude *ex, uint64_t parent, const char *name,
			    bool is_dir);

#endif
