/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_LIST_H
#define MOUNTD_MOUNT_LIST_H

/*
 * mount_list: the mounts below a directory, of this mount namespace: by listmount(2) and statmount(2)
 * (Linux 6.8), else by mountinfo. Asks no file system. No state, any thread.
 */

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

/* mount_list_add: for mount.c: one more at the end of *io_list, which has @count. -ENOMEM. */
int mount_list_add(struct mount_entry **io_list, size_t count, uint64_t id, const char *point,
		   const char *type);

#endif
