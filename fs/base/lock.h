/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_LOCK_H
#define FS_BASE_LOCK_H

/* lock: a kind of mutex that pthread_mutex_init() has no short word for. Any thread. */

#include <pthread.h>

/*
 * lock_init_brief: one that is held for some microseconds at the most: who finds it taken looks for a moment before he
 * sleeps, for to be woken takes longer than that.
 */
static inline void lock_init_brief(pthread_mutex_t *ret_lock)
{
	pthread_mutexattr_t brief;

	pthread_mutexattr_init(&brief);
	pthread_mutexattr_settype(&brief, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(ret_lock, &brief);
	pthread_mutexattr_destroy(&brief);
}

#endif
