/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_IO_H
#define FS_BASE_IO_H

/* io: what read(2) leaves to its caller. No state, any thread. */

#include <sys/types.h>

/*
 * io_read_all: reads @fd to its end, or until @size bytes are there; goes on after interruptions.
 * Returns the number of bytes (@size: there may be more), or -errno.
 */
ssize_t io_read_all(int fd, void *ret_bytes, size_t size);

#endif
