// SPDX-License-Identifier: Apache-2.0
#include "mountd/usage.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/manager_impl.h"

/* What was counted less than this ago is not counted again for one who asks. */
#define FRESH_MS 2000

/* ioprio_set(2); the C library has no names for it. */
#define IOPRIO_IDLE (3 << 13)
#define IOPRIO_OF_THREAD 1

struct entry {
	struct entry *next;
	char *id;
	struct volume_usage usage;
	uint64_t counted_at_ms;
	bool is_wanted, is_known, is_over, is_seen;
};

struct usages {
	struct manager *m;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t woken;  /* with lock; monotonic clock */
	struct entry *entries; /* guarded by lock; removed by the thread only */
	bool is_stopping;      /* guarded by lock */
};

/* Under the lock. NULL: no memory. */
static struct entry *entry_get(struct usages *u, const char *id)
{
	struct entry *e = u->entries;

	while (e && strcmp(e->id, id) != 0)
		e = e->next;
	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (e)
		e->id = strdup(id);
	if (!e || !e->id) {
		free(e);
		return NULL;
	}
	e->next = u->entries;
	u->entries = e;
	return e;
}

static bool is_counted(const struct volume_record *vol)
{
	const struct volume_plugin *plugin = plugin_find(vol->plugin);

	return plugin && plugin->usage &&
	       ((vol->state >= VOLUME_PRESENTED && vol->state <= VOLUME_NATIVE) ||
		vol->state == VOLUME_VIRTUAL);
}

/* ---- the thread ---- */

/* -ENODATA: it has no limit that would have to be counted. */
static int count(struct usages *u, const char *id, struct volume_usage *ret_usage)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX];
	int r = store_volume_by_id(u->m->store, id, &vol);

	if (r == 0 && !is_counted(vol))
		r = -ENODATA;
	if (r == 0)
		r = work_open(u->m, vol, NULL, false, &work, why);
	if (r < 0)
		return r;
	return work->dir_fd < 0 ? -ENODATA : work->plugin->usage(&work->building.b, ret_usage);
}

/* Takes the result in; *ret_crossed: it went over its limit, or came back. */
static void keep(struct usages *u, const char *id, int r, const struct volume_usage *usage,
		 bool *ret_crossed)
{
	struct entry *e;

	*ret_crossed = false;
	pthread_mutex_lock(&u->lock);
	e = entry_get(u, id);
	if (e) {
		bool is_over = r == 0 && usage->bytes > usage->limit_bytes;

		e->is_wanted = false;
		e->counted_at_ms = clock_now_ms();
		e->is_known = r == 0;
		if (r == 0)
			e->usage = *usage;
		*ret_crossed = r == 0 && is_over != e->is_over;
		e->is_over = is_over;
	}
	pthread_mutex_unlock(&u->lock);
}

static void count_one(struct usages *u, const char *id)
{
	struct volume_usage usage = { 0 };
	bool crossed;
	int r = count(u, id, &usage);

	keep(u, id, r, &usage, &crossed);
	if (crossed)
		event(u->m, id,
		      usage.bytes > usage.limit_bytes ? "size-limit-exceeded" : "size-limit-kept",
		      "%s%llu bytes in %llu entries, of a sizeLimit of %llu",
		      usage.is_cut ? "at least " : "", (unsigned long long)usage.bytes,
		      (unsigned long long)usage.entries, (unsigned long long)usage.limit_bytes);
	else
		manager_changed(u->m);
}

/* Every volume is wanted; what is gone is forgotten. */
static void begin_round(struct usages *u)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(u->m->store, &list);

	pthread_mutex_lock(&u->lock);
	for (struct entry *e = u->entries; e; e = e->next)
		e->is_seen = n < 0;
	for (int i = 0; i < n; i++) {
		struct entry *e = is_counted(list[i]) ? entry_get(u, list[i]->id) : NULL;

		if (e)
			e->is_seen = e->is_wanted = true;
	}
	for (struct entry **p = &u->entries; *p;) {
		struct entry *e = *p;

		if (e->is_seen) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		free(e->id);
		free(e);
	}
	pthread_mutex_unlock(&u->lock);
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
}

