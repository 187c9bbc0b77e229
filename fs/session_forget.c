// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <sched.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "fs/base/thread_stat.h"
#include "fs/ops.h"
#include "fs/request.h"

/* So long it is waited for what others let go of. */
enum { FIND_ROOM_MS = 10 };

void session_forget(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;
	struct request_forget list[FORGETS_BATCH];
	size_t count;

	if (forgets_are_none(&threads->forgets))
		return;
	atomic_fetch_add(&threads->forgetting, 1);
	while ((count = forgets_take(&threads->forgets, list)) > 0) {
		for (size_t i = 0; i < count; i++) {
			ops_forgotten(ov, list[i].node, list[i].lookups);
			/* A caller may have come to this processor: he need not wait for all of it. */
			sched_yield();
		}
	}
	descriptors_note_freed(&ov->descriptors);
	atomic_fetch_add(&threads->done, 1);
	atomic_fetch_sub(&threads->forgetting, 1);
}

bool session_forget_later(struct overlay *ov, const void *bytes, size_t len, uint64_t now_ns)
{
	struct server_threads *threads = ov->threads;
	struct request_forget list[FORGETS_BATCH];
	size_t count = request_forgets(bytes, len, list, FORGETS_BATCH);

	if (count == 0 || descriptors_are_awaited(&ov->descriptors) ||
	    !forgets_have_room(&threads->forgets, ov->tree.mount_fd, now_ns) ||
	    !forgets_put(&threads->forgets, list, count, now_ns))
		return false;
	turn_call(&threads->turn);
	return true;
}

/* Whether it may be at a request, if only at the end of one that is answered: then it has not closed yet what that needed. */
static bool is_at_work(const struct overlay *ov, const struct reader *r)
{
	struct thread_stat stat;

	return r->affine.thread != gettid() &&
	       thread_stat_get(ov->proc_fd, r->affine.thread, &stat) == 0 && stat.state != 'S';
}

/* Whether something is still to be let go of, or may be. */
static bool is_forgetting(const struct overlay *ov)
{
	struct server_threads *threads = ov->threads;

	/* In this order: what was forgotten is with each of them, one after the other. */
	if (session_has_request(ov, 0))
		return true;
	for (unsigned i = 0; i < threads->device_count; i++)
		if (is_at_work(ov, &threads->readers[i]))
			return true;
	return atomic_load(&threads->forgetting) > 0 || !forgets_are_none(&threads->forgets);
}

/*
 * What the caller removed before he asked, the kernel has told of by now, but for that it may send other requests first. Other
 * threads see to all that there is, as far as they can: to read here might be to wait for ever. Returns whether there was something.
 */
static bool let_others_forget(struct overlay *ov)
{
	uint64_t until_ns = clock_now_ns() + FIND_ROOM_MS * 1000000;
	bool has_waited = false;

	while (is_forgetting(ov) && clock_now_ns() < until_ns) {
		if (!has_waited) {
			turn_end(&ov->threads->turn);
			session_raise(ov->threads);
		}
		has_waited = true;
		session_forget(ov);
		sched_yield();
	}
	return has_waited;
}

bool session_find_room(struct overlay *ov, unsigned done)
{
	bool has_waited = let_others_forget(ov);

	/* What was let go of between when it found no room and now, nobody is at any more. */
	return has_waited || atomic_load(&ov->threads->done) != done;
}
