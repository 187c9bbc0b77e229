/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_KEEPER_PRIVATE_H
#define FS_KEEPER_PRIVATE_H

/*
 * keeper_private: the inside of a keeper, for keeper.c (its start, its loop, the hand-off) and
 * keeper_server.c (its servers: their start, their deaths). Nobody else includes it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/base/version.h"
#include "fs/child.h"
#include "fs/control.h"
#include "fs/failover.h"
#include "fs/handoff.h"
#include "fs/mounting.h"
#include "fs/options.h"
#include "fs/base/selinux.h"
#include "fs/channel.h"
#include "fs/pins.h"
#include "fs/shared.h"
#include "fs/stash.h"
#include "fs/watchdog.h"

/*
 * Another program takes over from the one that serves (keeper_upgrade.c).
 *
 *   NONE ──ask──> STARTING ──prepared──> DRAINING ──drained──> NONE, on trial ──trial over──> NONE
 *                    └── fails ──> NONE      └── cannot now, fails ──> NONE    └── dies ──> the program before
 */
enum upgrade_phase { UPGRADE_NONE, UPGRADE_STARTING, UPGRADE_DRAINING };

struct upgrade {
	enum upgrade_phase phase;
	struct child successor;
	int program_fd;			/* of the successor */
	char version[VERSION_TEXT_MAX]; /* what it says it is */
	int64_t deadline_ms;
	uint32_t drain_number; /* of the last DRAIN, counted over all upgrades */
	uint64_t client;       /* of control.h, who waits for the end of it; 0: nobody */

	struct child leaving;	 /* it has given way, and ends */
	int64_t kill_leaving_ms; /* if it has not ended by then */
	int program_before_fd;	 /* while the new one is on trial; -1: the keeper's own */
	int64_t trial_ends_ms;	 /* 0: none is on trial */
};

struct keeper {
	struct overlay_options options; /* as they apply: a read-only volume is virtual */
	const char *source, *target_path;
	char **arguments;
	int ready_fd;

	struct mount_target target;
	uint64_t attributes;		     /* of the overlay and of the native mount */
	char context[SELINUX_LABEL_MAX + 1]; /* of the overlay; "": none is given */
	bool context_is_foreign;	     /* the native mount would have another */
	uint64_t expected_files;	     /* 0: unknown */
	int server_tree_fd;		     /* detached mount of the lower tree, for the server */
	int spare_tree_fd;  /* what that of another server is made from; -1: there is no failover */
	int native_tree_fd; /* another, to go beneath the overlay; -1: there is no hand-off */
	struct shared shared;
	int device_fd, signal_fd;
	struct child
		server;	  /* or, when none can be kept alive, what refuses requests in its place */
	struct pins pins; /* for the next server */
	struct stash_ends stash;	       /* and where the present one may have laid more */
	int program_fd;			       /* of servers; -1: the keeper's own */
	char server_version[VERSION_TEXT_MAX]; /* of the present one, as it says; printable */
	struct upgrade upgrade;
	struct failover failover;
	struct watchdog watchdog;
	struct overlay_mount overlay;
	uint64_t native_id;
	struct buried buried; /* by hand-offs that failed */
	bool is_mounted, is_ready, is_native;
	int64_t ended_ms; /* when the kernel ended the connection; 0: it has not */
	pid_t detacher;	  /* takes the overlay off its target, for a signal; 0: none */
	int detacher_fd;  /* its pidfd, or -1 */

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

/* keeper_start_server: from the program @program_fd, -1: the keeper's own. 0 or -errno. */
int keeper_start_server(struct keeper *k, int program_fd, struct child *ret_child);

/* keeper_limit_waiting: for a message of a server, @receive_ms; 0: as long as it takes, when one is known to be there. */
void keeper_limit_waiting(int fd, int64_t receive_ms);

/* keeper_send_start: to a server that is prepared: what it begins with. 0 or -errno. */
int keeper_send_start(struct keeper *k, int channel_fd);

/* keeper_note_version: @text, as a server says it is called. */
void keeper_note_version(char ret_version[VERSION_TEXT_MAX], const char *text);

/* keeper_note_ready: the first server serves: whether there can be another. */
void keeper_note_ready(struct keeper *k);

/*
 * keeper_handle_death: after the end of the server process: another is started, if one may be. Returns
 * true when the overlay has ended with it: *ret_status is the exit status.
 */
bool keeper_handle_death(struct keeper *k, int *ret_status);

/* keeper_watch: kills a server that hangs. keeper_watch_pause_ms: when to call it again. */
void keeper_watch(struct keeper *k, int64_t now_ms);
int64_t keeper_watch_pause_ms(const struct keeper *k);

/* keeper_replace_server: another server is started; where none stays alive, what refuses requests. */
void keeper_replace_server(struct keeper *k);

/* keeper_look_for_end: whether the kernel has ended the connection: k->ended_ms. */
bool keeper_look_for_end(struct keeper *k, int64_t now_ms);

/* keeper_watch_end: after the end of the connection: ends a server that does not end; as keeper_watch. */
void keeper_watch_end(struct keeper *k, int64_t now_ms);
int64_t keeper_watch_end_pause_ms(const struct keeper *k);

/* keeper_notify_now: watchers are to hear of a state, not a counter: at once. */
void keeper_notify_now(struct keeper *k);

/* ---- keeper_upgrade.c ---- */

/*
 * keeper_upgrade_begin: the program @program_fd (taken over) is to serve from now on. Returns at once: 0, and
 * @client is answered when it does or cannot, or -errno with a line of text.
 */
int keeper_upgrade_begin(struct keeper *k, int program_fd, uint64_t client, char ret_error[256]);

/* What to poll(2) for, and then to do about it. */
enum { UPGRADE_POLL_SUCCESSOR, UPGRADE_POLL_LEAVING, UPGRADE_POLL_COUNT };
void keeper_upgrade_poll(const struct keeper *k, struct pollfd *ret_fds);
void keeper_upgrade_handle(struct keeper *k, const struct pollfd *fds);

/* keeper_upgrade_time: what is late. keeper_upgrade_due_ms: when to call it; 0: it need not be. */
void keeper_upgrade_time(struct keeper *k, int64_t now_ms);
int64_t keeper_upgrade_due_ms(const struct keeper *k);

/* keeper_upgrade_drained: the server's answer to DRAIN: 0, or why it does not give way. */
void keeper_upgrade_drained(struct keeper *k, uint32_t number, int error);

/*
 * keeper_upgrade_death: the server has died. Returns true when the successor has taken its place. Of a program
 * on trial it is the end: the one before serves again.
 */
bool keeper_upgrade_death(struct keeper *k);
void keeper_upgrade_fini(struct keeper *k);

/*
 * keeper_recover: another try, after the server was given up; of one that serves, the deaths are forgotten.
 * 0, or -EIO: given up again.
 */
int keeper_recover(struct keeper *k);

#endif
