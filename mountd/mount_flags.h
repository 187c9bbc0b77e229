/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_FLAGS_H
#define MOUNTD_MOUNT_FLAGS_H

/*
 * mount_flags: the options of mount(8) that belong to a mount and not to its file system: ro, nosuid, nodev, noexec,
 * the access times; and context=, which belongs to the overlay's. A mount that is read-only is not yet a read-only volume, to whose tree nothing is ever written.
 *
 * Parsing only. Used by the daemon and by mount.fsgroupfs. No state, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/base/selinux.h"

/* What differs from the mount of the lower tree: MOUNT_ATTR_* bits. Never a bit in both, but of the atime modes. */
struct mount_flags {
	uint64_t set, clear;
	char context[SELINUX_LABEL_MAX + 1]; /* as asked for, "none" too; "": nothing was */
};

/* mount_flags_add: adds the option @name, which has no value; the last one of a kind counts. Whether it is one of them. */
bool mount_flags_add(struct mount_flags *flags, const char *name);

/* mount_flags_set_context: false: @label can be none, and nothing changes. */
bool mount_flags_set_context(struct mount_flags *flags, const char *label);

/*
 * mount_flags_has_context: whether a list of any options has this context=, as a file system's that the kernel shows
 * (proc_pid_mountinfo(5)). @list is changed.
 */
bool mount_flags_has_context(char *list, const char *label);

/* mount_flags_next: cuts the first option off a list; a comma within "..." belongs to it, and quotes go. */
char *mount_flags_next(char **io_list);

/*
 * mount_flags_parse: of a list separated by commas; NULL and "" are no flags.
 * @ret_error: @size bytes, on -EINVAL a line that names the option
 */
int mount_flags_parse(const char *list, struct mount_flags *ret_flags, char *ret_error,
		      size_t size);

/* mount_flags_text: the same in one order, each once; NULL in *ret_text where there are none. -ENOMEM. */
int mount_flags_text(const struct mount_flags *flags, char **ret_text);

/* mount_flags_over: @flags with what @later says besides and instead. */
struct mount_flags mount_flags_over(const struct mount_flags *flags,
				    const struct mount_flags *later);

#endif
