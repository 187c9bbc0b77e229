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
#include <sys/stat.h>
#include <sys/types.h>

struct caller {
	uid_t uid; /* idmap=yes: of creations alone, as the mount maps them; else no id */
	gid_t gid;
	pid_t pid; /* thread id, 0: outside our pid namespace */
	mode_t umask;
	gid_t extra_group; /* from the request: the shown group of the parent, if the caller is in it; else GID_UNSET */
	int proc_fd;	  /* a descriptor of /proc */
	int device_fd;	  /* the overlay's, of /dev/fuse */
	bool is_idmapped; /* idmap=yes: its mounts may be */
};

/* caller_enter: creates as @c, with @gid as the new object's group. caller_leave undoes it. */
void caller_enter(const struct caller *c, gid_t gid);
void caller_leave(void);

/* caller_enter_owner: for a call that is the owner's alone; undone by caller_leave(), too. */
void caller_enter_owner(uid_t uid);

/*
 * caller_enter_stranger, caller_leave_stranger: this thread is root still, but outside group @gid and
 * without CAP_FSETID, for calls in which the kernel looks at nothing else. 0 or -errno; to be left also
 * after an error. caller_enter_member: the same, but in the group.
 */
int caller_enter_stranger(gid_t gid);
int caller_enter_member(gid_t gid);
void caller_leave_stranger(void);

/*
 * Where mounts may be idmapped (idmap=yes, FUSE_ALLOW_IDMAP) a request names nobody, creations apart, and the ids of
 * /proc/PID/status are not those on disk. What each rule then goes by:
 *
 *   rule                                      what it needs          answered by
 *   ----------------------------------------  ---------------------  ------------------------------------------------
 *   every permission, chmod(2), times         -                      the kernel, with the mount's map (default_permissions,
 *                                                                    setattr_prepare): before it asks us
 *   chown(2): who may, and to whom            -                      the same; the ids in the request are those on disk
 *   set-group-ID goes with a chmod(2)         -                      the kernel takes it out of the mode
 *   an ACL that takes set-group-ID            -                      the kernel says so (FUSE_SETXATTR_ACL_KILL_SGID)
 *   owner, group, umask of what is created    fsuid, fsgid, umask    the request: mapped by the mount
 *   set-group-ID of what is created           member, CAP_FSETID     the kernel takes it (mode_strip_sgid)
 *   a write, truncation or chown(2) takes     member, CAP_FSETID     the views of the caller; set-user-ID, and set-
 *     set-group-ID without group-execute        over the file          group-ID with group-execute, go in any case
 *   removing an ACL on tmpfs takes it         the same               the same
 *   chown(f, -1, -1) that takes set-ID bits   owner, CAP_FOWNER      the same
 *   trusted.* in a list of attributes         CAP_SYS_ADMIN          status: a capability of the first namespace
 *
 * "The views" (caller_views.h): as whom the caller is seen through each mount of the overlay in his mount namespace.
 * Where they differ, or cannot be told (a kernel before 6.15, not the first pid namespace, a mount that he only holds a
 * descriptor of), the answer is CALLER_UNSURE: a bit goes that might have stayed, chown(f, -1, -1) is refused, and of
 * any other chown(2) the kernel's word is enough.
 * A task that acts with others' credentials (overlayfs above us, io_uring with a personality) is taken for itself.
 */

enum caller_answer { CALLER_NO, CALLER_UNSURE, CALLER_YES };

/*
 * caller_in_group_or_capable: whether set-group-ID of a file that is shown like this stays when the caller changes it:
 * he is in its group, by gid or supplementary group, or has CAP_FSETID. When his status cannot be read the answer is
 * no, which never leaves a set-ID bit where it must not be.
 */
enum caller_answer caller_in_group_or_capable(const struct caller *c, const struct stat *shown);

/* caller_owner_or_capable: whether a file that is shown like this is the caller's, or he has CAP_FOWNER. */
enum caller_answer caller_owner_or_capable(const struct caller *c, const struct stat *shown);

/* caller_has_capability: whether CAP_* @capability is effective in our user namespace; no when it cannot be told. */
bool caller_has_capability(const struct caller *c, int capability);

#endif
