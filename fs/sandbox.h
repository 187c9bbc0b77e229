/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_SANDBOX_H
#define FS_SANDBOX_H

/*
 * sandbox: what an overlay server gives up before it looks at the hostile tree.
 *
 * After sandbox_enter() the process sees no file but the lower tree, and the descriptors it has; after
 * sandbox_lock() it has the capabilities of one short table and the system calls of another. What a
 * server whose code was taken over could still reach is the file system that the lower tree lies on
 * (file handles are not confined by a mount namespace); the README says so.
 *
 * Called once, in order, by the server's main thread while it is the only one; sandbox_lock() covers
 * the threads that exist by then, and those made later inherit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * sandbox_enter: own mount namespace, with the detached mount @lower_tree_fd as its root; working
 * directory /proc/self/fd; limits; supplementary groups dropped.
 * @ret_proc_fd: a descriptor of /proc
 * @ret_root_fd: an O_PATH descriptor of the lower tree's root
 *
 * Returns 0 or -errno; *ret_step then names the step that failed.
 */
int sandbox_enter(int lower_tree_fd, int *ret_proc_fd, int *ret_root_fd, const char **ret_step);

/* sandbox_drop_capabilities: keeps those of the table. 0 or -errno. */
int sandbox_drop_capabilities(const char **ret_step);

/* What not every server does. */
struct sandbox_uses {
	bool rings; /* those that there are (ring.h, which says for what alone they can be used) */
	bool mounts; /* it looks at those of the machine's namespaces (mount_spaces.h), without any way to enter one */
	const pid_t *raised; /* the threads that others raise (affine.h) */
	size_t raised_count;
	pid_t freed; /* the one that others free from its processor (affine.h); 0: none */
};

/* sandbox_lock: no_new_privs and the system call filter, for all threads. 0 or -errno. */
int sandbox_lock(const struct sandbox_uses *uses, const char **ret_step);

#endif
