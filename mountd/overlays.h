/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_OVERLAYS_H
#define MOUNTD_OVERLAYS_H

/*
 * overlays: the keepers of this root directory: started, adopted, asked and followed.
 *
 * Knows processes and their control sockets (DIR/run/fsgroupfs/keepers/<id>.sock). Does not know the
 * store or what a state means for a volume: it hands each new status to the follower. A keeper is no
 * child of ours in any way that matters: it outlives us, and the next daemon adopts it.
 *
 * Thread-safe. Each overlay has one watcher thread, which calls the follower; the follower is called
 * with the overlay's own lock held, so that attach, detach and a status are never at the same time.
 * Lock order: overlay, then overlays (list), then nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "mountd/overlay_status.h"

#define OVERLAY_ERROR_MAX 512
#define OVERLAY_READY_MS 30000	 /* a keeper that is not ready by then is given up */
#define OVERLAY_REQUEST_MS 10000 /* an answer on the control socket */
#define OVERLAY_GONE_MS 10000	 /* from the unmount to the keeper's end */
#define OVERLAY_UPGRADE_MS 40000 /* the keeper's own limits are shorter */

#define OVERLAY_PROTOCOL_UPGRADE 2 /* of fs/control.h: since then keepers know how */

struct overlay;
struct overlays;

/* What the follower is told. Calls never overlap for one overlay. */
struct overlay_follower {
	/*
	 * status: a volume of this overlay has a new status. @message: the whole message, for the failures.
	 * Returns whether "finished" is to be sent: the run is durably on record.
	 */
	bool (*status)(void *arg, const char *volume_id, const struct overlay_status *status,
		       const char *message);
	/* gone: the connection has ended: nothing serves the overlay any more. @last: its last status. */
	void (*gone)(void *arg, const char *volume_id, const struct overlay_status *last);
	/* left: an overlay has ended that a volume was attached to still, muted or not; with no lock held. */
	void (*left)(void *arg);
	/* changed: after any of these, with no lock held: wake whoever waits. */
	void (*changed)(void *arg);
	void *arg;
};

/* How a new overlay is to be: the contract's options. Texts are borrowed for the call. */
struct overlay_spec {
	const char *volume_id;
	const char *source, *target; /* texts for mountinfo and messages */
	int lower_fd, parent_fd;
	int journal_fd; /* -1: none (virtual) */
	gid_t gid;
	bool read_only, keep_private, handoff, handoff_in_namespaces, idmap, paused;
	const char *mount_options; /* in which its mount differs from the lower tree's; or NULL */
	const char *policy;
	const char *ownership; /* "converge" | "virtual" */
	char *const *excludes; /* NULL-terminated, or NULL */
	uint64_t converge_rate;
	int64_t cpu_latency_us; /* -1: unset */
	uint64_t total; /* entries expected, from an earlier run, for the progress; 0: unknown */
	const char *coherence;
	const char *transport;	 /* "dev" | "io_uring" */
	const char *run, *epoch; /* or NULL */
};

/*
 * overlays_new: @keepers_fd (kept, not owned) is the directory of the control sockets, @keepers_path its path;
 * @follower is copied.
 */
int overlays_new(int keepers_fd, const char *keepers_path, const struct overlay_follower *follower,
		 struct overlays **ret_overlays);
/* overlays_free: connections are closed and watchers joined; keepers stay. */
void overlays_free(struct overlays *overlays);
DEFINE_AUTO(overlays)

/*
 * overlay_start: a keeper started, its overlay mounted at the target and answering.
 * Blocks until then, at most OVERLAY_READY_MS. Nothing is left mounted or running on failure, and
 * *ret_error (OVERLAY_ERROR_MAX bytes) says why.
 * Returns 0 with a reference, -ENOENT (no fsgroupfs program), -ETIMEDOUT, -EIO, -ENOMEM, ...
 */
int overlay_start(struct overlays *overlays, const struct overlay_spec *spec,
		  struct overlay **ret_overlay, char *ret_error);

/* overlay_adopt: the keeper behind this volume's socket. -ENOENT, -ECONNREFUSED: it is not there; as overlay_request(). */
int overlay_adopt(struct overlays *overlays, const char *volume_id, struct overlay **ret_overlay);

/* overlay_share: another volume on the same overlay: its socket is the same socket under one more name. */
int overlay_share(struct overlays *overlays, struct overlay *overlay, const char *volume_id);

/* overlay_find: the overlay that the volume is attached to, with a reference, or NULL. */
struct overlay *overlay_find(struct overlays *overlays, const char *volume_id);
void overlay_unref(struct overlay *overlay);
static inline void overlay_free(struct overlay *overlay)
{
	overlay_unref(overlay);
}
DEFINE_AUTO(overlay)

/*
 * overlay_attach: from now on the follower hears of @volume_id; it is called at once with the status
 * that is known, unless @muted. overlay_detach: not any more; when it returns no call is running. Returns how many
 * volumes are attached still. overlay_mute: stays attached, but the follower hears nothing, while the
 * volume is torn down; unmuting tells it what it has missed.
 */
int overlay_attach(struct overlay *overlay, const char *volume_id, bool muted);
void overlay_mute(struct overlay *overlay, const char *volume_id, bool muted);
size_t overlay_detach(struct overlay *overlay, const char *volume_id);

void overlay_status_get(struct overlay *overlay, struct overlay_status *ret_status);
pid_t overlay_keeper_pid(struct overlay *overlay);
bool overlay_is_gone(struct overlay *overlay);

/* overlay_wait_gone: whether the connection ended within @timeout_ms. */
bool overlay_wait_gone(struct overlay *overlay, uint64_t timeout_ms);

/*
 * overlay_request: one request, its answer awaited. @key and @value may be NULL.
 * Returns 0, the negative errno of the keeper's "error" (text in *ret_error), -EPIPE (gone), -ETIMEDOUT, -EHOSTDOWN (the
 * keeper is stopped).
 */
int overlay_request(struct overlay *overlay, const char *verb, const char *key, const char *value,
		    char *ret_error);

/*
 * overlay_explain: what the server says of the file at @path, relative to the volume (fs/explain.h), within
 * @timeout_ms. The text is a message of fs/base/keyval.h in *ret_text (KEYVAL_MAX + 1 bytes).
 * Returns 0, -EPIPE (gone), -ETIMEDOUT (the server or the keeper does not answer), -ENOTCONN (no server), -EMSGSIZE, ...
 */
int overlay_explain(struct overlay *overlay, const char *path, uint64_t timeout_ms, char *ret_text);

/*
 * overlay_upgrade: its server is followed by one of the program @program_fd (borrowed). Blocks until that serves, or
 * until it is certain that it will not: then what served before does.
 * Returns 0, or with a line in *ret_error: -EOPNOTSUPP (no server can follow this one), -EBUSY (not now), -EALREADY,
 * -EPIPE (gone), or why the program cannot.
 */
int overlay_upgrade(struct overlay *overlay, int program_fd, char *ret_error);

/* overlay_refresh: asks for the status now, follows it, and returns it: before an unmount, say. */
int overlay_refresh(struct overlay *overlay, struct overlay_status *ret_status);

/* overlays_reap: takes the exit status of keepers that have ended; at SIGCHLD. */
void overlays_reap(struct overlays *overlays);

/* overlays_sweep: control groups that keepers have left when they ended while nobody listened. */
void overlays_sweep(struct overlays *overlays);

/* overlay_socket_remove: the volume's socket name goes; for volumes that are gone. */
void overlay_socket_remove(struct overlays *overlays, const char *volume_id);

#endif
