/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MANAGER_H
#define MOUNTD_MANAGER_H

/*
 * manager: the life of volumes (design, section 2): records the intent, lets the plugin set up, presents,
 * follows, tears down, and finds again after a restart.
 *
 * Knows the store, plugins, overlays and mounts, and the order between them. Does not know front ends,
 * sockets or the protocol: it gets checked requests and gives answers.
 *
 * Thread-safe: requests for one volume one after the other, for different volumes in parallel. Lock
 * order: volume key, tree key, overlay, manager->lock.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "mountd/answer.h"
#include "mountd/path.h"
#include "mountd/rules.h"

struct manager;

/*
 * manager_new: opens the store and what else lies in @layout (borrowed for the manager's life).
 * Returns 0, or -errno with *ret_error (ANSWER_TEXT_MAX bytes).
 */
int manager_new(const struct layout *layout, struct manager **ret_manager, char *ret_error);

/* manager_set_cpu_latency: of the overlays that it starts (fs/base/parse.h); -1: unset. Before anything else. */
void manager_set_cpu_latency(struct manager *m, int64_t us);

/* manager_free: after the last request; overlays and volumes stay as they are. */
void manager_free(struct manager *m);
DEFINE_AUTO(manager)

/*
 * manager_reconstruct_start: once, before the first request: brings each recorded volume to the state that
 * it is found in, adopts keepers, and makes lost records again. Quick: what takes longer is the mender's.
 */
void manager_reconstruct_start(struct manager *m);

/*
 * manager_reconstruct: compares store, mounts, keepers and directories, and does what is to be done about
 * each difference, or with @dry_run only says so. The answer is an array of rows {volume, found, action,
 * error}. Volumes that requests work on are left to these.
 */
enum proto_exit manager_reconstruct(struct manager *m, bool dry_run, struct answer *answer);

/*
 * manager_mend_start: a thread that reconstructs now, and whenever a keeper ends that should not.
 * manager_mend_stop: after manager_stop(): waits for its end.
 */
int manager_mend_start(struct manager *m);
void manager_mend_stop(struct manager *m);

/* manager_store_check: {schemaVersion, volumes: count, faults: [{volume, fault}]}; fails where it is damaged. */
enum proto_exit manager_store_check(struct manager *m, struct answer *answer);

/* manager_store_dump: {schemaVersion, volumes: [...]}, the volumes as in volume.json. */
enum proto_exit manager_store_dump(struct manager *m, struct answer *answer);

/*
 * manager_store_restore: adds the volumes of a dump that are not on record, and looks what there is of them.
 * @dump: from outside, unchecked. The answer: rows {volume, action, error}.
 */
enum proto_exit manager_store_restore(struct manager *m, json_t *dump, struct answer *answer);

/* manager_stop: wakes whoever waits; waits then end without an answer (see manager_is_stopping). */
void manager_stop(struct manager *m);
bool manager_is_stopping(struct manager *m);

/*
 * manager_has_successor: whether a program is to take this daemon's place, as soon as nothing runs: manager_upgrade() has
 * found it good, and sent SIGUSR1 to this process. manager_take_successor: its descriptor, the caller's; or -1.
 */
bool manager_has_successor(struct manager *m);
int manager_take_successor(struct manager *m);

/* manager_started_ms: when it was made, on the monotonic clock: no two of a machine's boot are equal. */
uint64_t manager_started_ms(const struct manager *m);

/* manager_is_idle: no volume on record. */
bool manager_is_idle(struct manager *m);

/* manager_has_target: whether a volume is on record with this very target: no path is resolved for it. */
bool manager_has_target(struct manager *m, const char *target);

/* manager_answers: whether the manager's lock can be had within @timeout_ms: nobody sits on it for ever. */
bool manager_answers(struct manager *m, uint64_t timeout_ms);

/* manager_reap: at SIGCHLD. */
void manager_reap(struct manager *m);

/* A mount as asked for; texts are borrowed; NULL: not said, so the rules' or the plugin's default. */
struct mount_request {
	enum front_end front;
	const char *target;
	const char *plugin, *source, *spec;
	const char *staged; /* the id of a staged device, in place of the line above */
	gid_t fs_group;
	const char *policy, *ownership, *conflict, *coherence, *transport, *volume_id;
	const int *place;	   /* the target as its caller sees it (caller_place.h), or NULL */
	const char *mount_options; /* of mount(8): those of a mount (mount_flags.h) */
	json_t *excludes;	   /* array of strings, or NULL */
	json_t *objects; /* what the call brought (plugins/objects.h), unchecked, or NULL; payload */
	const char
		*objects_path; /* in their place: where the rules let them be read from, or NULL */
	const char *pod;       /* "NS/NAME": which of the Pods in it, or NULL */
	bool keep_private, read_only, persist;
	bool dry_run; /* only said what would be done: {"would": [texts]} */
	bool handoff, handoff_in_namespaces, idmap;
	bool has_rate, has_settle, has_idmap;
	uint64_t converge_rate, settle_ms;
};

enum proto_exit manager_mount(struct manager *m, const struct mount_request *request,
			      struct answer *answer);

/* @volume: an id, or a target when it holds a '/'. Result {"volume", "target", "error": null}, or null: it was unknown. */
enum proto_exit manager_unmount(struct manager *m, const char *volume, bool lazy,
				struct answer *answer);

