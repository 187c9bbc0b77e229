/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_PROCESS_STATUS_H
#define FS_PROCESS_STATUS_H

/*
 * process_status: /proc/PID/status (proc_pid_status(5)) of the process that made a request.
 *
 * It cannot be another's by now: who waits for our answer does not go away, not even when it is killed. Ids are
 * those of our own user namespace. No state, any thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * process_status_read: all of it; NULL when it cannot be read. To be freed.
 * @proc_fd: of /proc
 * @pid: a thread's id will do; 0 is a process of another pid namespace, which has none here
 */
char *process_status_read(int proc_fd, pid_t pid);

/* process_status_find: what stands behind "@key:", up to the line's end; NULL: there is no such line. */
const char *process_status_find(const char *status, const char *key);

/* process_status_has: whether @id is one of the numbers of that line. */
bool process_status_has(const char *line, uint32_t id);

/* process_status_number: the number at @index of that line, or UINT32_MAX. */
uint32_t process_status_number(const char *line, unsigned index);

#endif
