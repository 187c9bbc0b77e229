/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_SESSION_H
#define FS_SESSION_H

/*
 * session: the FUSE connection of one server: INIT, the threads that read requests, the hand-off gate.
 *
 * Knows libfuse. INIT is answered by libfuse on a socket pair, the answer is completed and kept in the
 * shared memory, and then the device takes the socket's place: so a later server can bring its libfuse
 * to the same state from the kept bytes without a word to the kernel.
 */

#include "fs/overlay.h"

/* session_library: the version of libfuse. */
const char *session_library(void);

/*
 * session_open: makes ov->session and its threads, which wait. Needs ov->device_fd and ov->ring_queues; the overlay is not
 * mounted yet. 0 or -errno.
 */
int session_open(struct overlay *ov);

/*
 * session_answer_init: reads INIT from the device (blocks until the overlay is mounted) and answers it.
 * 0, -EPROTO (not what was expected), -ENOSYS (idmap=yes, and the kernel has it not), or -errno.
 */
int session_answer_init(struct overlay *ov);

/*
 * session_replay_init: instead of it, in a successor: libfuse gets INIT as the first server got it, and
 * the kernel nothing, so it can be done while another server serves. -EPROTO: this program would have
 * answered it otherwise.
 */
int session_replay_init(struct overlay *ov);

/* session_resend: the kernel sends again what it has given to a server and got no answer to. 0 or -errno. */
int session_resend(struct overlay *ov);

/* session_knows: whether the kernel has an inode under this node id. */
bool session_knows(struct overlay *ov, uint64_t node_id);

/*
 * session_run: lets the threads go. 0, or, with rings, -errno: requests cannot come over them.
 */
int session_run(struct overlay *ov);

/*
 * session_drain: the threads finish what they have read and read no more: requests stay with the kernel.
 * @limit_ms: as long it may take. session_go_on: after it: they read again.
 * Returns 0, or -ETIMEDOUT: a request takes longer; then they have gone on.
 */
int session_drain(struct overlay *ov, uint64_t limit_ms);
void session_go_on(struct overlay *ov);

/*
 * session_affine_threads: of an open session, those that others give back what they were (affine_raise()). Returns how many of
 * LEDGER_THREADS_MAX. session_follower: or which of them is freed instead; 0: none.
 */
size_t session_affine_threads(const struct overlay *ov, pid_t *ret_threads);
pid_t session_follower(const struct overlay *ov);

/* session_event_fd: an eventfd that is readable after session_poke() and at the connection's end. */
int session_event_fd(const struct overlay *ov);
void session_poke(struct overlay *ov);
bool session_has_ended(const struct overlay *ov);

/* session_serve: one request, as bytes, in this thread. */
void session_serve(struct overlay *ov, void *bytes, size_t len);

/* session_answer_error: the answer, @error (an errno), to a request that libfuse has not seen, or left without one. */
void session_answer_error(struct overlay *ov, const void *bytes, size_t len, int error);

/* session_close: waits for the threads; only after the connection has ended. */
void session_close(struct overlay *ov);

#endif