/* The next one to count, the caller's to free; NULL: none is wanted, or we stop. */
static char *next_wanted(struct usages *u)
{
	char *id = NULL;

	pthread_mutex_lock(&u->lock);
	for (struct entry *e = u->entries; e && !id && !u->is_stopping; e = e->next) {
		if (e->is_wanted)
			id = strdup(e->id);
	}
	pthread_mutex_unlock(&u->lock);
	return id;
}

static bool any_wanted(const struct usages *u)
{
	for (const struct entry *e = u->entries; e; e = e->next) {
		if (e->is_wanted)
			return true;
	}
	return false;
}

/* Until somebody asks or the next round is due. False: stop. */
static bool await_work(struct usages *u, uint64_t round_at_ms)
{
	struct timespec until = { .tv_sec = (time_t)(round_at_ms / 1000),
				  .tv_nsec = (long)(round_at_ms % 1000) * 1000000 };
	bool go_on;

	pthread_mutex_lock(&u->lock);
	while (!u->is_stopping && !any_wanted(u) && clock_now_ms() < round_at_ms)
		pthread_cond_timedwait(&u->woken, &u->lock, &until);
	go_on = !u->is_stopping;
	pthread_mutex_unlock(&u->lock);
	return go_on;
}

static void *usages_main(void *arg)
{
	struct usages *u = arg;
	uint64_t round_at_ms = clock_now_ms() + USAGE_EVERY_MS;

	/* Ours alone: id 0 is the calling thread. Counting must hold nobody up. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
	syscall(SYS_ioprio_set, IOPRIO_OF_THREAD, 0, IOPRIO_IDLE);
	while (await_work(u, round_at_ms)) {
		char *id;

		if (clock_now_ms() >= round_at_ms) {
			begin_round(u);
			round_at_ms = clock_now_ms() + USAGE_EVERY_MS;
		}
		while ((id = next_wanted(u)) != NULL) {
			count_one(u, id);
			free(id);
		}
	}
	return NULL;
}

/* ---- for others ---- */

int usages_new(struct manager *m, struct usages **ret_usages)
{
	struct usages *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	u->m = m;
	pthread_mutex_init(&u->lock, NULL);
	clock_cond_init(&u->woken);
	r = -pthread_create(&u->thread, NULL, usages_main, u);
	if (r < 0) {
		pthread_cond_destroy(&u->woken);
		pthread_mutex_destroy(&u->lock);
		free(u);
		return r;
	}
	*ret_usages = u;
	return 0;
}

void usages_free(struct usages *u)
{
	if (!u)
		return;
	pthread_mutex_lock(&u->lock);
	u->is_stopping = true;
	pthread_cond_signal(&u->woken);
	pthread_mutex_unlock(&u->lock);
	pthread_join(u->thread, NULL);
	while (u->entries) {
		struct entry *e = u->entries;

		u->entries = e->next;
		free(e->id);
		free(e);
	}
	pthread_cond_destroy(&u->woken);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

json_t *usages_json(struct usages *u, const struct volume_record *vol)
{
	json_t *object = NULL;
	struct entry *e;

	if (!is_counted(vol))
		return json_null();
	pthread_mutex_lock(&u->lock);
	e = entry_get(u, vol->id);
	if (e && !e->is_wanted &&
	    (e->counted_at_ms == 0 || clock_now_ms() - e->counted_at_ms > FRESH_MS)) {
		e->is_wanted = true;
		pthread_cond_signal(&u->woken);
	}
	if (e && e->is_known)
		object = json_pack("{s:I, s:I, s:I, s:b}", "bytes", (json_int_t)e->usage.bytes,
				   "limitBytes", (json_int_t)e->usage.limit_bytes, "entries",
				   (json_int_t)e->usage.entries, "complete", !e->usage.is_cut);
	pthread_mutex_unlock(&u->lock);
	return object ? object : json_null();
}
