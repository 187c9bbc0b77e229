/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_RANDOM_H
#define TESTS_DIFFERENTIAL_RANDOM_H

/* random: numbers that follow from a seed alone (splitmix64), so that a seed reproduces a run. */

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* 0 to @limit - 1. */
static inline uint32_t random_below(struct random *r, uint32_t limit)
{
	return (uint32_t)(random_next(r) >> 32) % limit;
}

static inline bool random_percent(struct random *r, uint32_t percent)
{
	return random_below(r, 100) < percent;
}

#define random_pick(r, array) ((array)[random_below((r), sizeof(array) / sizeof((array)[0]))])

#endif
