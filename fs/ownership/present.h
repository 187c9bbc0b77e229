/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OWNERSHIP_PRESENT_H
#define FS_OWNERSHIP_PRESENT_H

/*
 * present: the one rule that says how a file is shown, and so what the converger makes true.
 *
 * Pure functions of their arguments; libc only. The eager algorithm whose result they give is
 * kubelet's (pkg/volume/volume_linux.go): group on every entry, mode bits OR-ed in on everything
 * but symbolic links, set-group-ID on directories. Used by the overlay server (what to show), by
 * the converger (what to write) and by plugins that apply ownership themselves.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What a volume's consumer asked for. */
struct ownership_rule {
	gid_t gid;	   /* GID_UNSET: nothing is ever changed */
	bool read_only;	   /* the read-only mask: files 0440, directories 02550 */
	bool keep_private; /* files 0600 and 0400 and directories 0700 keep their bits */
};

/* The bits that @rule adds to a file of type @mode & S_IFMT. */
mode_t present_mask(const struct ownership_rule *rule, mode_t mode);

/* present: *io_st as it is shown when the file is pending. Only st_gid and st_mode change. */
void present(const struct ownership_rule *rule, struct stat *io_st);

/* present_is_right: whether the file is already shown as it is on disk, so that nothing is due. */
bool present_is_right(const struct ownership_rule *rule, const struct stat *st);

/*
 * present_root_matches: kubelet's OnRootMismatch test of a volume's root directory: right group, at
 * least the mask's permission bits, and set-group-ID (KEP-695).
 */
bool present_root_matches(const struct ownership_rule *rule, const struct stat *root);

/*
 * present_acl: *io_acl, the value of system.posix_acl_access, as it reads once the file's mode is
 * @shown_mode. The rule is chmod(2)'s: the entries of owner and others take their permission bits,
 * the mask entry (where there is none the owning group's) takes the group bits; named entries stay.
 * Returns 0, or -EINVAL when the value is not a version 2 ACL (left as it was).
 */
int present_acl(mode_t shown_mode, void *io_acl, size_t len);

/* present_xfs_acl: the same for trusted.SGI_ACL_FILE, the form in which XFS stores and shows it. */
int present_xfs_acl(mode_t shown_mode, void *io_acl, size_t len);

#endif
