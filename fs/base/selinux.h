/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_SELINUX_H
#define FS_BASE_SELINUX_H

/*
 * selinux: the label that a mount is given by context= (mount(8)), without libselinux.
 *
 * Where SELinux is on, all files of a FUSE mount have one label, by its policy one that confined containers may not
 * touch; context= gives them another. Knows where the kernel says whether that can be had, and what the label of a
 * file is. Does not know policies: whether there is such a label the kernel says when it mounts.
 * No state, any thread. fsconfig(2) takes texts as they are: commas need no care there, as they do in lists.
 */

#include <stdbool.h>

#define SELINUX_LABEL_MAX 255	  /* fsconfig(2) takes no longer text */
#define SELINUX_LABEL_NONE "none" /* no context=: the label that the policy has for FUSE */

/* Why a converged volume stays an overlay. */
#define SELINUX_FOREIGN_REASON "context= is not the label of its source"

/*
 * selinux_why_not: why a mount of this process cannot be labelled, as a text for people; NULL: it can.
 * @root: where /proc and /sys are, "" for the system's own
 *
 * SELinux is on where its file system is mounted and a policy is loaded, so that processes have labels: kernels without
 * a policy refuse every label. In a user namespace the kernel refuses them for FUSE (security/selinux/hooks.c,
 * selinux_set_mnt_opts).
 */
const char *selinux_why_not(const char *root);

/* selinux_label_is_valid: whether @label could be one (user:role:type and a range, in printable ASCII), or is "none". */
bool selinux_label_is_valid(const char *label);

/*
 * selinux_label_of: the label of the file @fd, which may be O_PATH.
 * -ENODATA, -EOPNOTSUPP: it has none; -ERANGE: longer than SELINUX_LABEL_MAX; -EINVAL: what it has is no label
 */
int selinux_label_of(int fd, char ret_label[SELINUX_LABEL_MAX + 1]);

/*
 * selinux_label_to_mount: what context= is to be; "": none is given.
 * @asked: "": nothing was asked for, so that the source's own one is taken
 * @own:   the source's label, "": it has none, or it does not matter
 */
const char *selinux_label_to_mount(const char *asked, const char *own);

/* selinux_label_is_foreign: whether what was asked for is another label than the source's own: only an overlay has it. */
bool selinux_label_is_foreign(const char *asked, const char *own);

#endif
