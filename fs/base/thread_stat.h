/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_THREAD_STAT_H
#define FS_BASE_THREAD_STAT_H

/*
 * thread_stat: what the kernel says of a thread, by /proc/TID/task/TID: what it says of a process adds up all its threads.
 * No state, any thread.
 */

#include <stdint.h>
#include <sys/types.h>

struct thread_stat {
	char state;    /* 'R': it runs, or waits for a processor; 'S': it sleeps ... */
	int processor; /* on which it runs, or ran last */
};

/*
 * Both: @proc_fd is /proc as the number @thread is seen there. Return 0, open()'s and read()'s errors, or -EPROTO.
 *
 * thread_stat_get: (Source: proc_pid_stat(5).)
 * thread_stat_times: how long it has run, and has waited for a processor when it could. (Source: the kernel's
 * scheduler/sched-stats.rst, /proc/PID/schedstat.)
 */
int thread_stat_get(int proc_fd, pid_t thread, struct thread_stat *ret_stat);
int thread_stat_times(int proc_fd, pid_t thread, uint64_t *ret_ran_ns, uint64_t *ret_waited_ns);

#endif
