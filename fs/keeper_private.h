/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_KEEPER_PRIVATE_H
#define FS_KEEPER_PRIVATE_H

/*
 * keeper_private: the inside of a keeper, for keeper.c (its start, its loop, the hand-off) and
 * keeper_server.c (its servers: their start, their deaths). Nobody else includes it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/child.h"
#include "fs/control.h"
#include "fs/failover.h"
#include "fs/handoff.h"
#include "fs/mounting.h"
#include "fs/options.h"
#include "fs/channel.h"
#include "fs/pins.h"
#include "fs/shared.h"
#include "fs/watchdog.h"

struct keeper {
	struct overlay_options options; /* as they apply: a read-only volume is virtual */
	const char *source, *target_path;
	char **arguments;
	int ready_fd;

	struct mount_target target;
	uint64_t attributes;	 /* of the overlay and of the native mount */
	uint64_t expected_files; /* 0: unknown */
	int server_tree_fd;	 /* detached mount of the lower tree, for the server */
	int spare_tree_fd;  /* what that of another server is made from; -1: there is no failover */
	int native_tree_fd; /* another, to go beneath the overlay; -1: there is no hand-off */
	struct shared shared;
	int device_fd, signal_fd;
	struct child
		server;	  /* or, when none can be kept alive, what refuses requests in its place */
	struct pins pins; /* for the next server */
	struct failover failover;
	struct watchdog watchdog;
	struct overlay_mount overlay;
	uint64_t native_id;
	struct buried buried; /* by hand-offs that failed */
	bool is_mounted, is_ready, is_native;

	struct control control;
	bool notify_due;
	int64_t notify_at_ms; /* not before */
	int64_t try_at_ms;    /* 0: no try is due */
	int64_t try_pause_ms;
};

int64_t keeper_now_ms(void);

/* keeper_report: the one line to whoever started us; after that to the log. */
void keeper_report(struct keeper *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* keeper_fail, keeper_fail_reason: a failed step of a start: one line; returns the exit status. */
int keeper_fail(struct keeper *k, const char *what, int error);
int keeper_fail_reason(struct keeper *k, const char *reason);

/* keeper_receive: the server's next message; pins are taken in on the way. As channel_receive. */
int keeper_receive(struct keeper *k, struct channel_message *ret_message);

/* keeper_expect: the next message of a start; anything but @expected is the server's failure, and reported. */
int keeper_expect(struct keeper *k, enum channel_kind expected);

/* keeper_tell: a message to the server; when there is none, its successor finds all it needs in the shared memory. */
int keeper_tell(struct keeper *k, enum channel_kind kind, const char *text);

int keeper_start_server(struct keeper *k);

/* keeper_note_ready: the first server serves: whether there can be another. */
void keeper_note_ready(struct keeper *k);

/*
 * keeper_handle_death: after the end of the server process: another is started, if one may be. Returns
 * true when the overlay has ended with it: *ret_status is the exit status.
 */
bool keeper_handle_death(struct keeper *k, int *ret_status);

/* keeper_watch: kills a server that hangs. keeper_watch_pause_ms: when to call it again; -1: never. */
void keeper_watch(struct keeper *k, int64_t now_ms);
int64_t keeper_watch_pause_ms(const struct keeper *k);

/*
 * keeper_recover: another try, after the server was given up; of one that serves, the deaths are forgotten.
 * 0, or -EIO: given up again.
 */
int keeper_recover(struct keeper *k);

#endif
