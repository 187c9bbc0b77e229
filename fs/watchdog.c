// SPDX-License-Identifier: Apache-2.0
#include "fs/watchdog.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "fs/base/parse.h"
#include "fs/base/process.h"

/* A single thread may need this many times longer than all together. */
enum { ONE_THREAD_FACTOR = 3, LOOKS = 4 };

void watchdog_init(struct watchdog *w, uint32_t limit_ms, int device_fd)
{
	*w = (struct watchdog){ .limit_ms = limit_ms, .device_fd = device_fd };
}

void watchdog_reset(struct watchdog *w, int64_t now_ms)
{
	w->since_ms = now_ms;
}

int64_t watchdog_pause_ms(const struct watchdog *w)
{
	return w->limit_ms > 0 ? (int64_t)w->limit_ms / LOOKS + 1 : -1;
}

/* Whether a request waits for somebody to take it. */
static bool has_unread(const struct watchdog *w)
{
	struct pollfd device = { .fd = w->device_fd, .events = POLLIN };

	return poll(&device, 1, 0) == 1 && device.revents & POLLIN;
}

/* Stopped, or waiting for a lock of its own; not: running, or waiting for the lower tree. */
static bool is_stuck(pid_t pid, pid_t tid)
{
	char text[64];

	if (process_is_stopped(pid, tid))
		return true;
	return process_state(pid, tid) == 'S' &&
	       process_read(pid, tid, "syscall", text, sizeof(text)) &&
	       strtol(text, NULL, 10) == SYS_futex;
}

/* The thread with the oldest request, 0 when there is none; *ret_age_ms is the request's. */
static pid_t find_oldest(const struct shared *shared, int64_t *ret_age_ms)
{
	const struct ledger *l = &shared->header->ledger;
	struct timespec now;
	int64_t now_ms;
	pid_t tid = 0;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	*ret_age_ms = -1;
	for (size_t i = 0; i < LEDGER_THREADS_MAX; i++) {
		int64_t since_ms = atomic_load(&l->busy[i].since_ms);

		if (since_ms != 0 && now_ms - since_ms > *ret_age_ms) {
			*ret_age_ms = now_ms - since_ms;
			tid = (pid_t)l->busy[i].tid;
		}
	}
	return tid;
}

bool watchdog_barks(struct watchdog *w, const struct shared *shared, pid_t pid, int64_t now_ms)
{
	uint64_t answered = atomic_load(&shared->header->ledger.answered);
	int64_t age_ms;
	pid_t tid = find_oldest(shared, &age_ms);

	if (w->limit_ms == 0)
		return false;
	/* One that is stopped may have read a request that does not stand in the ledger yet. */
	if ((tid == 0 && !has_unread(w) && !process_is_stopped(pid, pid)) ||
	    answered != w->answered) {
		w->answered = answered;
		w->since_ms = now_ms;
	}
	if (now_ms - w->since_ms >= w->limit_ms)
		return tid == 0 ? process_is_stopped(pid, pid) : is_stuck(pid, tid);
	return tid != 0 && age_ms >= (int64_t)ONE_THREAD_FACTOR * w->limit_ms && is_stuck(pid, tid);
}

bool watchdog_waits(const struct watchdog *w, int64_t now_ms)
{
	return w->limit_ms > 0 && now_ms - w->since_ms >= w->limit_ms / LOOKS;
}
