/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_WATCHDOG_H
#define FS_WATCHDOG_H

/*
 * watchdog: whether the server hangs: requests wait, none is answered, and it is not the lower file
 * system that it waits for. One that is stopped hangs, whatever is to be seen of requests.
 *
 * Looks at the device (readable: a request that nobody has taken; so the connection's "waiting" in
 * fusectl, which is often not mounted, is not needed), at the ledger, and at what the server's threads are
 * doing (/proc). A server that waits for a disk, a network
 * or a file system below hangs with these: to kill it would help nobody. For the keeper; blocks never.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/shared.h"

struct watchdog {
	uint32_t limit_ms; /* 0: off */
	int device_fd;	   /* borrowed */
	uint64_t answered; /* when it was last looked at */
	int64_t since_ms;  /* when it last changed, or the server was idle and not stopped */
};

void watchdog_init(struct watchdog *w, uint32_t limit_ms, int device_fd);

/* watchdog_reset: another server, from now on. */
void watchdog_reset(struct watchdog *w, int64_t now_ms);

/* watchdog_pause_ms: after which time to look again; -1: never. */
int64_t watchdog_pause_ms(const struct watchdog *w);

/* watchdog_barks: whether the server @pid must be replaced. */
bool watchdog_barks(struct watchdog *w, const struct shared *shared, pid_t pid, int64_t now_ms);

/* watchdog_waits: whether requests have been waiting since the last look, without an answer to any; after watchdog_barks(). */
bool watchdog_waits(const struct watchdog *w, int64_t now_ms);

#endif
