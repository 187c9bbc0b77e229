// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/scheduling.h"
#include "fs/listing.h"
#include "fs/ops.h"
#include "fs/pace.h"
#include "fs/request.h"

enum { DESCRIPTORS = 1024 };

/* A request for which there is no room is begun again so often. */
enum { REPEATS_MAX = 3 };

/* Nodes in one call. */
enum { ASKED_MAX = 512 };

/* Of a thread with a ring; else NULL. */
static __thread struct reader *own;

/* What a thread serves, as far as others are to hear when it is answered. */
static __thread struct serving {
	struct overlay *ov;
	uint64_t began_ns; /* for the brake; 0: not, or not any more */
	enum brake_kind kind;
	bool is_counted, is_awaited; /* by the turn */
	uint32_t opcode;
	unsigned repeats;  /* overlay_make_room() */
	unsigned done;	   /* of the threads' when it was begun, or begun again */
	bool is_left;	   /* without an answer, for want of a descriptor */
	uint64_t began_ms; /* when it found none for the first time; 0: it did not yet */
} serving;

/* The ledger's record of the request; what a dead server had counted for it is taken back. */
static void begin_record(struct overlay *ov, const void *bytes, size_t len)
{
	uint32_t opcode;
	uint64_t unique;
	bool is_resent;

	/* Above the root nothing changes, and the root's lookups are never counted down: it may be answered twice. */
	if (!request_is_answered(bytes, len, &opcode, &unique, &is_resent) ||
	    ops_is_top(ov, request_node(bytes, len)))
		return;
	ledger_begin(unique, opcode, is_resent);
	if (ledger_is_repeat())
		backing_take_back(ov, ledger_current());
}

void session_begin(struct overlay *ov, bool is_awaited)
{
	serving = (struct serving){ .ov = ov, .is_counted = true, .is_awaited = is_awaited };
}

/* The first time counts: before the answer, where the thread may have to wait behind who gets it (affine.h). */
void session_note_answer(void)
{
	if (serving.began_ns != 0)
		brake_end(&serving.ov->brake, serving.kind, serving.began_ns, pace_now_ns());
	if (serving.is_counted)
		turn_served(&serving.ov->threads->turn, serving.is_awaited, clock_now_ns());
	serving.began_ns = 0;
	serving.is_counted = false;
}

/*
 * A ring gives its thread no other request before this one is answered; another thread reads what is forgotten. For a file's
 * data the kernel may wait where it is asked to forget the file.
 */
static bool can_be_laid_aside(void)
{
	return !own && serving.opcode != FUSE_WRITE && serving.opcode != FUSE_READ;
}

bool overlay_make_room(struct overlay *ov, int error)
{
	bool has_room, wants_descriptor = error == EMFILE && descriptors_are_kept(&ov->descriptors);

	/* One that a dead server had begun is judged by what he left of it, which is known the first time only. */
	if (ledger_is_repeat())
		return false;
	/* Listings go on without. */
	if (error == EMFILE && serving.repeats < REPEATS_MAX && cursors_drop(&ov->cursors, 0) > 0) {
		serving.repeats++;
		return true;
	}
	if (wants_descriptor && can_be_laid_aside()) {
		serving.is_left = true;
		return true;
	}
	if (wants_descriptor)
		has_room = descriptors_wait(&ov->descriptors, &serving.began_ms);
	else
		has_room = serving.repeats < REPEATS_MAX && session_find_room(ov, serving.done);
	serving.repeats += has_room;
	return has_room;
}

