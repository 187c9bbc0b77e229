// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/clock.h"
#include "fs/ops.h"
#include "fs/request.h"

enum { BUFFER_ALIGNMENT = 4096 };

#define ROUND_UP(n, unit) (((n) + (unit)-1) / (unit) * (unit))

/* Between two requests: as long as the session is drained. */
static void rest(struct server_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	threads->resting++;
	pthread_cond_broadcast(&threads->changed);
	while (atomic_load(&threads->draining))
		pthread_cond_wait(&threads->changed, &threads->lock);
	threads->resting--;
	pthread_mutex_unlock(&threads->lock);
}

/*
 * Where requests are read to, in memory that is there already: the kernel fails a request with EIO, for good, when the
 * thread that reads it is killed while it fetches a page to put it in (fuse_dev_do_read(), Linux 6.18). Names and
 * attributes always find their pages; file data where it comes this way and another server may follow. NULL: no memory.
 */
static void *request_buffer(const struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;
	bool has_data = atomic_load(&h->data_path_cached) != 0 &&
			atomic_load(&h->failover) == FAILOVER_READY;
	size_t size = ov->threads->request_bytes, touched = has_data ? size : REQUEST_HEAD_BYTES;
	void *buffer = aligned_alloc(BUFFER_ALIGNMENT, ROUND_UP(size, BUFFER_ALIGNMENT));

	if (buffer)
		memset(buffer, 0, touched);
	return buffer;
}

/* Of a turn: looks for a request as long as it lasts. A bound thread lets him work whose processor it has. */
static enum turn_how look_for_request(const struct overlay *ov, struct affine *affine)
{
	uint64_t until = clock_now_ns() + TURN_LOOK_NS;

	if (session_has_request(ov, 0))
		return TURN_WAS_THERE;
	if (affine_is_bound(affine)) {
		if (!session_has_request(ov, AFFINE_WAIT_MS))
			affine_leave(affine);
		return TURN_SLEPT;
	}
	while (clock_now_ns() < until && !session_has_request(ov, 0))
		;
	return TURN_LOOKED;
}

/* Reads a request, if there is one and the session is not drained. Returns its length, or as libfuse does. */
static int receive(struct overlay *ov, struct reader *self, struct fuse_buf *io_buf)
{
	int n = -EAGAIN;

	/* In this order, against session_drain(). */
	atomic_store(&self->reads, true);
	if (!atomic_load(&ov->threads->draining))
		n = fuse_session_receive_buf(ov->session, io_buf);
	atomic_store(&self->reads, false);
	return n;
}

/* Threads of the walk are at work, or may be at any time. */
static bool is_walked(const struct overlay *ov)
{
	return atomic_load(&ov->brake.is_on) && !atomic_load(&ov->shared.header->paused);
}

/* A request was read: the turn, if there was one, is kept where the caller is followed. Returns how it is to be taken. */
static enum turn_how follow_caller(struct turn *t, unsigned turn, struct affine *affine,
				   pid_t caller, enum turn_how how, uint64_t now_ns)
{
	bool was_bound = affine_is_bound(affine);

	if (turn != 0)
		affine_note(affine, caller, how == TURN_WAS_THERE, now_ns);
	if (!affine_is_bound(affine)) {
		turn_give(t, turn);
		return how;
	}
	if (!was_bound)
		turn_keep(t, turn);
	/* Of a bound thread: he goes on beside us, and asks again before we look. */
	return was_bound ? TURN_SLEPT : how;
}

void session_raise(struct server_threads *threads)
{
	for (unsigned i = 0; i < threads->device_count; i++)
		affine_raise(&threads->readers[i].affine);
}

static unsigned take_turn(struct overlay *ov)
{
	unsigned turn;

	do {
		turn = turn_take(&ov->threads->turn);
		if (turn == TURN_LATE)
			session_raise(ov->threads);
		if (turn == 0 || turn == TURN_CALLED)
			session_forget(ov);
	} while (turn == TURN_CALLED || turn == TURN_LATE);
	return turn;
}

static void serve_read(struct overlay *ov, const struct affine *affine, void *bytes, size_t len,
		       uint32_t opcode, uint64_t now_ns)
{
	struct server_threads *threads = ov->threads;

	if (request_is_forget(opcode) && affine_is_bound(affine) &&
	    session_forget_later(ov, bytes, len, now_ns))
		return;
	/* Another caller than whose file it was, and who asks for what is free, is not to find it taken. */
	if (!affine_is_bound(affine) || opcode == FUSE_STATFS ||
	    forgets_are_due(&threads->forgets, now_ns))
		session_forget(ov);
	/* Of what came by a ring this session knows nothing; and nothing is ended by it. */
	if (opcode == FUSE_INTERRUPT && session_has_rings(threads))
		return;
	session_serve(ov, bytes, len);
}

void session_serve_device(struct overlay *ov, struct reader *self)
{
	struct server_threads *threads = ov->threads;
	struct fuse_buf buf = { .mem = request_buffer(ov) }; /* else libfuse makes one */
	struct affine *affine = &self->affine;
	enum turn_how how;
	unsigned turn = 0;
	uint64_t now_ns;
	uint32_t opcode;
	bool caller_waits, is_forget;

	while (!fuse_session_exited(ov->session)) {
		int n;

		if (!affine_is_bound(affine) || !turn_is_kept(&threads->turn, turn)) {
			affine_leave(affine);
			turn = take_turn(ov);
		}
		how = turn != 0 ? look_for_request(ov, affine) : TURN_SLEPT;
		n = receive(ov, self, &buf);
		if (n <= 0 || !request_opcode(buf.mem, (size_t)n, &opcode)) {
			turn_give(&threads->turn, turn);
			turn = 0;
			affine_leave(affine);
			if (atomic_load(&threads->draining) && n == -EAGAIN)
				rest(threads);
			if (n > 0 || n == -EINTR || n == -EAGAIN)
				continue;
			break;
		}
		is_forget = request_is_forget(opcode);
		/* Before all that may put us to sleep: is_forgetting() of session_forget.c takes who sleeps for who has read nothing. */
		if (is_forget)
			atomic_fetch_add(&threads->forgetting, 1);
		now_ns = clock_now_ns();
		caller_waits = request_is_awaited(opcode);
		affine_crowd(affine, is_walked(ov));
		how = follow_caller(&threads->turn, turn, affine,
				    request_waiter(buf.mem, (size_t)n), how, now_ns);
		turn_found(&threads->turn, caller_waits, how, now_ns);
		if (caller_waits)
			cpu_latency_note(&ov->cpu_latency, now_ns);
		stats_note(opcode);
		if (turn != 0)
			stats_note(STATS_IN_TURN);
		session_begin(ov, caller_waits);
		serve_read(ov, affine, buf.mem, (size_t)n, opcode, now_ns);
		if (is_forget)
			atomic_fetch_sub(&threads->forgetting, 1);
		atomic_fetch_add(&threads->done, 1);
		session_note_answer();
	}
	affine_leave(affine);
	free(buf.mem);
}
