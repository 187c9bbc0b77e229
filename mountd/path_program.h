/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PATH_PROGRAM_H
#define MOUNTD_PATH_PROGRAM_H

/* path_program: where our other programs are: $FSGROUPFS_LIBEXEC, else beside this one or where `make install` puts them. No state, any thread. */

#include <stddef.h>

/* program_path: the path of program @name. -ENAMETOOLONG, or readlink()'s error. */
int program_path(const char *name, char *ret_path, size_t size);

#endif
