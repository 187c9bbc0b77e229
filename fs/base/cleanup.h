/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_CLEANUP_H
#define FS_BASE_CLEANUP_H

/*
 * cleanup: release in scope order.
 *
 * AUTO_FREE, AUTO_FD and AUTO(type) release what they hold when the scope ends; every such variable
 * is initialised where it is declared. take_fd() and take_ptr() hand a resource over and leave the
 * variable empty. The helpers keep errno and never retry close(): in a threaded process the number
 * may already belong to another file.
 *
 * Knows nothing of the project; everyone may include it. No state, so any thread.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *io_ptr)
{
	int saved = errno;
	void **ptr = io_ptr;

	free(*ptr);
	*ptr = NULL;
	errno = saved;
}

static inline void cleanup_fd(int *io_fd)
{
	int saved = errno;

	if (*io_fd >= 0)
		close(*io_fd);
	*io_fd = -1;
	errno = saved;
}

/* take_fd: returns *io_fd and leaves -1 behind. */
static inline int take_fd(int *io_fd)
{
	int fd = *io_fd;

	*io_fd = -1;
	return fd;
}

/* take_ptr: the value of the pointer variable @io_ptr points to, which becomes NULL. */
#define take_ptr(io_ptr)                                                                           \
	({                                                                                         \
		__typeof__(io_ptr) taken_at_ = (io_ptr);                                           \
		__typeof__(*taken_at_) taken_ = *taken_at_;                                        \
		*taken_at_ = NULL;                                                                 \
		taken_;                                                                            \
	})

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_FD __attribute__((cleanup(cleanup_fd)))

/*
 * AUTO(type): a "struct type *" released by type_free(). A module that offers it writes
 * DEFINE_AUTO(type) in its header.
 */
#define DEFINE_AUTO(type)                                                                          \
	static inline void cleanup_##type(struct type **io_ptr)                                    \
	{                                                                                          \
		int saved = errno;                                                                 \
		type##_free(*io_ptr);                                                              \
		*io_ptr = NULL;                                                                    \
		errno = saved;                                                                     \
	}
#define AUTO(type) __attribute__((cleanup(cleanup_##type))) struct type

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
