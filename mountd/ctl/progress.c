// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "mountd/ctl/show.h"

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
	char told[64];		/* what the daemon has told last; "": nothing; guarded by lock */
	double part;		/* and how far that is; below 0: unknown; guarded by lock */
};

/* Of a volume whose walk is on the status says most. */
static bool draw_walk(struct progress *p)
{
	json_t *status = NULL;
	const char *state;
	bool is_walking;

	if (!p->volume ||
	    !ctl_ask_running(p->ctl,
			     json_pack("{s:s, s:s}", "command", "status", "volume", p->volume),
			     &status))
		return false;
	state = json_string_value(json_object_get(status, "state"));
	is_walking = state && strcmp(state, "converging") == 0;
	if (is_walking)
		show_progress(status, &p->terminal, stderr);
	json_decref(status);
	return is_walking;
}

static void draw(struct progress *p, uint64_t began_ms)
{
	char told[sizeof(p->told)];
	double part;

	if (draw_walk(p))
		return;
	pthread_mutex_lock(&p->lock);
	memcpy(told, p->told, sizeof(told));
	part = p->part;
	pthread_mutex_unlock(&p->lock);
	fputs("\r\033[K", stderr);
	if (part >= 0)
		show_bar(part, stderr);
	fprintf(stderr, "%s: %llu s", told[0] ? told : p->what,
		(unsigned long long)((clock_now_ms() - began_ms) / 1000));
	fflush(stderr);
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

	if (!p)
		return NULL;
	p->ctl = ctl;
	p->volume = volume;
	p->what = what;
	p->terminal = terminal;
	p->part = -1;
	pthread_mutex_init(&p->lock, NULL);
	clock_cond_init(&p->changed);
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

/* {"what", "done", "total"} */
static bool hear(void *arg, json_t *frame)
{
	struct progress *p = arg;
	const char *what = json_string_value(json_object_get(frame, "what"));
	double done = json_number_value(json_object_get(frame, "done"));
	double total = json_number_value(json_object_get(frame, "total"));

	pthread_mutex_lock(&p->lock);
	text_show(what ? what : "", p->told, sizeof(p->told));
	p->part = total <= 0 ? -1 : done >= total ? 1 : done / total;
	pthread_mutex_unlock(&p->lock);
	return true;
}

int progress_call(const struct ctl *ctl, const char *subject, json_t *request, bool is_told,
		  json_t **ret_result)
{
	json_t *name = json_incref(json_object_get(request, "volume"));
	struct progress *p = progress_start(ctl, json_string_value(name), ctl->command);
	int exit;

	if (p && is_told && request)
		json_object_set_new(request, "progress", json_true());
	exit = ctl_call(ctl, subject, request, p && is_told ? hear : NULL, p, ret_result);
	progress_stop(p);
	json_decref(name);
	return exit;
}
