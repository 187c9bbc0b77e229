// SPDX-License-Identifier: Apache-2.0
#include "fs/affine.h"

#include <errno.h>
#include <linux/fuse.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/base/scheduling.h"
#include "fs/base/thread_stat.h"

/* That part of the time is too long. */
enum { SHARE_LIMIT = 2 };

static const uint64_t MS_NS = 1000000;

/*
 * Of a follower, as short as the kernel lets it be: where there is always somebody else its turn comes once in 340 times as long
 * (the weights of the scheduler), and with the usual ms that would be a second.
 */
enum { SLICE_NS = 100000 };

/* Of the calling thread, or NULL. */
static __thread struct affine *own;

/* @thread: 0 is the calling one. */
static int make(pid_t thread, int policy)
{
	const struct sched_param none = { 0 };

	return sched_setscheduler(thread, policy, &none) < 0 ? -errno : 0;
}

static void *go_and_come_back(void *ret_possible)
{
	*(bool *)ret_possible = make(0, SCHED_IDLE) == 0 && make(0, SCHED_OTHER) == 0;
	return NULL;
}

bool affine_is_possible(void)
{
	bool possible = false;
	pthread_t thread;

	if (sched_getscheduler(0) != SCHED_OTHER ||
	    pthread_create(&thread, NULL, go_and_come_back, &possible) != 0)
		return false;
	pthread_join(thread, NULL);
	return possible;
}

bool affine_is_followable(void)
{
	return sched_getscheduler(0) == SCHED_OTHER;
}

/* Of the calling thread: by itself or who started it, not by its cpuset, which may change. */
static bool is_restricted(const cpu_set_t *found, cpu_set_t *ret_all)
{
	cpu_set_t most;

	memset(ret_all, 0xff, sizeof(*ret_all));
	return sched_setaffinity(0, sizeof(*ret_all), ret_all) < 0 ||
	       sched_getaffinity(0, sizeof(most), &most) < 0 || !CPU_EQUAL(found, &most);
}

/* What the kernel derives from the policy while nobody has said anything (task_nice_ioclass() of Linux), said. */
static void keep_io_priority(void)
{
	long priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);

	if (priority < 0 || IOPRIO_PRIO_CLASS(priority) == IOPRIO_CLASS_NONE)
		priority = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, IOPRIO_BE_NORM);
	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) < 0)
		log_line(LOG_WARNING, "affine", "I/O priority of a thread: %m");
}

/* For good. Kernels before 6.12 have no slices of a thread's own. */
static void become_follower(struct affine *a)
{
	struct scheduling own_slice = { .size = sizeof(own_slice),
					.policy = SCHED_OTHER,
					.slice_ns = SLICE_NS };
	int r;

	(void)scheduling_set(&own_slice);
	r = make(0, SCHED_IDLE);
	atomic_store(&a->is_idle, r == 0);
	if (r < 0)
		a->use = AFFINE_NONE;
}

void affine_init(struct affine *a, enum affine_use use, int proc_fd, void (*answers)(void))
{
	cpu_set_t found;

	*a = (struct affine){
		.proc_fd = proc_fd, .thread = gettid(), .answers = answers, .processor = -1
	};
	own = a;
	if (use == AFFINE_NONE || sched_getaffinity(0, sizeof(found), &found) < 0 ||
	    CPU_COUNT(&found) < 2)
		return;
	a->use = use;
	keep_io_priority();
	if (is_restricted(&found, &a->allowed)) {
		a->allowed = found;
		if (sched_setaffinity(0, sizeof(found), &found) < 0)
			a->use = AFFINE_NONE;
	}
	if (a->use == AFFINE_FOLLOWER)
		become_follower(a);
}

static void bind_to(struct affine *a, int processor)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0) {
		affine_leave(a);
		return;
	}
	a->processor = processor;
	atomic_store(&a->is_tied, true);
}

/* Whether somebody else than the caller had our processor for too long since we looked last. */
static bool is_shared(struct affine *a, uint64_t now_ns)
{
	struct affine_shares before = a->looked, now = { .at_ns = now_ns };
	uint64_t waited_ns, caller_ns, unused_ns;

	if (thread_stat_times(a->proc_fd, a->thread, &unused_ns, &now.waited_ns) < 0 ||
	    thread_stat_times(a->proc_fd, a->caller, &now.caller_ns, &unused_ns) < 0)
		return true;
	a->looked = now;
	waited_ns = now.waited_ns - before.waited_ns;
	caller_ns = now.caller_ns - before.caller_ns;
	return before.at_ns != 0 && waited_ns > caller_ns &&
	       (waited_ns - caller_ns) * SHARE_LIMIT > now_ns - before.at_ns;
}

