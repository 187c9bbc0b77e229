// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <sched.h>

#include "fs/base/clock.h"
#include "fs/ops.h"
#include "fs/request.h"

/* So long it is waited for what others let go of; what was let go of no longer ago may have been the last but one. */
enum { FIND_ROOM_MS = 10, LATELY_MS = 20 };

bool session_forget(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;
	struct request_forget list[FORGETS_BATCH];
	size_t count, all = 0;

	if (forgets_are_none(&threads->forgets))
		return false;
	atomic_fetch_add(&threads->forgetting, 1);
	while ((count = forgets_take(&threads->forgets, list)) > 0) {
		for (size_t i = 0; i < count; i++) {
			ops_forgotten(ov, list[i].node, list[i].lookups);
			/* A caller may have come to this processor: he need not wait for all of it. */
			sched_yield();
		}
		all += count;
	}
	atomic_fetch_sub(&threads->forgetting, 1);
	return all > 0;
}

bool session_forget_later(struct overlay *ov, const void *bytes, size_t len, uint64_t now_ns)
{
	struct server_threads *threads = ov->threads;
	struct request_forget list[FORGETS_BATCH];
	size_t count = request_forgets(bytes, len, list, FORGETS_BATCH);

	if (count == 0 || !forgets_have_room(&threads->forgets, ov->tree.mount_fd, now_ns) ||
	    !forgets_put(&threads->forgets, list, count, now_ns))
		return false;
	turn_call(&threads->turn);
	return true;
}

/* Then a thread may have read of more, and not have come to it: it gets a moment. */
static bool forgot_lately(const struct server_threads *threads)
{
	if (clock_now_ms() > atomic_load(&threads->forgot_ms) + LATELY_MS)
		return false;
	poll(NULL, 0, 1);
	return true;
}

/*
 * What the caller removed before he asked, the kernel has told of by now, but for that it may send other requests first. Other
 * threads see to all that there is, as far as they can: to read here might be to wait for ever. Returns whether there was something.
 */
static bool let_others_forget(struct overlay *ov)
{
	struct server_threads *threads = ov->threads;
	uint64_t until_ns = clock_now_ns() + FIND_ROOM_MS * 1000000;
	bool has_waited = false;

	while ((session_has_request(ov, 0) || atomic_load(&threads->forgetting) > 0) &&
	       clock_now_ns() < until_ns) {
		if (!has_waited)
			turn_end(&threads->turn);
		has_waited = true;
		sched_yield();
	}
	return has_waited;
}

bool session_find_room(struct overlay *ov)
{
	bool has_room = session_forget(ov);

	has_room |= let_others_forget(ov);
	return has_room || forgot_lately(ov->threads);
}
