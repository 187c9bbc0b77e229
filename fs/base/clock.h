/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_CLOCK_H
#define FS_BASE_CLOCK_H

/* clock: the time that passes, for deadlines and durations: monotonic, not set by anybody. Any thread. */

#include <pthread.h>
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

/* clock_until: that time, @ms milliseconds (less than a century) from now, as pthread_cond_timedwait() and its kin want it. */
static inline struct timespec clock_until(uint64_t ms)
{
	uint64_t at_ns = clock_now_ns() + ms * 1000000;

	return (struct timespec){ .tv_sec = (time_t)(at_ns / 1000000000),
				  .tv_nsec = (long)(at_ns % 1000000000) };
}

/* clock_cond_init: a condition that is waited for with such times. */
static inline void clock_cond_init(pthread_cond_t *ret_cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(ret_cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

#endif
