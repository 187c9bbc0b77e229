/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_GIT_H
#define PLUGINS_GIT_H

/*
 * git: one clone of a repository that a pod's author names, made by git(1).
 *
 * The author and the repository's content are hostile (CVE-2024-10220: a hook in a repository's
 * directory ran as root on the node). So git runs as the user of mountd.conf (git-user, never root), in a pid and
 * a mount namespace of its own in which it can write nothing but the clone; without configuration,
 * templates, hooks, submodules, filters (LFS) and prompts; with a fixed environment and the protocols https,
 * http, ssh and git, and file only where root at a shell asks; bounded in time, memory, bytes and entries.
 *
 * Knows git. Does not know volumes, but for the builder that it says its errors to. Thread rule of plugin.h.
 */

#include "plugins/plugin.h"

struct git_source {
	const char *repository; /* as git_check() has accepted it */
	const char *revision;	/* a branch, tag or commit; "": the remote's HEAD */
};

/*
 * git_check: whether git may be given the source: -EINVAL or -EACCES, and b->error. What begins with '-' or holds
 * control characters, a protocol that is not allowed, and a password in the URL are refused.
 */
int git_check(struct volume_builder *b, const struct git_source *source);

/*
 * git_clone: the repository with its history in the empty directory @dir_fd, as the revision has it; all of
 * it belongs to root, its group is root's, directories are 0755, files 0644 or 0755. @dir_fd itself
 * keeps its mode. After a failure @dir_fd holds a part of it.
 *
 * Returns 0, -ENOENT (no git, no user), -ETIMEDOUT, -EDQUOT (too large), -EIO (git failed), with b->error.
 */
int git_clone(struct volume_builder *b, const struct git_source *source, int dir_fd);

/*
 * git_directory_name: what git calls the clone of @repository when it is not told: into @ret_name, NAME_MAX + 1
 * bytes. -EINVAL: nothing can be made of it.
 */
int git_directory_name(const char *repository, char *ret_name);

#endif
