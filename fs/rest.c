// SPDX-License-Identifier: Apache-2.0
#include "fs/rest.h"

#include "fs/base/clock.h"
#include "fs/overlay.h"
#include "fs/request.h"

enum {
	/* Longer than anybody has a name in use who only looks; shorter than anybody waits for a second look to be fast. */
	LOOK_MS = 10,
	/* As long as the kernel believes a name (entry_timeout, where others use the lower tree). */
	CLOSED_MS = 1000,
	IDS_MAX = 2 * REST_MAX,
};

void rest_init(struct rest *rest)
{
	pthread_mutex_init(&rest->lock, NULL);
	clock_cond_init(&rest->changed);
}

/* When the first is due; 0: there is none. */
static uint64_t due_ms(const struct rest_queue *q)
{
	return q->count > 0 ? q->files[q->first].due_ms : 0;
}

/* Returns whether it is the first there. */
static bool put(struct rest_queue *q, uint64_t id, uint64_t due)
{
	unsigned last = (q->first + q->count + REST_MAX - 1) % REST_MAX;

	/* Whoever looks again and again looks at the same. */
	if (q->count == REST_MAX || (q->count > 0 && q->files[last].id == id))
		return false;
	last = (last + 1) % REST_MAX;
	q->files[last].id = id;
	q->files[last].due_ms = due;
	return q->count++ == 0;
}

static unsigned take_due(struct rest_queue *q, uint64_t until_ms, uint64_t *ret_ids)
{
	unsigned count = 0;

	while (q->count > 0 && due_ms(q) <= until_ms) {
		ret_ids[count++] = q->files[q->first].id;
		q->first = (q->first + 1) % REST_MAX;
		q->count--;
	}
	return count;
}

/* Until one is due, or another may be sooner. That somebody lets go of a name has no event. Lock held. */
static void wait_for_due(struct rest *rest, uint64_t now)
{
	uint64_t asked = due_ms(&rest->asked), closed = due_ms(&rest->closed);
	uint64_t due = asked != 0 && (closed == 0 || asked < closed) ? asked : closed;
	struct timespec until;

	if (due == 0) {
		pthread_cond_wait(&rest->changed, &rest->lock);
	} else if (due > now) {
		until = clock_until(due - now);
		pthread_cond_timedwait(&rest->changed, &rest->lock, &until);
	}
}

/* Waits until some are due. Returns how many; 0: it is to end. */
static unsigned collect(struct rest *rest, uint64_t ret_ids[IDS_MAX])
{
	unsigned count = 0;

	pthread_mutex_lock(&rest->lock);
	while (count == 0 && !rest->is_stopping) {
		uint64_t now = clock_now_ms();

		/* With what is due soon after: so there are not many calls. */
		count = take_due(&rest->asked, now + LOOK_MS / 2, ret_ids);
		count += take_due(&rest->closed, now + CLOSED_MS / 10, ret_ids + count);
		if (count == 0)
			wait_for_due(rest, now);
	}
	pthread_mutex_unlock(&rest->lock);
	return count;
}

/* Those that may be asked for, one each. */
static unsigned choose(struct overlay *ov, uint64_t *io_ids, unsigned count)
{
	unsigned chosen = 0;

	for (unsigned i = 0; i < count; i++) {
		if (node_prepare_prune(ov->nodes, io_ids[i]))
			io_ids[chosen++] = io_ids[i];
	}
	return chosen;
}

static void *ask_kernel(void *argument)
{
	struct overlay *ov = argument;
	uint64_t ids[IDS_MAX];
	unsigned count;

	while ((count = collect(&ov->rest, ids)) > 0 &&
	       overlay_ask_to_forget(ov, ids, choose(ov, ids, count)))
		;
	return NULL;
}

int rest_start(struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;
	struct rest *rest = &ov->rest;
	int r;

	if (ov->is_exclusive || !atomic_load(&ov->has_passthrough) ||
	    !request_can_prune(h->init_request, h->init_request_len))
		return 0;
	pthread_mutex_lock(&rest->lock);
	rest->is_stopping = false;
	rest->asked.count = rest->closed.count = 0;
	r = pthread_create(&rest->thread, NULL, ask_kernel, ov);
	rest->is_running = r == 0;
	pthread_mutex_unlock(&rest->lock);
	return -r;
}

static void note(struct rest *rest, struct rest_queue *q, uint64_t id, uint64_t wait_ms)
{
	pthread_mutex_lock(&rest->lock);
	if (rest->is_running && put(q, id, clock_now_ms() + wait_ms))
		pthread_cond_signal(&rest->changed);
	pthread_mutex_unlock(&rest->lock);
}

void rest_ask(struct rest *rest, uint64_t id)
{
	note(rest, &rest->asked, id, LOOK_MS);
}

void rest_note_closed(struct rest *rest, uint64_t id)
{
	note(rest, &rest->closed, id, CLOSED_MS);
}

void rest_stop(struct rest *rest)
{
	bool was_running;

	pthread_mutex_lock(&rest->lock);
	was_running = rest->is_running;
	rest->is_running = false;
	rest->is_stopping = true;
	pthread_cond_signal(&rest->changed);
	pthread_mutex_unlock(&rest->lock);
	if (was_running)
		pthread_join(rest->thread, NULL);
}
