/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_RING_H
#define FS_RING_H

/*
 * ring: requests of /dev/fuse through an io_uring(7) instead of read(2) and write(2): the answer to one and the next one
 * are one system call, and the next one comes on the processor of its caller (FUSE_OVER_IO_URING, Linux 6.14).
 *
 * The kernel has a queue for each processor, and puts a request into one of the buffers that were registered there. A
 * ring belongs to one thread and has one buffer in each queue that it serves: where it serves one, as it does unless there are
 * more processors than threads, a buffer is free exactly when its thread is, and nobody waits behind another's disk.
 *
 * An answer is written, as for the device, to a file: to a piece of memory in which it ends up where the kernel looks for it.
 * So whoever answers need not know of rings. Only the thread of a ring touches it. FORGET and INTERRUPT still come by the
 * device, and notifications go there.
 *
 * What is requested of the kernel follows Documentation/filesystems/fuse/fuse-io-uring.rst and include/uapi/linux/fuse.h of
 * Linux 6.18. Knows no libfuse.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ring;

enum { RING_REASON_MAX = 256 };

/*
 * ring_check: whether this kernel would do it, and is allowed to. 0, or -EOPNOTSUPP with a line in @ret_reason that
 * says what is missing.
 */
int ring_check(char ret_reason[RING_REASON_MAX]);

/*
 * ring_queues: how many queues the kernel has, each of which must be served: processors, also those that are not there
 * yet. Reads /sys. 0 or -errno.
 */
int ring_queues(unsigned *ret_count);

/*
 * ring_threads: how many threads serve @queues, of at most @most: two a queue where there can be as many, so that one can
 * wait for the disk.
 */
unsigned ring_threads(unsigned queues, unsigned most);

/* ring_serves: whether thread @thread of @threads serves queue @queue of @queues. Each queue has one that does. */
bool ring_serves(unsigned thread, unsigned threads, unsigned queue, unsigned queues);

/*
 * ring_open: a ring of the calling thread, which is @thread of @threads and serves its share of @queues (ring_serves()). It
 * can give the kernel commands for @device_fd and nothing else. 0 or -errno; *ret_ring is to be freed by ring_close().
 */
int ring_open(int device_fd, unsigned thread, unsigned threads, unsigned queues,
	      struct ring **ret_ring);

/* ring_close: with NULL, too. The descriptor of ring_answer_fd() is not closed. */
void ring_close(struct ring *ring);

/* ring_answer_fd: where answers are written to, at its offset; whoever asks closes it. */
int ring_answer_fd(const struct ring *ring);

/*
 * ring_register: buffers for requests of at most @payload_bytes beside their head, one in each queue of this ring's. Once
 * every queue has one, requests come here. Not before INIT is answered. 0 or -errno.
 */
int ring_register(struct ring *ring, size_t payload_bytes);

/*
 * ring_next: hands over the answer to the last request, which has been written to ring_answer_fd() by now, and waits
 * for the next one. *ret_bytes: as read(2) would have given it, valid until the next call; its end is overwritten by the answer.
 * Returns its length, -EINTR or -EAGAIN (call again), -ENODEV (the connection has ended), -EPROTO, or -errno.
 */
ssize_t ring_next(struct ring *ring, void **ret_bytes);

#endif
