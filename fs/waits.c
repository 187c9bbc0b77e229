// SPDX-License-Identifier: Apache-2.0
#include "fs/waits.h"

#include <sys/resource.h>

/* The level goes up with who has waited, and down by one with who has not; waiting is what is above LEVEL_ON. */
enum { LEVEL_UP = 3, LEVEL_ON = 3, LEVEL_MAX = 16 };

void visits_begin(struct visits *ret)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_THREAD, &usage);
	*ret = (struct visits){ .blocks = usage.ru_inblock, .switches = usage.ru_nvcsw };
}

bool visits_end(struct visits *io_visits)
{
	const struct visits v = *io_visits;

	visits_begin(io_visits);
	return !v.has_rested &&
	       (io_visits->blocks != v.blocks || io_visits->switches - v.switches > v.entries + 1);
}

bool waits_note(struct waits *w, bool waited)
{
	unsigned level = atomic_load(&w->level), next;

	do {
		if (!waited && level == 0)
			return false;
		next = waited ? level + LEVEL_UP : level - 1;
		if (next > LEVEL_MAX)
			next = LEVEL_MAX;
	} while (!atomic_compare_exchange_weak(&w->level, &level, next));
	return level <= LEVEL_ON && next > LEVEL_ON;
}

bool waits_are_on(const struct waits *w)
{
	return atomic_load(&w->level) > LEVEL_ON;
}
