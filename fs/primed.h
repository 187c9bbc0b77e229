/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_PRIMED_H
#define FS_PRIMED_H

/*
 * primed: which parts of listings the kernel was told with attributes (READDIRPLUS) a moment ago, where others use the
 * lower tree too. It asks for attributes each time that somebody lists a directory, also when it believes what it has:
 * then names alone are enough, which take a fraction of the time. What it has not got after all it looks up; so when it
 * has forgotten more than a few files it is told again. Thread-safe.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What takes the place of another is told again; memory that no part came to is none. */
enum { PRIMED_MAX = 16384, PRIMED_FORGETS_MAX = 64 };

struct primed {
	pthread_mutex_t lock;
	uint64_t
		kept_ms; /* half the time that the kernel believes a name: as much is left at the least */
	_Atomic uint64_t forgets;
	struct primed_part {
		uint64_t dir; /* node id; 0: none */
		off_t offset;
		uint64_t told_ms, forgets;
	} parts[PRIMED_MAX];
};

/* primed_init: @seconds: how long the kernel believes what it is told. */
void primed_init(struct primed *p, double seconds);

/* primed_note: the part of @dir from @offset on was told, from what was there at @now_ms (clock_now_ms). */
void primed_note(struct primed *p, uint64_t dir, off_t offset, uint64_t now_ms);

/* primed_note_forgets: the kernel has forgotten @count files. */
static inline void primed_note_forgets(struct primed *p, uint64_t count)
{
	atomic_fetch_add_explicit(&p->forgets, count, memory_order_relaxed);
}

/*
 * primed_age_ms: how long ago the first part of @dir was told, which is when its listing began; UINT64_MAX: longer than anybody
 * remembers.
 */
uint64_t primed_age_ms(struct primed *p, uint64_t dir, uint64_t now_ms);

/* primed_is_told: whether that was a moment ago, and the kernel still has most of it. */
bool primed_is_told(struct primed *p, uint64_t dir, off_t offset, uint64_t now_ms);

#endif
