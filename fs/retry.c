// SPDX-License-Identifier: Apache-2.0
#include "fs/retry.h"

#include <errno.h>
#include <limits.h>

static const uint64_t DELAY_FIRST_MS = 5 * 1000, DELAY_MAX_MS = 3600 * 1000;
static const uint64_t SHARE = 20; /* of the time that passes, one walk's */
static const uint64_t MS = 1000 * 1000;

static bool can_pass(const struct shared_failure *failure)
{
	switch (failure->error) {
	case EPERM:
	case EACCES:
	case EROFS:
	case EINVAL:
	case EOVERFLOW:
	case EOPNOTSUPP:
		return false;
	default:
		return true;
	}
}

bool retry_schedule(struct retry *r, const struct shared_failure *failures, size_t count,
		    uint64_t walk_ms, uint64_t now_ns)
{
	uint64_t share_ms = SHARE * walk_ms;
	bool is_worth_it = false;

	for (size_t i = 0; i < count; i++)
		is_worth_it = is_worth_it || can_pass(&failures[i]);
	if (!is_worth_it) {
		retry_forget(r);
		return false;
	}
	r->delay_ms = r->delay_ms == 0 ? DELAY_FIRST_MS : 2 * r->delay_ms;
	if (r->delay_ms > DELAY_MAX_MS)
		r->delay_ms = DELAY_MAX_MS;
	r->due_ns = now_ns + (r->delay_ms > share_ms ? r->delay_ms : share_ms) * MS;
	return true;
}

void retry_forget(struct retry *r)
{
	*r = (struct retry){ 0 };
}

int retry_timeout_ms(const struct retry *r, uint64_t now_ns)
{
	uint64_t left_ms;

	if (r->due_ns == 0)
		return -1;
	if (r->due_ns <= now_ns)
		return 0;
	/* Rounded up: not a moment too early, again and again. */
	left_ms = (r->due_ns - now_ns + MS - 1) / MS;
	return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

bool retry_take(struct retry *r, uint64_t now_ns)
{
	if (r->due_ns == 0 || now_ns < r->due_ns)
		return false;
	r->due_ns = 0;
	return true;
}