/* Again where room was made for it. */
static void process(struct overlay *ov, const struct fuse_buf *buf)
{
	struct fuse_session *session = own ? own->session : ov->session;

	serving.repeats = 0;
	serving.is_left = false;
	if (!request_opcode(buf->mem, buf->size, &serving.opcode))
		serving.opcode = 0;
	serving.done = atomic_load(&ov->threads->done);
	fuse_session_process_buf(session, buf);
	for (unsigned begun = 0; begun < serving.repeats; begun++) {
		begin_record(ov, buf->mem, buf->size);
		serving.done = atomic_load(&ov->threads->done);
		fuse_session_process_buf(session, buf);
	}
	if (serving.is_left)
		descriptors_lay_aside(ov, buf->mem, buf->size, serving.began_ms);
	serving.began_ms = 0;
	descriptors_note(ov, serving.opcode);
}

void session_serve(struct overlay *ov, void *bytes, size_t len)
{
	struct fuse_buf buf = { .mem = bytes, .size = len };
	enum gate_verdict verdict = GATE_SERVE;
	uint64_t node = 0;
	uint32_t pid = 0;
	bool opens = request_opens_file(bytes, len, &node, &pid);

	/* A ring gives its thread no other request while this one has no answer. */
	if (opens)
		verdict = own ? gate_wait(&ov->gate, node, pid) :
				gate_enter(&ov->gate, node, pid, bytes, len);
	if (verdict == GATE_PARKED)
		return;
	begin_record(ov, bytes, len);
	/* What is half done already is done here. */
	if (verdict == GATE_ANSWER_ESTALE && ledger_phase() == LEDGER_BEGUN) {
		session_answer_error(ov, bytes, len, ESTALE);
	} else {
		request_begin(bytes, len);
		serving.ov = ov;
		serving.kind = request_kind(bytes, len);
		serving.began_ns = pace_now_ns();
		brake_begin(&ov->brake, serving.began_ns);
		process(ov, &buf);
		session_note_answer();
	}
	ledger_end();
	if (opens && verdict == GATE_SERVE)
		gate_leave(&ov->gate);
}

void session_serve_aside(struct overlay *ov)
{
	struct descriptors_request *request = descriptors_take(&ov->descriptors);

	while (request) {
		struct descriptors_request *next = request->next;

		serving.began_ms = request->began_ms;
		session_serve(ov, request->bytes, request->len);
		free(request);
		request = next;
	}
}

void session_answer_error(struct overlay *ov, const void *bytes, size_t len, int error)
{
	char reply[64];
	size_t n = request_error_reply(request_unique(bytes, len), error, reply);

	/* -ENOENT: the caller was interrupted meanwhile and no longer waits. */
	if (write(own ? ring_answer_fd(own->ring) : ov->device_fd, reply, n) < 0 && errno != ENOENT)
		log_line(LOG_WARNING, "serve", "answer %s: %m", strerror(error));
}

/* For good. */
static void stop_reading(struct server_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	threads->resting++;
	pthread_cond_broadcast(&threads->changed);
	pthread_mutex_unlock(&threads->lock);
}

/* ---- rings ---- */

/* A system call that makes a ring is none of those that are allowed later. */
static void open_ring(struct overlay *ov, struct reader *self, unsigned thread,
		      unsigned thread_count)
{
	int r = ring_open(ov->device_fd, thread, thread_count, ov->threads->queues, &self->ring);

	if (r < 0)
		atomic_store(&ov->threads->ring_error, r);
}

/*
 * On the processor whose queue it serves: the caller sleeps there from when it has asked until it has its answer. Where that
 * is not one of ours, or all have to be served by few, anywhere.
 */
