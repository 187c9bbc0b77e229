// SPDX-License-Identifier: Apache-2.0
#include "fs/descriptors.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/request.h"
#include "fs/session.h"
#include "fs/stats.h"

enum {
	SPAN = 256,    /* slots that are looked at with the table locked, some us */
	STEP_MIN = 16, /* of descriptors */
	/* What the kernel forgets is told in some ms. Nothing was let go of for so long: EMFILE; and after so long in any case. */
	ASIDE_MS = 1000,
	ASIDE_MOST_MS = 5000,
	ASIDE_MAX = 4096,
	AGAIN_MS = 20, /* as long as requests wait it is asked again for others */
	/* Of those that the server may have: */
	PART_OTHERS = 4, /* this part is for anything but inodes, */
	OTHERS_MIN = 96, /* and no less than this: some forty are the server's own */
	PART_LATE = 4, /* but this part of it, for who asks by name while the kernel is to forget */
	PART_STEP = 16, /* this part is a step */
};

void descriptors_init(struct descriptors *d)
{
	pthread_mutex_init(&d->lock, NULL);
	clock_cond_init(&d->wanted);
	clock_cond_init(&d->freed);
	d->end = &d->first;
}

/* ---- when to ask ---- */

/* By the limit as it is now: whoever may can change it (prlimit(2)). */
static void look_at_limit(struct overlay *ov)
{
	struct descriptors *d = &ov->descriptors;
	uint32_t n, step, others, most;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	n = limit.rlim_cur < NODE_SLOTS_MAX ? (uint32_t)limit.rlim_cur : NODE_SLOTS_MAX;
	step = n / PART_STEP;
	atomic_store(&d->step, step > STEP_MIN ? step : STEP_MIN);
	others = n / PART_OTHERS > OTHERS_MIN ? n / PART_OTHERS : OTHERS_MIN;
	most = n > others + STEP_MIN ? n - others : STEP_MIN;
	atomic_store(&d->most, most);
	node_limit_pinned(ov->nodes, most + others / PART_LATE);
}

static uint32_t mark_after(const struct descriptors *d, uint32_t pinned)
{
	uint32_t most = atomic_load(&d->most), next = pinned + atomic_load(&d->step);

	return next > most ? next : most;
}

/* Lock held. */
static void want(struct descriptors *d)
{
	d->is_wanted = true;
	pthread_cond_signal(&d->wanted);
}

void descriptors_note(struct overlay *ov, uint32_t opcode)
{
	struct descriptors *d = &ov->descriptors;
	uint32_t mark = atomic_load(&d->mark), pinned, next;

	if (mark == 0)
		return;
	if (request_is_forget(opcode) || opcode == FUSE_RELEASE)
		descriptors_note_freed(d);
	pinned = node_pinned(ov->nodes);
	next = mark_after(d, pinned);
	if (pinned >= mark) {
		pthread_mutex_lock(&d->lock);
		want(d);
		pthread_mutex_unlock(&d->lock);
	} else if (next < mark) {
		/* The kernel has forgotten some. Unless it has just been asked again. */
		atomic_compare_exchange_strong(&d->mark, &mark, next);
	}
}

bool descriptors_are_short(const struct overlay *ov)
{
	const struct descriptors *d = &ov->descriptors;

	return descriptors_are_kept(d) && node_pinned(ov->nodes) >= atomic_load(&d->most);
}

void descriptors_note_freed(struct descriptors *d)
{
	if (!descriptors_are_kept(d))
		return;
	atomic_store(&d->freed_ms, clock_now_ms());
	atomic_store(&d->is_freed, true);
	if (atomic_load(&d->waiting) == 0)
		return;
	pthread_mutex_lock(&d->lock);
	d->freed_count++;
	pthread_cond_broadcast(&d->freed);
	pthread_mutex_unlock(&d->lock);
}

/* ---- requests without one ---- */

/* The caller's: answered, and freed. */
static void refuse(struct overlay *ov, struct descriptors_request *list)
{
	while (list) {
		struct descriptors_request *next = list->next;
		const char *name;
		uint32_t opcode = 0;

		request_opcode(list->bytes, list->len, &opcode);
		name = stats_name(opcode);
		log_line(LOG_WARNING, "descriptors", "%s node=%llu %s", name ? name : "a request",
			 (unsigned long long)request_node(list->bytes, list->len),
			 strerror(EMFILE));
		session_answer_error(ov, list->bytes, list->len, EMFILE);
		free(list);
		list = next;
	}
}

/* When a request that was begun then is answered EMFILE, as things are. */
static uint64_t late_ms(const struct descriptors *d, uint64_t began_ms)
{
	uint64_t freed = atomic_load(&d->freed_ms);
	uint64_t late = (freed > began_ms ? freed : began_ms) + ASIDE_MS;

	return late < began_ms + ASIDE_MOST_MS ? late : began_ms + ASIDE_MOST_MS;
}

void descriptors_lay_aside(struct overlay *ov, const void *bytes, size_t len, uint64_t began_ms)
{
	struct descriptors *d = &ov->descriptors;
	struct descriptors_request *request = malloc(sizeof(*request) + len);
	bool is_kept;

	if (!request) {
		session_answer_error(ov, bytes, len, EMFILE);
		return;
	}
	request->next = NULL;
	request->began_ms = began_ms ? began_ms : clock_now_ms();
	request->len = len;
	memcpy(request->bytes, bytes, len);
	pthread_mutex_lock(&d->lock);
	is_kept = d->is_running && !d->is_stopping && d->aside < ASIDE_MAX;
	if (is_kept) {
		*d->end = request;
		d->end = &request->next;
		d->aside++;
		want(d);
	}
	pthread_mutex_unlock(&d->lock);
	if (!is_kept)
		refuse(ov, request);
}

