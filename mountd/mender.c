// SPDX-License-Identifier: Apache-2.0
/*
 * mender: the thread that does what a reconstruction finds to do and what may take long: remounts,
 * interrupted set-ups and tear-downs. At the daemon's start, when a keeper has ended, and when mounts have changed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fs/base/log.h"
#include "mountd/manager_impl.h"

/* A volume whose overlay dies again and again is left for people. */
#define MENDS_MAX 5
#define MENDS_WITHIN_S 60

/* Between two looks at what did not answer. */
#define MEND_AGAIN_S 2

struct mended {
	struct mended *next;
	char id[VOLUME_ID_MAX + 1];
	unsigned count; /* since then */
	time_t since;
};

void mend_wanted(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->mend_due = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void mend_later(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->mend_again = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

/* Those of which nothing is to be remembered any more go, that of @id (may be NULL) too. */
static void forget(struct manager *m, const char *id, time_t now)
{
	struct mended **p = &m->mended;

	while (*p) {
		struct mended *one = *p;

		if (now - one->since <= MENDS_WITHIN_S && (!id || strcmp(one->id, id) != 0)) {
			p = &one->next;
			continue;
		}
		*p = one->next;
		free(one);
	}
}

static struct mended *find(struct manager *m, const char *id)
{
	struct mended *one = m->mended;

	while (one && strcmp(one->id, id) != 0)
		one = one->next;
	if (one)
		return one;
	one = calloc(1, sizeof(*one));
	if (!one)
		return NULL;
	snprintf(one->id, sizeof(one->id), "%s", id);
	one->next = m->mended;
	m->mended = one;
	return one;
}

bool mend_is_allowed(struct manager *m, const char *volume_id)
{
	struct mended *one;
	struct timespec now;
	bool allowed = false;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&m->lock);
	forget(m, NULL, now.tv_sec);
	one = find(m, volume_id);
	if (one && one->count == 0)
		one->since = now.tv_sec;
	if (one)
		allowed = one->count++ < MENDS_MAX;
	pthread_mutex_unlock(&m->lock);
	return allowed;
}

void mend_forget(struct manager *m, const char *volume_id)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&m->lock);
	forget(m, volume_id, now.tv_sec);
	pthread_mutex_unlock(&m->lock);
}

void mended_free(struct manager *m)
{
	while (m->mended) {
		struct mended *next = m->mended->next;

		free(m->mended);
		m->mended = next;
	}
}

void look_wanted(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->look_due = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void look_blocked(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->look_is_blocked = true;
	/* Perhaps it has ended already: nobody would tell us then. */
	if (!m->busy)
		m->look_due = true;
	pthread_mutex_unlock(&m->lock);
}

static void mounts_changed(void *arg)
{
	look_wanted(arg);
}

/* Whether there is something to do; false: we are stopping. */
static bool await_work(struct manager *m, bool *ret_mend)
{
	struct timespec until;
	bool due;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MEND_AGAIN_S;
	pthread_mutex_lock(&m->lock);
	while (!m->mend_due && !m->look_due && !m->stopping) {
		if (!m->mend_again)
			pthread_cond_wait(&m->changed, &m->lock);
		else if (pthread_cond_timedwait(&m->changed, &m->lock, &until) == ETIMEDOUT)
			m->mend_due = true;
	}
	due = !m->stopping;
	*ret_mend = m->mend_due;
	if (m->mend_due)
		m->mend_again = false;
	m->mend_due = m->look_due = false;
	pthread_mutex_unlock(&m->lock);
	return due;
}

static void *mender_main(void *arg)
{
	struct manager *m = arg;
	bool mend;

	while (await_work(m, &mend)) {
		struct answer answer = { 0 };

		if (mend && manager_reconstruct(m, false, &answer) != EXIT_OK)
			log_line(LOG_ERROR, "reconstruct", "%s", answer.error);
		answer_fini(&answer);
		/* Also after that: it leaves volumes out that requests work on. */
		vanished_look(m);
	}
	return NULL;
}

int manager_mend_start(struct manager *m)
{
	sigset_t all, saved;
	int r;

	/* Before the first look, so that nothing is missed after it. */
	r = mount_watch_new(mounts_changed, m, &m->watch);
	if (r < 0)
		log_line(LOG_WARNING, "start", "ignoring that mounts cannot be watched: %s",
			 strerror(-r));
	pthread_mutex_lock(&m->lock);
	m->mend_due = true;
	pthread_mutex_unlock(&m->lock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	r = pthread_create(&m->mender, NULL, mender_main, m);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	m->has_mender = r == 0;
	return -r;
}

void manager_mend_stop(struct manager *m)
{
	if (m->has_mender)
		pthread_join(m->mender, NULL);
	m->has_mender = false;
	mount_watch_free(m->watch);
	m->watch = NULL;
}
