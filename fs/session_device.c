// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
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

/* ---- the follower ---- */

static __thread struct reader *kicked;

static void on_kick(int signal_number)
{
	int reads = READS_KICKED;

	(void)signal_number;
	if (kicked)
		atomic_compare_exchange_strong(&kicked->reads, &reads, READS);
}

/* Of the follower, before it reads for the first time. */
static void catch_kicks(struct reader *self)
{
	const struct sigaction ending = { .sa_handler = on_kick };

	kicked = self;
	sigaction(SIGUSR2, &ending, NULL);
}

/*
 * By a thread that has read without a turn: then the follower is to read nothing. But it may: others took what it was about to
 * read, while it waited for a processor. The signal may come before it sleeps, so everyone does this who reads, until it is out.
 */
static void kick_follower(struct server_threads *threads)
{
	struct reader *follower = threads->follower;
	int reads = READS;

	if (follower && atomic_compare_exchange_strong(&follower->reads, &reads, READS_KICKED))
		pthread_kill(follower->id, SIGUSR2);
}

/* A signal that is on its way has come before anything else is done: a call for a user would end with EINTR. */
static void end_reading(struct reader *self)
{
	int reads = READS;

	while (!atomic_compare_exchange_strong(&self->reads, &reads, READS_NOT)) {
		reads = READS;
		sched_yield();
	}
}

/* Returns the number of its turn, bound to the processor of the caller that it is handed; or 0. */
static unsigned wait_for_caller(struct server_threads *threads, struct affine *affine)
{
	pid_t caller;
	unsigned turn = turn_wait_handed(&threads->turn, &caller);

	if (turn == 0)
		return 0;
	affine_follow(affine, caller, clock_now_ns());
	if (affine_is_bound(affine))
		return turn;
	turn_give(&threads->turn, turn);
	return 0;
}

/* Returns its length, or 0: there is none. The buffer is the caller's, as his own was. */
static int take_relayed(struct server_threads *threads, struct fuse_buf *io_buf)
{
	void *relayed;
	int n = 0;

	if (!atomic_load(&threads->relayed))
		return 0;
	pthread_mutex_lock(&threads->lock);
	relayed = atomic_exchange(&threads->relayed, NULL);
	if (relayed) {
		free(io_buf->mem);
		io_buf->mem = relayed;
		n = (int)threads->relayed_len;
	}
	pthread_mutex_unlock(&threads->lock);
	return n;
}

static bool put_relayed(struct overlay *ov, struct fuse_buf *io_buf, size_t len)
{
	struct server_threads *threads = ov->threads;
	void *next = request_buffer(ov);
	bool is_put;

	pthread_mutex_lock(&threads->lock);
	is_put = next && !atomic_load(&threads->relayed);
	if (is_put) {
		threads->relayed_len = len;
		atomic_store(&threads->relayed, io_buf->mem);
		io_buf->mem = next;
	}
	pthread_mutex_unlock(&threads->lock);
	if (!is_put)
		free(next);
	return is_put;
}

/*
 * Of the follower, in its turn: a request that takes long is for another thread. Those wait for their turn until this one ends, and
 * look here before they read. Where it has ended already they may read, or rest: then the follower has to serve it, and false is
 * returned.
 */
static bool relay(struct overlay *ov, unsigned turn, struct fuse_buf *io_buf, size_t len)
{
	struct server_threads *threads = ov->threads;

	if (!put_relayed(ov, io_buf, len))
		return false;
	if (!turn_is_kept(&threads->turn, turn) && take_relayed(threads, io_buf) > 0)
		return false;
	turn_end(&threads->turn);
	return true;
}

/* ---- requests ---- */

/* Reads a request, if there is one and the session is not drained. Returns its length, or as libfuse does. */
static int receive(struct overlay *ov, struct reader *self, struct fuse_buf *io_buf)
{
	int n = self == ov->threads->follower ? 0 : take_relayed(ov->threads, io_buf);

	if (n > 0)
		return n;
	n = -EAGAIN;
	/* In this order, against session_drain(). */
	atomic_store(&self->reads, READS);
	if (!atomic_load(&ov->threads->draining))
		n = fuse_session_receive_buf(ov->session, io_buf);
	end_reading(self);
	return n;
}

/* Threads of the walk are at work, or may be at any time. */
static bool is_walked(const struct overlay *ov)
{
	return atomic_load(&ov->brake.is_on) && !atomic_load(&ov->shared.header->paused);
}