/* Lock held. */
static struct descriptors_request *take_all(struct descriptors *d)
{
	struct descriptors_request *list = d->first;

	d->first = NULL;
	d->end = &d->first;
	d->aside = 0;
	return list;
}

struct descriptors_request *descriptors_take(struct descriptors *d)
{
	struct descriptors_request *list;

	if (!descriptors_are_awaited(d) || !atomic_exchange(&d->is_freed, false))
		return NULL;
	pthread_mutex_lock(&d->lock);
	list = take_all(d);
	pthread_mutex_unlock(&d->lock);
	return list;
}

/* Those that have waited long enough. Lock held. */
static struct descriptors_request *take_late(struct descriptors *d, uint64_t now_ms)
{
	struct descriptors_request *list = NULL, **place = &d->first;

	while (*place) {
		struct descriptors_request *request = *place;

		if (late_ms(d, request->began_ms) > now_ms) {
			place = &request->next;
			continue;
		}
		*place = request->next;
		request->next = list;
		list = request;
		d->aside--;
	}
	d->end = place;
	return list;
}

bool descriptors_wait(struct descriptors *d, uint64_t *io_began_ms)
{
	uint64_t now = clock_now_ms(), late;
	struct timespec until;
	unsigned before;
	bool is_freed;

	if (*io_began_ms == 0)
		*io_began_ms = now;
	late = late_ms(d, *io_began_ms);
	if (late <= now)
		return false;
	until = clock_until(late - now);
	pthread_mutex_lock(&d->lock);
	d->waiting++;
	want(d);
	before = d->freed_count;
	while (d->freed_count == before && d->is_running && !d->is_stopping &&
	       pthread_cond_timedwait(&d->freed, &d->lock, &until) != ETIMEDOUT)
		;
	is_freed = d->freed_count != before;
	d->waiting--;
	pthread_mutex_unlock(&d->lock);
	return is_freed;
}

/* ---- the thread ---- */

/* Returns whether the kernel may be asked again. */
static bool ask(struct overlay *ov)
{
	struct descriptors *d = &ov->descriptors;
	uint32_t wanted, chosen = 0, slots = node_slots(ov->nodes);
	bool may_ask = true;

	look_at_limit(ov);
	/* Not again for the same: what it forgets is told later, and may be none of them. */
	atomic_store(&d->mark, mark_after(d, node_pinned(ov->nodes)));
	wanted = 2 * atomic_load(&d->step);
	for (uint32_t looked = 0; may_ask && chosen < wanted && looked < slots; looked += SPAN) {
		uint64_t ids[SPAN];
		unsigned count = node_choose_pinned(ov->nodes, &d->slot, SPAN, ids);

		may_ask = overlay_ask_to_forget(ov, ids, count);
		chosen += count;
	}
	return may_ask;
}

/* Waits until it is to ask, or requests have waited long enough, which are the caller's. Returns whether it is to go on. */
static bool wait_for_work(struct descriptors *d, bool *ret_is_wanted,
			  struct descriptors_request **ret_late)
{
	bool goes_on;

	pthread_mutex_lock(&d->lock);
	while (!(*ret_late = take_late(d, clock_now_ms())) && !d->is_wanted && !d->is_stopping) {
		const struct timespec until = clock_until(AGAIN_MS);

		if (d->aside == 0 && d->waiting == 0)
			pthread_cond_wait(&d->wanted, &d->lock);
		/* What it was asked for it may have in use. */
		else if (pthread_cond_timedwait(&d->wanted, &d->lock, &until) == ETIMEDOUT)
			d->is_wanted = true;
	}
	goes_on = !d->is_stopping;
	*ret_is_wanted = d->is_wanted;
	d->is_wanted = false;
	pthread_mutex_unlock(&d->lock);
	return goes_on;
}

static void *ask_kernel(void *argument)
{
	struct overlay *ov = argument;
	struct descriptors *d = &ov->descriptors;
	struct descriptors_request *late;
	bool may_ask = true, is_wanted;

	while (may_ask && wait_for_work(d, &is_wanted, &late)) {
		refuse(ov, late);
		may_ask = !is_wanted || ask(ov);
	}
	atomic_store(&d->mark, 0);
	node_limit_pinned(ov->nodes, UINT32_MAX);
	pthread_mutex_lock(&d->lock);
	d->is_stopping = true;
	late = take_all(d);
	pthread_cond_broadcast(&d->freed);
	pthread_mutex_unlock(&d->lock);
	refuse(ov, late);
	return NULL;
}

int descriptors_start(struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;
	struct descriptors *d = &ov->descriptors;
	int r;

	if (ov->tree.has_handles || !request_can_prune(h->init_request, h->init_request_len))
		return 0;
	look_at_limit(ov);
	atomic_store(&d->mark, mark_after(d, 0));
	pthread_mutex_lock(&d->lock);
	d->is_stopping = d->is_wanted = false;
	r = pthread_create(&d->thread, NULL, ask_kernel, ov);
	d->is_running = r == 0;
	pthread_mutex_unlock(&d->lock);
	return -r;
}

void descriptors_stop(struct descriptors *d)
{
	bool was_running;

	pthread_mutex_lock(&d->lock);
	was_running = d->is_running;
	d->is_running = false;
	d->is_stopping = true;
	pthread_cond_signal(&d->wanted);
	pthread_mutex_unlock(&d->lock);
	if (was_running)
		pthread_join(d->thread, NULL);
}
