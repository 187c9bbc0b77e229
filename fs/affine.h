/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_AFFINE_H
#define FS_AFFINE_H

/*
 * affine: a thread that serves on the processor of the one who asks.
 *
 * Who asks sleeps until he has his answer, so the two can have one processor by turns, and the kernel goes from one to the other in
 * a few microseconds. It does not know that, and wakes each where it finds a processor idle: then each request and each answer
 * wakes a processor that sleeps, which takes longer than most requests take. So while one thread asks for one thing after the
 * other, the thread of ours that reads these requests
 *
 * - binds itself to the processor on which he was last (/proc/TID/stat), and follows him when he turns out to be on another;
 * - answers him as a thread of SCHED_IDLE: where nothing but those run the scheduler takes a processor for idle (sched_idle_cpu() in
 *   select_idle_sibling() of Linux), and leaves him there whom the answer wakes;
 * - stays one for the next requests, for to come back and to go again takes as long as the rest of a short request.
 *
 * A thread of SCHED_IDLE runs when he sleeps again, who was answered, or when he has had 340 times as long as it (the weights
 * of the scheduler). Whoever has to be served meanwhile has the other threads (turn.h). But a third one on that processor comes
 * before a request as well, and before who waits for a lock of ours. So it is to be what it was before
 *
 * - and free for AFFINE_FREE_MS, when it has waited for the processor longer than the caller had it, by half the time and more
 *   (its schedstat and his);
 * - when a request takes long: another thread raises it in the middle of it;
 * - as soon as it runs after an answer, where threads of ours work beside who asks.
 *
 * libfuse writes an answer with writev(3), and cannot be told of another function, but where it was built with "custom io". So
 * affine.c has one of that name, which takes the C library's place in this program: all but a bound thread's go on as they were.
 *
 * To come back from SCHED_IDLE takes CAP_SYS_NICE, or a limit of RLIMIT_NICE that hardly anybody has. Where there is neither, as in
 * user namespaces, one thread more, the follower, is of SCHED_IDLE for good, and does nothing but serve a caller where he is:
 * the others, scouts, find out whom, and hand him over (turn.h). What is else to be what it was is freed there: it may run on
 * any processor, and where all are busy its share is small; so it is to serve nothing that takes long, and nothing beside a walk.
 *
 * Of one thread, but for affine_raise() and affine_wants_caller(); no locks.
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* So often a bound thread looks who had the processor: what the system does now and then, for less than a ms, is to be small. */
	AFFINE_LOOK_MS = 20,
	AFFINE_FREE_MS = 1000,
	/* So many requests in a row of one thread, before it is followed. */
	AFFINE_REQUESTS = 8,
	/* A bound thread waits so long for the next one, before it is free again. */
	AFFINE_WAIT_MS = 2,
	/*
	 * When nothing comes after so many answers until we look, he is looked for; twice as many from then on while he was on our
	 * processor all the same, up to the most.
	 */
	AFFINE_LATE = 2,
	AFFINE_LATE_MAX = 256,
};

/* Of the time until at_ns. */
struct affine_shares {
	uint64_t at_ns;	    /* 0: not known */
	uint64_t waited_ns; /* we, while others ran where we were to run */
	uint64_t caller_ns; /* he ran */
};

enum affine_use {
	AFFINE_NONE,
	AFFINE_SELF, /* a thread that comes back */
	AFFINE_SCOUT,
	AFFINE_FOLLOWER,
};

struct affine {
	enum affine_use use;
	int proc_fd; /* not owned */
	pid_t thread;
	void (*answers)(void);
	cpu_set_t
		allowed; /* what the thread was bound to at first; all: nothing but by its cpuset(7) */
	int processor; /* -1: it is not bound */
	pid_t caller;
	bool is_awaited;   /* the last request, by him */
	unsigned in_a_row; /* requests of his */
	unsigned late, late_limit;
	atomic_bool is_idle; /* of SCHED_IDLE */
	atomic_bool is_tied; /* nobody has freed it since it was bound */
	bool is_crowded;
	_Atomic uint64_t free_until_ns;
	struct affine_shares looked;
};

/*
 * affine_is_possible: whether threads like the calling one can come back, which is tried by one.
 * affine_is_followable: whether one like it may be of SCHED_IDLE for good: that anybody can be whom nothing else was asked of.
 */
bool affine_is_possible(void);
bool affine_is_followable(void);

/*
 * affine_init: for the calling thread. @a stays where it is as long as that runs.
 * @use: as those two said
 * @proc_fd: of /proc, as @caller below sees it; kept, not owned
 * @answers: called before a bound thread answers, for what is not to wait until it runs again
 *
 * From then on the thread has an I/O priority of its own: else that is the lowest as long as it is of SCHED_IDLE. a->use is
 * AFFINE_NONE where there is one processor for it.
 */
void affine_init(struct affine *a, enum affine_use use, int proc_fd, void (*answers)(void));

static inline bool affine_is_bound(const struct affine *a)
{
	return a->processor >= 0;
}

/*
 * affine_note: a request was read.
 * @caller: the thread that waits for it; 0: none, or not known
 * @was_there: when it was looked for; else who was answered before it is on another processor, or had something else to do
 * @now_ns: clock_now_ns()
 */
void affine_note(struct affine *a, pid_t caller, bool was_there, uint64_t now_ns);

/*
 * affine_has_caller: of a scout: one has asked so often in a row that he is to be handed over; then affine_handed().
 * affine_wants_caller: of a follower, by any thread: @now_ns is not one of the times when it is free.
 * affine_follow: of a follower that is not bound. When it is not afterwards either, there is nobody to be followed.
 */
bool affine_has_caller(const struct affine *a);
void affine_handed(struct affine *a);
bool affine_wants_caller(const struct affine *a, uint64_t now_ns);
void affine_follow(struct affine *a, pid_t caller, uint64_t now_ns);

/* affine_crowd: before affine_note(): whether threads of ours work beside who asks. */
void affine_crowd(struct affine *a, bool is_crowded);

/*
 * affine_raise: it is what it was, until it answers again; a follower is free, until it looks again. By any thread of the process: a
 * request takes too long.
 */
void affine_raise(struct affine *a);

/* affine_leave: the thread is free, and what it was. */
void affine_leave(struct affine *a);

#endif
