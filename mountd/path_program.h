/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PATH_PROGRAM_H
#define MOUNTD_PATH_PROGRAM_H

/* path_program: where our other programs are: $FSGROUPFS_LIBEXEC, else beside this one or where `make install` puts them. No state, any thread. */

#include <stddef.h>

/* program_path: the path of program @name. -ENAMETOOLONG, or readlink()'s error. */
int program_path(const char *name, char *ret_path, size_t size);

#define PROGRAM_ERROR_MAX 512

/*
 * program_open: a descriptor of that program, O_PATH, which nobody but root can have written: what is run by it later
 * is what was looked at. 0, or -errno with a line in *ret_error (PROGRAM_ERROR_MAX bytes).
 */
int program_open(const char *name, int *ret_fd, char *ret_error);

#endif