/* Refused only where it may not run anywhere any more that it was allowed to: then the kernel has freed it. */
static void untie(struct affine *a)
{
	if (atomic_exchange(&a->is_tied, false))
		(void)sched_setaffinity(a == own ? 0 : a->thread, sizeof(a->allowed), &a->allowed);
}

void affine_raise(struct affine *a)
{
	int r;

	if (a->use == AFFINE_FOLLOWER) {
		untie(a);
		return;
	}
	if (!atomic_exchange(&a->is_idle, false))
		return;
	r = make(a->thread, SCHED_OTHER);
	if (r < 0)
		log_line(LOG_ERROR, "affine", "a thread stays of SCHED_IDLE: %s", strerror(-r));
}

void affine_leave(struct affine *a)
{
	affine_raise(a);
	untie(a);
	a->processor = -1;
	a->looked.at_ns = 0;
}

static void follow(struct affine *a)
{
	struct thread_stat caller;
	int r = thread_stat_get(a->proc_fd, a->caller, &caller);

	a->late = a->in_a_row = 0;
	if (r < 0 || !CPU_ISSET(caller.processor, &a->allowed)) {
		affine_leave(a);
	} else if (caller.processor == a->processor) {
		a->late_limit =
			a->late_limit < AFFINE_LATE_MAX ? a->late_limit * 2 : AFFINE_LATE_MAX;
	} else {
		a->late_limit = AFFINE_LATE;
		bind_to(a, caller.processor);
	}
}

static void be_free(struct affine *a, uint64_t now_ns)
{
	affine_leave(a);
	a->in_a_row = 0;
	atomic_store(&a->free_until_ns, now_ns + AFFINE_FREE_MS * MS_NS);
}

/* Of a bound thread. Who raised it while it went to answer may have come after that: it goes again. */
static void look(struct affine *a, uint64_t now_ns)
{
	if (now_ns - a->looked.at_ns < AFFINE_LOOK_MS * MS_NS)
		return;
	if (a->use == AFFINE_SELF)
		affine_raise(a);
	else if (!atomic_load(&a->is_tied))
		bind_to(a, a->processor);
	if (is_shared(a, now_ns))
		be_free(a, now_ns);
}

void affine_crowd(struct affine *a, bool is_crowded)
{
	a->is_crowded = is_crowded;
	if (is_crowded)
		affine_raise(a);
}

void affine_note(struct affine *a, pid_t caller, bool was_there, uint64_t now_ns)
{
	if (a->is_awaited && !was_there)
		a->late++;
	a->is_awaited = caller != 0;
	if (a->use == AFFINE_NONE || caller == 0)
		return;
	if (caller != a->caller) {
		affine_leave(a);
		a->caller = caller;
		a->in_a_row = 0;
	}
	a->in_a_row++;
	if (a->use == AFFINE_FOLLOWER && a->is_crowded)
		affine_leave(a);
	if (affine_is_bound(a) ? a->late >= a->late_limit :
				 a->use == AFFINE_SELF && a->in_a_row >= AFFINE_REQUESTS &&
					 now_ns >= atomic_load(&a->free_until_ns))
		follow(a);
	if (affine_is_bound(a))
		look(a, now_ns);
}

bool affine_has_caller(const struct affine *a)
{
	return a->use == AFFINE_SCOUT && !a->is_crowded && a->in_a_row >= AFFINE_REQUESTS;
}

void affine_handed(struct affine *a)
{
	a->in_a_row = 0;
}

bool affine_wants_caller(const struct affine *a, uint64_t now_ns)
{
	return a->use == AFFINE_FOLLOWER && now_ns >= atomic_load(&a->free_until_ns);
}

void affine_follow(struct affine *a, pid_t caller, uint64_t now_ns)
{
	a->caller = caller;
	a->is_awaited = false;
	follow(a);
	if (!affine_is_bound(a))
		be_free(a, now_ns);
}

/* Of a request; not what is told unasked, in the middle of one. */
static bool is_answer(const struct iovec *iov, int count)
{
	struct fuse_out_header out;

	if (count == 0 || iov[0].iov_len != sizeof(out))
		return false;
	memcpy(&out, iov[0].iov_base, sizeof(out));
	return out.unique != 0;
}

/* Instead of the C library's: affine.h. */
ssize_t writev(int fd, const struct iovec *iov, int count)
{
	ssize_t n;
	int error;

	if (!own || !affine_is_bound(own) || !own->is_awaited || !is_answer(iov, count))
		return syscall(SYS_writev, fd, iov, count);
	own->answers();
	if (!atomic_load(&own->is_idle))
		atomic_store(&own->is_idle, make(0, SCHED_IDLE) == 0);
	n = syscall(SYS_writev, fd, iov, count);
	error = errno;
	if (own->is_crowded)
		affine_raise(own);
	errno = error;
	return n;
}
