// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "mountd/ctl_show.h"

#define FIRST_MS 1000 /* what is shorter needs no line */
#define NEXT_MS 250

struct progress {
	const struct ctl *ctl;
	const char *volume, *what;
	struct text_terminal terminal;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with lock; monotonic clock */
	bool stopping;		/* guarded by lock */
};

static void draw(struct progress *p, uint64_t began_ms)
{
	json_t *status = NULL;

	if (p->volume &&
	    ctl_ask_running(p->ctl,
			    json_pack("{s:s, s:s}", "command", "status", "volume", p->volume),
			    &status) &&
	    json_is_number(json_object_get(status, "progress"))) {
		show_progress(status, &p->terminal, stderr);
	} else {
		fprintf(stderr, "\r\033[K%s: %llu s", p->what,
			(unsigned long long)((clock_now_ms() - began_ms) / 1000));
		fflush(stderr);
	}
	json_decref(status);
}

/* Whether it is still to go on after @ms. */
static bool pause_ms(struct progress *p, uint64_t ms)
{
	struct timespec until;
	bool stopping;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&p->lock);
	while (!p->stopping && r == 0)
		r = pthread_cond_timedwait(&p->changed, &p->lock, &until);
	stopping = p->stopping;
	pthread_mutex_unlock(&p->lock);
	return !stopping;
}

static void *run(void *arg)
{
	struct progress *p = arg;
	uint64_t began_ms = clock_now_ms();
	bool is_drawn = false;

	for (uint64_t ms = FIRST_MS; pause_ms(p, ms); ms = NEXT_MS) {
		draw(p, began_ms);
		is_drawn = true;
	}
	if (is_drawn) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	return NULL;
}

struct progress *progress_start(const struct ctl *ctl, const char *volume, const char *what)
{
	struct text_terminal terminal = text_terminal(STDERR_FILENO);
	struct progress *p = terminal.is_terminal ? calloc(1, sizeof(*p)) : NULL;
	pthread_condattr_t attr;

	if (!p)
		return NULL;
	p->ctl = ctl;
	p->volume = volume;
	p->what = what;
	p->terminal = terminal;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&p->thread, NULL, run, p) != 0) {
		free(p);
		return NULL;
	}
	return p;
}

void progress_stop(struct progress *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
