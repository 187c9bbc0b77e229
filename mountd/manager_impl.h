/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MANAGER_IMPL_H
#define MOUNTD_MANAGER_IMPL_H

/*
 * manager_impl: what the files of the manager (manager*.c, setup.c, present.c, teardown.c, follow.c,
 * reconstruct.c, ...) share. Nobody else includes it. See manager.h.
 */

#include <pthread.h>

#include "fs/ownership/present.h"
#include "mountd/boot_id.h"
#include "mountd/host.h"
#include "mountd/manager.h"
#include "mountd/meters.h"
#include "mountd/mount.h"
#include "mountd/mount_watch.h"
#include "mountd/overlays.h"
#include "mountd/spec.h"
#include "mountd/steps.h"
#include "mountd/target.h"
#include "mountd/usage.h"
#include "mountd/volume_file.h"
#include "plugins/plugin.h"
#include "plugins/trace.h"
#include "store/store.h"

/* A volume that is at its target with an ownership of ours, as far as other volumes care. */
struct live {
	struct live *next;
	char *id;
	char *tree;   /* tree_identity() of its lower tree */
	char *wanted; /* run_record.wanted, or for a virtual one "virtual;" and that */
	dev_t dev;    /* st_dev of its overlay; 0: unknown */
	/* What the follower has written already; touched by the overlay's watcher only. */
	struct run_counters written;
	uint64_t counters_at_ms;
	uint64_t failures_print; /* of the failures on record; 0: not known */
	bool epoch_known, finished;
};

struct manager {
	const struct layout *layout;
	struct store *store;
	struct volume_files *files;
	struct overlays *overlays;
	struct usages *usages;
	struct meters *meters;
	int volumes_fd, runs_fd, keepers_fd;
	char *volumes_path;
	char boot_id[BOOT_ID_SIZE];

	pthread_mutex_t lock;
	pthread_cond_t changed; /* with lock; monotonic clock */
	uint64_t generation;	/* of all volumes; guarded by lock */
	struct busy_key *busy;	/* guarded by lock */
	struct live *lives;	/* guarded by lock */
	bool stopping;		/* guarded by lock */
	int successor_fd;	/* manager_has_successor(); -1: none; guarded by lock */
	uint64_t started_ms;	/* when we were made; constant */
	int64_t cpu_latency_us; /* of overlays that are started; -1: unset; constant */
	bool mend_due;		/* guarded by lock */
	bool mend_again;	/* in a while; guarded by lock */
	bool look_due;		/* mounts have changed; guarded by lock */
	bool look_is_blocked; /* a request had the volume: looked at again then; guarded by lock */
	struct mount_watch *watch;
	struct mended *mended; /* guarded by lock */
	pthread_t mender;
	bool has_mender;
	enum step crash_step; /* guarded by lock */
	uint64_t crash_times; /* 0: never; guarded by lock */
};

/*
 * mend_wanted: something may have to be remounted: the mender looks. mend_is_allowed: whether this volume has
 * not been remounted too often of late; counts.
 */
void mend_wanted(struct manager *m);
/* mend_later: what cannot be looked at now: in a while once more. */
void mend_later(struct manager *m);
bool mend_is_allowed(struct manager *m, const char *volume_id);
/* mend_forget: somebody says that he knows of what the overlay has died. */
void mend_forget(struct manager *m, const char *volume_id);
void mended_free(struct manager *m);

/*
 * look_wanted: a mount of ours may have gone: the mender looks. look_blocked: it could not look at a volume that a
 * request works on, and is to look again when that is done.
 */
void look_wanted(struct manager *m);
void look_blocked(struct manager *m);

/* vanished_look: finds the volumes whose mounts are gone. The mender's; see vanished.c. */
void vanished_look(struct manager *m);

/*
 * vanished_tear_down: what a umount(2) by hand has left of the volume goes; what users have written stays, and then the
 * volume is absent. Its key is locked. Returns 0 or -errno with *ret_error (ANSWER_TEXT_MAX bytes).
 */
