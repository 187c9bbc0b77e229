/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_LIST_H
#define MOUNTD_MOUNT_LIST_H

/*
 * mount_list: the mounts of this mount namespace, or those of them below a directory: by listmount(2) and
 * statmount(2) (Linux 6.8), else by mountinfo. Asks no file system. No state, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mount_entry {
	uint64_t id; /* unique; 0: the kernel has no such ids */
	char *point; /* absolute */
	char *type;
};

/* mount_list_below: in the kernel's order. Returns how many; *ret_list freed by mount_list_free(). -errno. */
int mount_list_below(const char *path, struct mount_entry **ret_list);
void mount_list_free(struct mount_entry *list, size_t count);

/*
 * mount_list_ids: the ids of all mounts of the namespace, ascending, as mount_look() gives them; the caller's to free.
 * Returns how many, or -errno.
 */
int mount_list_ids(uint64_t **ret_ids);

/* mount_list_has: whether @id is one of the @count ascending @ids. */
bool mount_list_has(const uint64_t *ids, size_t count, uint64_t id);

/* mount_is_present: whether the mount is anywhere in the namespace; true where that cannot be told. */
bool mount_is_present(uint64_t id);

/* With whom a mount exchanges what is mounted on it: mountinfo's shared:N and master:N; 0: with nobody. */
struct mount_peers {
	uint64_t group, master;
};

/*
 * mount_peers_get: of the mount with this unique id in the mount namespace @space_id (nsfs; 0: ours).
 * -ENOENT: it is not there. -ENOSYS, -EINVAL: the kernel cannot be asked that (6.11). -EPERM: of another user.
 */
int mount_peers_get(uint64_t space_id, uint64_t id, struct mount_peers *ret_peers);

/* mount_list_add: for mount.c: one more at the end of *io_list, which has @count. -ENOMEM. */
int mount_list_add(struct mount_entry **io_list, size_t count, uint64_t id, const char *point,
		   const char *type);

#endif
