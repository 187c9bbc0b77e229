/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CALLER_H
#define FS_CALLER_H

/*
 * caller: who made a request, and acting with that identity where the kernel takes an identity from the
 * thread: the owner and umask of what is created.
 *
 * Permission is not checked here: the kernel did that against the attributes as shown
 * (default_permissions). So capabilities stay effective while the ids are the caller's
 * (SECBIT_NO_SETUID_FIXUP, set by the sandbox). Thread-safe: ids and umask are the thread's own (each
 * server thread has its own fs_struct).
 */

#include <stdbool.h>
#include <sys/types.h>

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* thread id, 0: outside our pid namespace */
	mode_t umask;
	gid_t extra_group; /* from the request: the shown group of the parent, if the caller is in it; else GID_UNSET */
	int proc_fd; /* a descriptor of /proc */
};

/* caller_enter: creates as @c, with @gid as the new object's group. caller_leave undoes it. */
void caller_enter(const struct caller *c, gid_t gid);
void caller_leave(void);

/* caller_enter_owner: for a call that is the owner's alone; undone by caller_leave(), too. */
void caller_enter_owner(uid_t uid);

/*
 * caller_enter_stranger, caller_leave_stranger: this thread is root still, but outside group @gid and
 * without CAP_FSETID, for calls in which the kernel looks at nothing else. 0 or -errno; to be left also
 * after an error.
 */
int caller_enter_stranger(gid_t gid);
void caller_leave_stranger(void);

/*
 * caller_is_in_group: by gid or supplementary group, from the request or else from /proc/<pid>/status.
 * When that cannot be read the answer is no, which never leaves a set-ID bit where it must not be.
 */
bool caller_is_in_group(const struct caller *c, gid_t gid);

/* caller_has_capability: whether CAP_* @capability is effective; no when it cannot be told. */
bool caller_has_capability(const struct caller *c, int capability);

#endif
