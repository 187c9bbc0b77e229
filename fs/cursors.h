/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CURSORS_H
#define FS_CURSORS_H

/*
 * cursors: directories that somebody is listing, kept open at the place where he goes on.
 *
 * A request carries the cookie of the last entry, and where cookies are the same for whoever opens the directory that is enough
 * (ops_dir.c). Other file systems (overlayfs, many in user space) count entries of what they read when the directory was opened:
 * opened anew, after a change the same cookie may be another entry's, and each time all is read again. There the descriptor is kept
 * from one request to the next. It is a better way, not a need: what is not here is opened anew, as by a server that follows.
 *
 * Few: what nobody comes back for makes place for the next, or goes when the kernel forgets the directory. Thread-safe.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { CURSORS_MAX = 32 };

struct cursors {
	pthread_mutex_t lock;
	atomic_uint count; /* changed under lock, which guards the rest */
	uint64_t puts;
	struct cursor {
		uint64_t dir; /* node id; 0: none */
		off_t next;
		int flags; /* that it was opened with, of those that matter */
		int fd;
		uint64_t put; /* of puts: the least was there first */
	} places[CURSORS_MAX];
};

void cursors_init(struct cursors *c);
void cursors_fini(struct cursors *c);

/* cursors_take: the descriptor of @dir that stands behind the entry with the cookie @next, the caller's now; or -1. */
int cursors_take(struct cursors *c, uint64_t dir, off_t next, int flags);

/* cursors_put: @fd, which is taken over, stands there. */
void cursors_put(struct cursors *c, uint64_t dir, off_t next, int flags, int fd);

/* cursors_drop: those of @dir; 0: all. Returns how many. */
unsigned cursors_drop(struct cursors *c, uint64_t dir);

#endif
