/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_SCHEDULING_H
#define FS_BASE_SCHEDULING_H

/*
 * scheduling: what a thread asks of the scheduler for itself. The C library has no sched_setattr(2), and its header and the
 * kernel's exclude each other.
 */

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct sched_attr, in its first size. */
struct scheduling {
	uint32_t size, policy; /* sizeof(struct scheduling) */
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	/* Without a deadline: 0.1 to 100 ms; 0: as long as others'. Linux 6.12; ignored before that. */
	uint64_t slice_ns, deadline_ns, period_ns;
};

/* scheduling_set: of the calling thread. 0 or -errno. */
static inline int scheduling_set(const struct scheduling *s)
{
	return syscall(SYS_sched_setattr, 0, s, 0) < 0 ? -errno : 0;
}

/* scheduling_processors: how many the calling thread may run on; 1 where that is not known. */
static inline unsigned scheduling_processors(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

#endif
