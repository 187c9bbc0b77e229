/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_FAILOVER_H
#define FS_FAILOVER_H

/*
 * failover: the keeper's account of its servers' deaths, and what it decides by it.
 *
 *   serving ──death──> serving (another server)
 *      │ hang: killed     └── too many ──> refusing (EIO to everything) ──recover──> serving
 *      └──────────> ending ──death──> serving
 *                     └── cannot be ended ──> stuck ──death──> serving
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	FAILOVER_DEATHS_MAX = 16,
	FAILOVER_DEATHS = 5, /* within the window, and the server is not started again */
	FAILOVER_WINDOW_MS = 60 * 1000,
	FAILOVER_ENDING_MS =
		3000, /* a killed process that is still there then waits in the kernel */
};

struct failover {
	int64_t deaths_ms[FAILOVER_DEATHS_MAX]; /* a ring */
	unsigned deaths;
	unsigned limit; /* of deaths in the window; 0: none */
	bool is_refusing;
	int64_t killed_ms; /* when a server that hangs was killed, or seen to be; 0: none was */
	bool is_stuck;	   /* and it is still there */
};

/* failover_count_death: whether another server may be started. */
static inline bool failover_count_death(struct failover *f, int64_t now_ms)
{
	f->deaths_ms[f->deaths++ % FAILOVER_DEATHS_MAX] = now_ms;
	f->killed_ms = 0;
	f->is_stuck = false;
	if (f->limit == 0 || f->deaths < f->limit)
		return true;
	return now_ms - f->deaths_ms[(f->deaths - f->limit) % FAILOVER_DEATHS_MAX] >
	       FAILOVER_WINDOW_MS;
}

/* failover_reset: whoever asks for another try takes the deaths as explained. */
static inline void failover_reset(struct failover *f)
{
	*f = (struct failover){ .limit = f->limit };
}

/* failover_reason: why nothing is served, or NULL. */
static inline const char *failover_reason(const struct failover *f)
{
	if (f->is_stuck)
		return "server cannot be ended: it waits in the kernel";
	return f->is_refusing ? "server keeps dying" : (const char *)0;
}

#endif