int vanished_tear_down(struct manager *m, struct volume_record *vol, char *ret_error);

/* manager_changed: wakes whoever waits for a change. */
void manager_changed(struct manager *m);

/*
 * key_lock: one holder a key at a time: a volume id, or "tree:" and a tree's identity. Blocks for as long as
 * another request works on it. -ENOMEM.
 */
int key_lock(struct manager *m, const char *key);
void key_unlock(struct manager *m, const char *key);

/* keys_await_free: waits until no request works on anything. False: one still does. */
bool keys_await_free(struct manager *m, uint64_t timeout_ms);

/* key_try_lock: the same without waiting. -EAGAIN: a request works on it. */
int key_try_lock(struct manager *m, const char *key);

/* volume_find: by id, or by target when @volume holds a '/'. 0, -ENOENT or the store's errors. */
int volume_find(struct manager *m, const char *volume, struct volume_record **ret_vol);

/*
 * volume_find_locked: the same with its key locked; when it returns -ENOENT for an id the key is not
 * locked. The caller unlocks (*ret_vol)->id.
 */
int volume_find_locked(struct manager *m, const char *volume, struct volume_record **ret_vol);

/*
 * volume_correct_native: where a native mount has gone the record @vol is made what the next daemon would find; that on
 * disk is corrected by the next call that works on the volume.
 */
void volume_correct_native(struct manager *m, struct volume_record *vol);

/* Answers: exit 4 for -ENOENT, else the store's error; and that the volume is not at its target, with its reason. */
enum proto_exit volume_not_found(struct answer *answer, int error);
enum proto_exit volume_not_live(const struct volume_record *vol, struct answer *answer);

/* volume_plugin_gid: what the plugin is told: nothing where no ownership is ever to be written. */
gid_t volume_plugin_gid(const struct volume_record *vol);

/* store_why: one line on a store's error for people: "the store: <what>". */
const char *store_why(int error, char *ret_text, size_t size);

