/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_SESSION_PRIVATE_H
#define FS_SESSION_PRIVATE_H

/*
 * session_private: the inside of a session, for session.c (its threads, and what they do with a request), session_device.c (how those
 * come by the device, and whose turn it is to read them), session_init.c (what is agreed with the kernel before the first) and
 * session_forget.c (when they see to what it has forgotten). Nobody else includes it.
 */

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/affine.h"
#include "fs/forgets.h"
#include "fs/ring.h"
#include "fs/session.h"
#include "fs/turn.h"

/* The main thread serves too, in the end of a hold. */
enum { THREADS_MAX = LEDGER_THREADS_MAX - 1 };

/* What comes before file data in a request, and all of any other: of libfuse's buffers (FUSE_BUFFER_HEADER_SIZE) more. */
enum { REQUEST_HEAD_BYTES = 72 * 1024 };

/* Of a thread that reads from the device. READS_KICKED: a signal is on its way that ends the read; no other call may get it. */
enum { READS_NOT, READS, READS_KICKED };

struct server_threads {
	pthread_t ids[THREADS_MAX];
	struct reader { /* by the order in which they begin, which is not that of ids[] */
		pthread_t id;
		atomic_int reads;  /* READS_...: it waits for a request, or is about to */
		struct ring *ring; /* where its requests come from; NULL: the device */
		/* libfuse's for that ring, which answers there; the device's is the overlay's */
		struct fuse_session *session;
		struct affine affine; /* of those that read from the device */
	} readers[THREADS_MAX];
	unsigned count;
	unsigned device_count; /* of them read from the device: the first */
	unsigned queues; /* the kernel's, of which each is served by a ring; 0: there are none */
	atomic_int ring_error; /* of the last ring that could not be made; 0: none */
	atomic_uint joined;    /* to the ledger */
	pthread_barrier_t
		gate; /* passed by every thread and the main one: twice, with rings three times */
	int event_fd;
	int init_fds[2]; /* libfuse answers INIT on the second; it owns that one */
	atomic_bool ended;
	enum affine_use use;	 /* of those that read from the device */
	struct reader *follower; /* but for the last of scouts; NULL: none */
	/* A request that the follower has read and another is to serve, or NULL. Written under lock, which guards its length. */
	void *_Atomic relayed;
	size_t relayed_len;
	struct turn turn;	/* of those that read from the device */
	struct forgets forgets; /* theirs */
	atomic_uint forgetting; /* threads that see to what the kernel has forgotten */
	atomic_uint done;	/* requests, and times that they have seen to what was laid aside */

	atomic_bool draining; /* set under lock */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with lock, on the monotonic clock */
	unsigned resting;	/* threads that read no more; guarded by lock */
	size_t request_bytes;	/* the largest request; known once INIT is answered */
};

/* session_has_rings: whether requests come over io_uring; the few that cannot come by the device all the same. */
static inline bool session_has_rings(const struct server_threads *threads)
{
	return threads->device_count < threads->count;
}

/* session_has_request: whether one came by the device within @timeout_ms. */
static inline bool session_has_request(const struct overlay *ov, int timeout_ms)
{
	struct pollfd device = { .fd = ov->device_fd, .events = POLLIN };

	return poll(&device, 1, timeout_ms) != 0;
}

/* session_serve_device: the life of a thread that reads from the device, until the connection ends. */
void session_serve_device(struct overlay *ov, struct reader *self);

/*
 * session_begin: the calling thread has read one that turn_found() was told of; session_serve() may follow. session_note_answer: it is
 * answered, or about to be; a second time it changes nothing.
 */
void session_begin(struct overlay *ov, bool is_awaited);
void session_note_answer(void);

/* session_raise: threads that serve a request are to be done with it (affine_raise()). */
void session_raise(struct server_threads *threads);

/* session_serve_aside: begins again what found no descriptor, when there may be some (descriptors.h). Between two requests. */
void session_serve_aside(struct overlay *ov);

/*
 * session_forget: sees to what was laid aside (forgets.h).
 * session_forget_later: lays the request aside, if it is that kind and there is room on disk; @now_ns: clock_now_ns().
 * session_find_room: for a request that found no room on disk: sees that all is let go of that the kernel has forgotten, which
 * may take ms. @done: the threads' when it was begun. Returns whether there may be room now.
 */
void session_forget(struct overlay *ov);
bool session_forget_later(struct overlay *ov, const void *bytes, size_t len, uint64_t now_ns);
bool session_find_room(struct overlay *ov, unsigned done);

/* session_make: libfuse's part, which answers on @fd and closes it in the end. 0, -ENOMEM or -EIO. */
int session_make(struct overlay *ov, int fd, struct fuse_session **ret_session);

#endif
