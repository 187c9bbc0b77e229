/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_BOOT_ID_H
#define MOUNTD_BOOT_ID_H

/* boot_id: which boot of the machine this is. No state, any thread. */

#include <stddef.h>

#define BOOT_ID_SIZE 37
#define BOOT_ID_VARIABLE "FSGROUPFS_BOOT_ID"

/*
 * boot_id_get: the kernel's boot id, or, for tests of what a restart of the machine does, that of the
 * environment. It is a variable and not a file, so that none can be left behind and make every boot look the
 * same, and only for a root directory other than "/": there a wrong word would lose mounts.
 * Returns 0, or with one line in *ret_error -EINVAL (the variable is no boot id), -EPERM (it is set for "/"),
 * or what reading the kernel's met.
 */
int boot_id_get(const char *root, char ret_id[BOOT_ID_SIZE], char *ret_error, size_t size);

#endif
