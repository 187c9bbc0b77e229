/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_PROCESS_H
#define FS_BASE_PROCESS_H

/* process: what proc(5) says of another process. No state, any thread. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * process_read: the beginning of /proc/@pid/task/@tid/@name, with a NUL after it. False: there is no such thread, or
 * nothing of it is to be read.
 */
bool process_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size);

/* process_state: the letter of a thread's state (T stopped, D waiting in the kernel, Z ended ...); '?': none. */
char process_state(pid_t pid, pid_t tid);

/* process_is_stopped: by a signal, or by whoever traces it. */
bool process_is_stopped(pid_t pid, pid_t tid);

/* process_is_killed: SIGKILL has been sent, and it has not ended yet. */
bool process_is_killed(pid_t pid);

#endif