/* Gives the turn back, or hands it on where one asks again and again who can be followed. */
static void pass_turn(struct server_threads *threads, unsigned turn, struct affine *affine,
		      pid_t caller, uint64_t now_ns)
{
	const struct reader *follower = threads->follower;

	if (follower && caller != 0 && affine_has_caller(affine) &&
	    affine_wants_caller(&follower->affine, now_ns) &&
	    turn_hand(&threads->turn, turn, caller))
		affine_handed(affine);
	else
		turn_give(&threads->turn, turn);
}

/* A request was read: the turn, if there was one, is kept where the caller is followed. Returns how it is to be taken. */
static enum turn_how follow_caller(struct server_threads *threads, unsigned turn,
				   struct affine *affine, pid_t caller, enum turn_how how,
				   uint64_t now_ns)
{
	bool was_bound = affine_is_bound(affine);

	if (turn != 0)
		affine_note(affine, caller, how == TURN_WAS_THERE, now_ns);
	if (!affine_is_bound(affine)) {
		pass_turn(threads, turn, affine, caller, now_ns);
		return how;
	}
	if (!was_bound)
		turn_keep(&threads->turn, turn);
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
		if (turn == 0 || turn == TURN_CALLED) {
			session_forget(ov);
			session_serve_aside(ov);
		}
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

static void serve_one(struct overlay *ov, struct affine *affine, unsigned turn, enum turn_how how,
		      void *bytes, size_t len, uint32_t opcode)
{
	struct server_threads *threads = ov->threads;
	bool caller_waits = request_is_awaited(opcode), is_forget = request_is_forget(opcode);
	uint64_t now_ns;

	/* Before all that may put us to sleep: is_forgetting() of session_forget.c takes who sleeps for who has read nothing. */
	if (is_forget)
		atomic_fetch_add(&threads->forgetting, 1);
	if (turn == 0)
		kick_follower(threads);
	now_ns = clock_now_ns();
	affine_crowd(affine, is_walked(ov));
	how = follow_caller(threads, turn, affine, request_waiter(bytes, len), how, now_ns);
	turn_found(&threads->turn, caller_waits, how, now_ns);
	if (caller_waits)
		cpu_latency_note(&ov->cpu_latency, now_ns);
	stats_note(opcode);
	if (turn != 0)
		stats_note(STATS_IN_TURN);
	session_begin(ov, caller_waits);
	serve_read(ov, affine, bytes, len, opcode, now_ns);
	if (is_forget)
		atomic_fetch_sub(&threads->forgetting, 1);
	atomic_fetch_add(&threads->done, 1);
	session_note_answer();
}

void session_serve_device(struct overlay *ov, struct reader *self)
{
	struct server_threads *threads = ov->threads;
	struct fuse_buf buf = { .mem = request_buffer(ov) }; /* else libfuse makes one */
	struct affine *affine = &self->affine;
	bool follows = self == threads->follower;
	enum turn_how how;
	unsigned turn = 0;
	uint32_t opcode;

	if (follows)
		catch_kicks(self);
	while (!fuse_session_exited(ov->session)) {
		int n = -EAGAIN;

		if (!affine_is_bound(affine) || !turn_is_kept(&threads->turn, turn)) {
			affine_leave(affine);
			turn = follows ? wait_for_caller(threads, affine) : take_turn(ov);
		}
		how = turn != 0 ? look_for_request(ov, affine) : TURN_SLEPT;
		if (!follows || affine_is_bound(affine))
			n = receive(ov, self, &buf);
		if (n <= 0 || !request_opcode(buf.mem, (size_t)n, &opcode)) {
			if (turn != 0 || !follows)
				turn_give(&threads->turn, turn);
			turn = 0;
			affine_leave(affine);
			if (atomic_load(&threads->draining) && n == -EAGAIN)
				rest(threads);
			if (n > 0 || n == -EINTR || n == -EAGAIN)
				continue;
			break;
		}
		if (!follows || !request_takes_long(buf.mem, (size_t)n) ||
		    !relay(ov, turn, &buf, (size_t)n))
			serve_one(ov, affine, turn, how, buf.mem, (size_t)n, opcode);
		session_serve_aside(ov);
	}
	affine_leave(affine);
	free(buf.mem);
}