/* event: ignoring errors but for the log: a full disk must not stop what it reports. */
void event(struct manager *m, const char *volume_id, const char *kind, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- building: a plugin's view of a recorded volume ---- */

struct volume_work {
	struct building building;
	const struct volume_plugin *plugin;
	struct trace trace;
	struct spec *spec;
	json_t *metadata;
	char *dir_path;
	int dir_fd; /* -1: the directory is not there */
};

/*
 * work_open: all that a call into the plugin needs. @make_dir: makes the volume's directory.
 * @front may be NULL (no source can be opened). *ret_error: PLUGIN_ERROR_MAX bytes.
 */
int work_open(struct manager *m, const struct volume_record *vol, const struct front_rules *front,
	      bool make_dir, struct volume_work **ret_work, char *ret_error);
void volume_work_free(struct volume_work *work);
DEFINE_AUTO(volume_work)

/* ---- live volumes ---- */

int live_add(struct manager *m, const char *id, const char *tree, const char *wanted);
void live_remove(struct manager *m, const char *id);
void live_set_dev(struct manager *m, const char *id, dev_t dev);
dev_t live_dev(struct manager *m, const char *id);
/* live_touch: calls @fn with the entry under the lock; false: there is none. */
bool live_touch(struct manager *m, const char *id, void (*fn)(struct live *live, void *arg),
		void *arg);

/* ---- steps ---- */

/* present: brings a volume that is set up to its target. Part of a mount; see present.c. */
struct presenting {
	struct manager *m;
	struct volume_record *vol;
	struct target *target;
	const struct volume_plugin *plugin;
	int lower_fd;
	enum ownership_outcome outcome;
	bool setup_ran;	       /* false: what was there is used again, and needs no new run */
	const char *certifies; /* the marker's text, or NULL */
	bool conflict_is_refused;
	char *error; /* ANSWER_TEXT_MAX bytes */
	char *note;  /* ANSWER_TEXT_MAX bytes */
};
int present_volume(struct presenting *p);

/* present_is_ignored: whether the volume on record is native because its fsGroup was ignored. */
bool present_is_ignored(const struct volume_record *vol);

/* journal_remove: of a run that is finished or void. */
void journal_remove(struct manager *m, const char *run_id);

/*
 * journals_drop: a journal serves the run that resumes it: not one that is finished, nor one that the store has
 * forgotten, because another run on the same tree came after it. A keeper has its own open.
 */
void journals_drop(struct manager *m);

/* wanted_text: what run_record.wanted says; NULL: no memory. */
char *wanted_text(const struct volume_record *vol);

/*
 * was_handed_off: whether what is at the volume's target (@view) can only be the lower tree that its
 * keeper has put there while nobody listened: the run is finished on record, without which no hand-off
 * begins, and the mount's root is the lower tree's root itself.
 */
bool was_handed_off(struct manager *m, const struct volume_record *vol, const struct target *target,
		    const struct mount_view *view);

/*
 * is_orphan: whether it can only be the overlay of a mount or unmount that a crash of ours cut off before
 * the mount's id was on record, its keeper being dead as well: the intent is on record, and type and
 * source are those of our overlay.
 */
bool is_orphan(const struct volume_record *vol);

/* What a refresh takes; texts are borrowed. */
struct refresh_request {
	const struct front_rules *front;
	json_t *objects;	   /* or NULL */
	const char *pod_namespace; /* or NULL */
};

/*
 * volume_refresh: of a volume whose key is locked. *ret_error: ANSWER_TEXT_MAX bytes.
 * Returns 0, -EOPNOTSUPP (not refreshable), -ENOENT (what was set up is not there any more), or why the
 * plugin failed.
 */
int volume_refresh(struct manager *m, const struct volume_record *vol,
		   const struct refresh_request *request, bool *ret_changed, char *ret_error);

/* How much of a volume a tear-down leaves. */
enum teardown_keep {
	KEEP_NOTHING,
	KEEP_DATA, /* plugins that delete data are not called: a failed re-mount of a volume that had been up */
	KEEP_SET_UP, /* only the presentation goes: the volume is about to be mounted again */
};

/*
 * teardown: undoes what there is of @vol, but for its record. Idempotent. Once the target is unmounted
 * vol->mount_id is 0.
 * Returns 0, -EBUSY (in use, or a foreign mount is there), ... with *ret_error (ANSWER_TEXT_MAX bytes).
 */
int teardown(struct manager *m, struct volume_record *vol, bool lazy, enum teardown_keep keep,
	     char *ret_error);

/* teardown_told: the same; @answer's listener hears how much has been deleted. */
int teardown_told(struct manager *m, struct volume_record *vol, bool lazy, enum teardown_keep keep,
		  const struct answer *answer, char *ret_error);

/*
 * mount_recorded: the set-up flow for a volume that is on record, without its caller; its key is locked.
 * @vol: as recorded; its texts may be taken
 * @trusted: sources are opened as [ctl] of mountd.conf allows; else none is
 * Returns as manager_mount(); after a failure the volume is absent, with the reason.
 */
enum proto_exit mount_recorded(struct manager *m, struct volume_record *vol, bool trusted,
			       struct answer *answer);

/*
 * unmount_target: takes off the target what is ours, and nothing else; vol->mount_id is 0 then. @o: its overlay, or
 * NULL. Returns as teardown().
 */
int unmount_target(struct manager *m, struct volume_record *vol, struct overlay *o, bool lazy,
		   char *ret_error);

/*
 * unmount_unknown: the answer for what is not on record: a success, for it is unmounted already; but what others
 * mounted at that path is theirs.
 */
enum proto_exit unmount_unknown(const char *volume, struct answer *answer);

/*
 * device_status: of a volume that is a device (it has no target): {"path", "stagingPath", "identity", "consumers"};
 * null of others.
 */
json_t *device_status(struct manager *m, const struct volume_record *vol);

extern const struct overlay_follower follower_template; /* .arg is the manager's */

#endif
