/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_OVERLAY_STATUS_H
#define MOUNTD_OVERLAY_STATUS_H

/*
 * overlay_status: what a keeper says of its overlay, read from its message (fs/base/keyval.h).
 *
 * The keeper is ours, but its server reads hostile trees: every field is checked, and texts are kept
 * printable. Pure: no state, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

#define OVERLAY_TEXT_MAX 256
#define OVERLAY_RUN_SIZE 33
#define OVERLAY_EPOCH_SIZE 48
#define OVERLAY_VERSION_SIZE 64
#define OVERLAY_REQUESTS_SIZE 2048

struct overlay_status {
	enum volume_state state;	/* presented, converging, converged, native or virtual */
	char reason[OVERLAY_TEXT_MAX];	/* "": none */
	char run[OVERLAY_RUN_SIZE];	/* "": none */
	char epoch[OVERLAY_EPOCH_SIZE]; /* "": not known yet */
	struct run_counters counters;
	uint64_t total; /* entries; 0: unknown */
	uint64_t rate;	/* files a second */
	uint64_t converge_rate;
	bool paused;
	pid_t keeper_pid, server_pid;
	char keeper_version[OVERLAY_VERSION_SIZE], server_version[OVERLAY_VERSION_SIZE];
	/*
	 * Not of the message: which version died while it was on trial, so that the one before serves again. Told once.
	 */
	char fell_back_from[OVERLAY_VERSION_SIZE];
	uint64_t
		number; /* of the message, in the keeper's order; 0: from before there were numbers */
	uint64_t protocol; /* of the keeper (fs/control.h); 0: from before there were numbers */
	uint64_t restarts, upgrades;
	char no_failover
		[OVERLAY_TEXT_MAX]; /* why a server's death ends the mount; "": another one follows */
	bool passthrough, over_ring; /* its data; its requests, over io_uring */
	uint64_t mount_id;	     /* unique id of what is at the target */
	bool held;		     /* after the hand-off: the detached overlay still has users */
	bool is_stuck; /* its server was killed and does not end: it waits in the kernel */
	uint64_t failures_total;
	char requests
		[OVERLAY_REQUESTS_SIZE]; /* "LOOKUP:12 GETATTR:3": of the kernel, by kind; "": none */
};

/*
 * overlay_status_parse: the fields of a "status" message; what is absent is zero.
 * Returns 0, or -EBADMSG: another verb, no or an unknown state, or a number that is none.
 */
int overlay_status_parse(const char *message, struct overlay_status *ret_status);

/*
 * overlay_status_failures: the failures listed in a "status" message, at most STORE_FAILURES_MAX.
 * Returns how many; *ret_list is freed by overlay_failures_free(); -EBADMSG, -ENOMEM.
 */
int overlay_status_failures(const char *message, struct failure_record **ret_list);
void overlay_failures_free(struct failure_record *list, size_t count);

/*
 * overlay_status_request: takes the next "NAME:COUNT" off the text of requests, which it changes. False at its end,
 * and where the rest is something else.
 */
bool overlay_status_request(char **io_requests, const char **ret_name, uint64_t *ret_count);

#endif
