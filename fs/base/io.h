/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_IO_H
#define FS_BASE_IO_H

/* io: what read(2) and write(2) leave to their callers. No state, any thread. */

#include <sys/types.h>

/*
 * io_read_all: reads @fd to its end, or until @size bytes are there; goes on after interruptions.
 * Returns the number of bytes (@size: there may be more), or -errno.
 */
ssize_t io_read_all(int fd, void *ret_bytes, size_t size);

/*
 * io_read_text: what is in the file @name below @dir_fd, as a string; what does not fit is cut off. 0, or open()'s and read()'s
 * errors. io_read_line: its first line, without its end.
 */
int io_read_text(int dir_fd, const char *name, char *ret_text, size_t size);
int io_read_line(int dir_fd, const char *name, char *ret_text, size_t size);

/* io_write_all: writes all of it; goes on after interruptions. 0 or -errno, with a part written perhaps. */
int io_write_all(int fd, const void *bytes, size_t size);

#endif