/* manager_unmount_dry: the same, but it is only said what would be done: {"would": [texts]}. */
enum proto_exit manager_unmount_dry(struct manager *m, const char *volume, bool lazy,
				    struct answer *answer);

/*
 * manager_unmount_all: every volume that has a target; goes on after a failure. Calls @done for each with
 * {"volume", "target", "error", "done", "total"}, borrowed. Fails when one stayed, naming how many and the first.
 */
enum proto_exit manager_unmount_all(struct manager *m, bool lazy,
				    void (*done)(void *arg, json_t *row), void *arg,
				    struct answer *answer);

/*
 * manager_unmount_by_hand: as umount(8) means it: nothing that a user has written is deleted (vanished.c). Where
 * @volume is mounted as no volume, or is another place to the caller (@place; NULL: not said), the answer is a success without a result, and nothing was done.
 */
enum proto_exit manager_unmount_by_hand(struct manager *m, const char *volume, const int *place,
					bool lazy, struct answer *answer);

/* A device to be staged; texts are borrowed; NULL: not said. */
struct stage_request {
	enum front_end front;
	const char *plugin, *source, *spec;
	const char *device, *fs_type, *mount_options, *staging, *volume_id;
	bool dry_run; /* as of a mount */
	bool format, read_only;
};

/* manager_stage: result {"id", "state", "stagingPath"}. Blocks for e2fsck and mkfs. */
enum proto_exit manager_stage(struct manager *m, const struct stage_request *request,
			      struct answer *answer);

/* manager_unstage: @volume: an id, or a staging path when it holds a '/'. */
enum proto_exit manager_unstage(struct manager *m, const char *volume, bool dry_run,
				struct answer *answer);

/*
 * manager_expand: makes the file system of a staged device as large as the device is now; a success where it is. The
 * result: {"id", "stagingPath", "grown"}. @volume: as of an unstage, or the id or target of a volume that uses the
 * device. Exit 4: no such device. Blocks for as long as that takes.
 */
enum proto_exit manager_expand(struct manager *m, const char *volume, struct answer *answer);

/* manager_refresh: result {"id", "changed"}. @objects, @pod: as of a mount; may be NULL. */
enum proto_exit manager_refresh(struct manager *m, enum front_end front, const char *volume,
				json_t *objects, const char *pod, bool dry_run,
				struct answer *answer);

/* manager_status: one volume's status object, or with @volume NULL an array of all. */
enum proto_exit manager_status(struct manager *m, const char *volume, struct answer *answer);

/*
 * manager_explain: why the file at @path (absolute) is shown as it is, or of a target why its volume is not native:
 * the object of PROTOCOL.md. Neither the target nor what is below it is looked at by this process, and an answer
 * takes two seconds at most, whatever has been stopped. Exit 4: the path leads into no volume.
 */
enum proto_exit manager_explain(struct manager *m, const char *path, struct answer *answer);

/* manager_metrics: figures of volumes and daemon, one text in Prometheus' form. */
enum proto_exit manager_metrics(struct manager *m, struct answer *answer);

/* manager_meter: a request was answered. @command: of the table of requests. */
void manager_meter(struct manager *m, const char *command, int exit, uint64_t us);

/* manager_meter_call: a call of a plugin. */
struct traced_call;
void manager_meter_call(struct manager *m, const struct traced_call *call);

/* manager_recover: another try to serve the volume, whose overlay has given its servers up. */
enum proto_exit manager_recover(struct manager *m, const char *volume, struct answer *answer);

/*
 * manager_upgrade: what serves @volume, or with NULL every volume, is followed by the fsgroupfs that is installed now.
 * After a program that cannot take over the rest is not tried. With NULL, the daemon's own place is taken then, when
 * requests that change volumes are done.
 * The answer: {"servers": [{"volume", "from", "to", "error"}], "daemon": {"from", "to", "error"} or null}.
 */
enum proto_exit manager_upgrade(struct manager *m, const char *volume, struct answer *answer);

enum proto_exit manager_pause(struct manager *m, const char *volume, bool paused,
			      struct answer *answer);

/* @has_rate: whether @rate (files a second; 0: no limit) is to be set too. */
enum proto_exit manager_converge(struct manager *m, const char *volume, bool has_rate,
				 uint64_t rate, struct answer *answer);

/*
 * manager_wait: until the volume is presented, converged or native, at most @timeout_ms (UINT64_MAX:
 * for ever). @client_fd: gives up when this connection has ended; -1: none.
 * EXIT_OK, EXIT_FAILED (can never be), EXIT_TIMEOUT, EXIT_NO_VOLUME. When manager_is_stopping() it may
 * return EXIT_FAILED, and the client is to ask again.
 */
enum proto_exit manager_wait(struct manager *m, const char *volume, const char *state,
			     uint64_t timeout_ms, int client_fd, struct answer *answer);

/* manager_events: an array of events after id @after. */
enum proto_exit manager_events(struct manager *m, int64_t after, struct answer *answer);

/*
 * manager_await_change: blocks until something has changed since *io_generation (0 at first), at most
 * @timeout_ms. Returns whether it has.
 */
bool manager_await_change(struct manager *m, uint64_t *io_generation, uint64_t timeout_ms);

#endif