static void settle_on_processor(const struct server_threads *threads, unsigned thread,
				unsigned thread_count)
{
	unsigned processor = thread % threads->queues;
	cpu_set_t allowed, one;

	CPU_ZERO(&one);
	if (thread_count < threads->queues || processor >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || !CPU_ISSET(processor, &allowed))
		return;
	CPU_SET(processor, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

static void register_ring(struct overlay *ov, struct reader *self)
{
	struct server_threads *threads = ov->threads;
	int r = ring_register(self->ring, threads->request_bytes - REQUEST_HEAD_BYTES);

	if (r < 0)
		atomic_store(&threads->ring_error, r);
}

static void serve_ring(struct overlay *ov, struct reader *self)
{
	uint32_t opcode;

	own = self;
	for (;;) {
		void *bytes;
		ssize_t n = ring_next(self->ring, &bytes);

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n == -ENODEV)
			return;
		if (n < 0) {
			/* Callers on this processor would wait for ever: the mount had better end. */
			log_line(LOG_ERROR, "serve", "io_uring: %s", strerror((int)-n));
			_exit(EXIT_FAILURE);
		}
		if (request_opcode(bytes, (size_t)n, &opcode)) {
			stats_note(opcode);
			cpu_latency_note(&ov->cpu_latency, clock_now_ns());
		}
		session_serve(ov, bytes, (size_t)n);
	}
}

/* ---- threads ---- */

/* @index: of a thread that reads from the device */
static enum affine_use affine_use(const struct server_threads *threads, unsigned index)
{
	bool is_last = index == threads->device_count - 1;

	return threads->use == AFFINE_SCOUT && is_last ? AFFINE_FOLLOWER : threads->use;
}

static void *serve_requests(void *argument)
{
	struct overlay *ov = argument;
	struct server_threads *threads = ov->threads;
	unsigned index = atomic_fetch_add(&threads->joined, 1);
	unsigned thread = index - threads->device_count; /* of those with a ring */
	unsigned thread_count = threads->count - threads->device_count;
	bool over_ring = index >= threads->device_count;
	struct reader *self = &threads->readers[index];

	self->id = pthread_self();
	ledger_join(&ov->shared, index);
	stats_join(&ov->shared.header->stats, index);
	/* umask is the thread's own, for creations as the caller. */
	if (unshare(CLONE_FS) < 0)
		log_line(LOG_ERROR, "start", "own fs_struct of a thread: %m");
	if (over_ring) {
		settle_on_processor(threads, thread, thread_count);
		open_ring(ov, self, thread, thread_count);
	} else {
		affine_init(&self->affine, affine_use(threads, index), ov->proc_fd,
			    session_note_answer);
		if (self->affine.use == AFFINE_FOLLOWER)
			threads->follower = self;
	}
	pthread_barrier_wait(&threads->gate); /* the sandbox may be locked now */
	pthread_barrier_wait(&threads->gate); /* INIT is answered */
	if (over_ring)
		register_ring(ov, self);
	if (session_has_rings(threads))
		pthread_barrier_wait(&threads->gate); /* each queue has its buffers */
	if (over_ring)
		serve_ring(ov, self);
	else
		session_serve_device(ov, self);
	fuse_session_exit(ov->session);
	turn_end(&threads->turn);
	atomic_store(&threads->ended, true);
	stop_reading(threads);
	session_poke(ov);
	return NULL;
}

/* ---- giving way to another server ---- */

/* Of the open file, which keeper and servers share. */
static void set_nonblocking(const struct overlay *ov, bool is_nonblocking)
{
	int flags = fcntl(ov->device_fd, F_GETFL);

	if (flags >= 0)
		fcntl(ov->device_fd, F_SETFL,
		      is_nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static void on_wake(int signal_number)
{
	(void)signal_number; /* it is enough that a read is begun again */
}

/*
 * Gets the threads out of their reads. The file does not block any more, so a read that begins from now on
 * does not either; one that waits is begun again by the signal. A thread that serves is left alone: its
 * system calls are for users.
 */
static void wake_readers(struct overlay *ov)
{
	const struct sigaction restarting = { .sa_handler = on_wake, .sa_flags = SA_RESTART };
	struct server_threads *threads = ov->threads;

	sigaction(SIGUSR1, &restarting, NULL);
	set_nonblocking(ov, true);
	for (unsigned i = 0; i < threads->count; i++) {
		if (atomic_load(&threads->readers[i].reads) != READS_NOT)
			pthread_kill(threads->readers[i].id, SIGUSR1);
	}
}

int session_drain(struct overlay *ov, uint64_t limit_ms)
{
	struct server_threads *threads = ov->threads;
	const struct timespec until = clock_until(limit_ms);
	int r = 0;

	pthread_mutex_lock(&threads->lock);
	atomic_store(&threads->draining, true);
	turn_end(&threads->turn);
	session_raise(threads);
	wake_readers(ov);
	while (threads->resting < threads->count && r == 0)
		r = pthread_cond_timedwait(&threads->changed, &threads->lock, &until);
	pthread_mutex_unlock(&threads->lock);
	if (r != 0)
		session_go_on(ov);
	return -r;
}

void session_go_on(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;

	set_nonblocking(ov, false);
	pthread_mutex_lock(&threads->lock);
	atomic_store(&threads->draining, false);
	pthread_cond_broadcast(&threads->changed);
	pthread_mutex_unlock(&threads->lock);
}

static unsigned thread_count(void)
{
	unsigned n = scheduling_processors();

	/* One that waits for the disk must not stop the others. */
	if (n < 2)
		n = 2;
	return n > THREADS_MAX ? THREADS_MAX : n;
}

/* With rings there is little that comes by the device. */
static void choose_threads(const struct overlay *ov)
{
	struct server_threads *threads = ov->threads;

	threads->queues = ov->ring_queues;
	threads->device_count = threads->queues > 0 ? 1 : thread_count();
	threads->count = threads->device_count;
	if (threads->queues > 0)
		threads->count += ring_threads(threads->queues, THREADS_MAX - 1);
}

static int make_ring_sessions(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;
	int r = atomic_load(&threads->ring_error);

	for (unsigned i = threads->device_count; r == 0 && i < threads->count; i++)
		r = session_make(ov, ring_answer_fd(threads->readers[i].ring),
				 &threads->readers[i].session);
	return r;
}

const char *session_library(void)
{
	return fuse_pkgversion();
}

/*
 * Room in the table of descriptors while there is one thread. Later the kernel waits until all others have left the old table
 * when it makes a larger one (expand_fdtable() of Linux: synchronize_rcu(), 15 ms), and a request waits with it.
 */
static void widen_descriptor_table(const struct overlay *ov)
{
	int fd = fcntl(ov->device_fd, F_DUPFD_CLOEXEC, DESCRIPTORS - 1);

	cleanup_fd(&fd);
}

/* A processor that is kept awake is woken sooner than one can be shared. */
static void choose_affinity(const struct overlay *ov)
{
	struct server_threads *threads = ov->threads;

	if (!threads->turn.is_of_use || ov->cpu_latency.fd >= 0)
		return;
	if (affine_is_possible()) {
		threads->use = AFFINE_SELF;
	} else if (threads->count < THREADS_MAX && affine_is_followable()) {
		threads->use = AFFINE_SCOUT;
		threads->device_count++;
		threads->count++;
	}
}

int session_open(struct overlay *ov)
{
	struct server_threads *threads = calloc(1, sizeof(*threads));
	int r;

	if (!threads)
		return -ENOMEM;
	widen_descriptor_table(ov);
	ov->threads = threads;
	pthread_mutex_init(&threads->lock, NULL);
	clock_cond_init(&threads->changed);
	ledger_join(&ov->shared, THREADS_MAX);
	stats_join(&ov->shared.header->stats, THREADS_MAX);
	threads->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (threads->event_fd < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, threads->init_fds) < 0)
		return -errno;
	r = session_make(ov, threads->init_fds[1], &ov->session);
	if (r < 0)
		return r;
	choose_threads(ov);
	turn_init(&threads->turn, threads->device_count > 1 && scheduling_processors() > 1);
	choose_affinity(ov);
	forgets_init(&threads->forgets);
	pthread_barrier_init(&threads->gate, NULL, threads->count + 1);
	for (unsigned i = 0; i < threads->count; i++) {
		r = pthread_create(&threads->ids[i], NULL, serve_requests, ov);
		if (r != 0)
			return -r;
	}
	pthread_barrier_wait(&threads->gate);
	return make_ring_sessions(ov);
}

int session_run(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;

	/* As a server that gave way has left it. */
	set_nonblocking(ov, false);
	pthread_barrier_wait(&threads->gate);
	if (!session_has_rings(threads))
		return 0;
	pthread_barrier_wait(&threads->gate);
	return atomic_load(&threads->ring_error);
}

size_t session_affine_threads(const struct overlay *ov, pid_t *ret_threads)
{
	const struct server_threads *threads = ov->threads;
	size_t count = threads->use == AFFINE_SELF ? threads->device_count : 0;

	for (size_t i = 0; i < count; i++)
		ret_threads[i] = threads->readers[i].affine.thread;
	return count;
}

pid_t session_follower(const struct overlay *ov)
{
	const struct reader *follower = ov->threads->follower;

	return follower ? follower->affine.thread : 0;
}

int session_event_fd(const struct overlay *ov)
{
	return ov->threads->event_fd;
}

void session_poke(struct overlay *ov)
{
	const uint64_t one = 1;
	ssize_t n = write(ov->threads->event_fd, &one, sizeof(one));

	(void)n; /* a full counter is readable all the same */
}

bool session_has_ended(const struct overlay *ov)
{
	return atomic_load(&ov->threads->ended);
}

void session_close(struct overlay *ov)
{
	for (unsigned i = 0; i < ov->threads->count; i++)
		pthread_join(ov->threads->ids[i], NULL);
	for (unsigned i = ov->threads->device_count; i < ov->threads->count; i++) {
		fuse_session_destroy(ov->threads->readers[i].session);
		ring_close(ov->threads->readers[i].ring);
	}
	fuse_session_destroy(ov->session);
	ov->session = NULL;
	close(ov->threads->event_fd);
	free(ov->threads);
	ov->threads = NULL;
}

int session_resend(struct overlay *ov)
{
	char notification[64];
	size_t len = request_resend(notification);

	return write(ov->device_fd, notification, len) < 0 ? -errno : 0;
}

bool session_knows(struct overlay *ov, uint64_t node_id)
{
	return fuse_lowlevel_notify_inval_inode(ov->session, node_id, -1, 0) != -ENOENT;
}

void overlay_invalidate(struct overlay *ov, uint64_t node_id)
{
	/* Attributes and ACL only; -ENOENT: not cached. */
	fuse_lowlevel_notify_inval_inode(ov->session, node_id, -1, 0);
}

void overlay_invalidate_listing(struct overlay *ov, uint64_t node_id)
{
	if (listing_may_keep(ov))
		fuse_lowlevel_notify_inval_inode(ov->session, node_id, 0, 0);
}

bool overlay_ask_to_forget(struct overlay *ov, const uint64_t *nodes, unsigned count)
{
	char bytes[REQUEST_PRUNE_BYTES(ASKED_MAX)];

	for (unsigned asked = 0; asked < count; asked += ASKED_MAX) {
		unsigned n = count - asked < ASKED_MAX ? count - asked : ASKED_MAX;
		size_t len = request_prune(nodes + asked, n, bytes);

		if (write(ov->device_fd, bytes, len) >= 0 || errno == ENOMEM)
			continue;
		if (errno != ENODEV && errno != ENOTCONN)
			log_line(LOG_WARNING, "forget",
				 "the kernel cannot be asked to forget files: %m");
		return false;
	}
	return true;
}

void overlay_note_idle(struct overlay *ov)
{
	if (atomic_load(&ov->shared.header->state) == OVERLAY_CONVERGED)
		session_poke(ov);
}

void overlay_invalidate_names(struct overlay *ov)
{
	/* Kernels before 6.16 do not know it: there the names time out. */
	fuse_lowlevel_notify_increment_epoch(ov->session);
}
