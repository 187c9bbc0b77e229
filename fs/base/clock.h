/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_CLOCK_H
#define FS_BASE_CLOCK_H

/* clock: the time that passes, for deadlines and durations: monotonic, not set by anybody. Any thread. */

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ms(void)
{
	return clock_now_ns() / 1000000;
}

#endif
