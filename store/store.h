/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

/*
 * store: what a node knows of its volumes, durable. One SQLite database a root directory, write-ahead
 * log, synchronous=FULL: when a function that changes something has returned 0, the change survives a
 * power cut.
 *
 * The database is three files, @path and @path with -wal and -shm, also after store_close(): they are
 * copied, moved and replaced together or not at all. store_backup() gives one file.
 *
 * On a full disk what adds records (insert, setup_done, failures_set, event_add) is -ENOSPC; what reads,
 * changes or deletes them goes on from a reserve, so that tear-down and reconstruction need no free byte.
 *
 * Knows records and their transitions. Does not know plugins, mounts or processes: sources and plugin
 * metadata are JSON texts that it keeps as they are. The caller drops payloads and secrets before a
 * text gets here. Called by mountd only. Thread-safe: one connection behind one lock; calls block for
 * the disk and at most STORE_BUSY_MS milliseconds for another process.
 *
 * Errors, where not said otherwise: -ENOMEM, -EAGAIN (still busy), -ENOSPC (disk or quota full),
 * -EROFS, -EACCES, -EIO, -EUCLEAN (damaged: see store_open), -EINVAL (a text breaks the schema).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/base/cleanup.h"

#define STORE_BUSY_MS 2000
#define STORE_SCHEMA_VERSION 6
#define STORE_FAILURES_MAX 100 /* failures kept a volume; the total is counted */
#define STORE_EVENTS_MAX 10000 /* events kept; the oldest go first */
#define STORE_RUNS_MAX 10000   /* runs kept that no volume takes part in; the oldest go first */

struct store;

/*
 * store_open: opens, or creates with mode 0600, the database at @path, checks it and brings its schema
 * to STORE_SCHEMA_VERSION. The directory must exist and be ours.
 * On a read-only file system one that is there, of this schema, is opened to be read: what would write is -EROFS, until
 * it can be written again.
 * @ret_set_aside: when the file was damaged, the name it was renamed to (a new, empty one is in its
 *                 place); else NULL; the caller's to free. Never deletes a database.
 * Damaged is also one whose header names another program, or a version that is not that of its tables, while the
 * tables are ours; and one whose tables' definitions are not, to the letter, those of its version.
 * Returns 0, -ENOTSUP (schema newer than this program: the file is untouched), -EINVAL (another
 * program's database, or not a regular file), -EISDIR, -ELOOP (a symbolic link), or an error above.
 */
int store_open(const char *path, struct store **ret_store, char **ret_set_aside);
void store_close(struct store *s);

/*
 * store_try: whether store_open() of the database at @path, which another process may have open, would succeed: it
 * is read, and a copy in memory is brought to STORE_SCHEMA_VERSION. No database there is as good as an empty one.
 * Returns 0 or as store_open(), -EUCLEAN too.
 */
int store_try(const char *path);

/* store_check: a full integrity check; all others wait. -EUCLEAN: store_error_text() says what is wrong. */
int store_check(struct store *s);

/* store_backup: an online copy, as one file of mode 0600, at @path. -EEXIST: something is there. */
int store_backup(struct store *s, const char *path);

/* The states of interface.md, in the order of their names in volume_state_name(). */
enum volume_state {
	VOLUME_SETTING_UP,
	VOLUME_PRESENTED,
	VOLUME_CONVERGING,
	VOLUME_CONVERGED,
	VOLUME_NATIVE,
	VOLUME_VIRTUAL,
	VOLUME_STAGED,
	VOLUME_ABSENT,
	VOLUME_FAILED,
	VOLUME_TEARING_DOWN,
};

const char *volume_state_name(enum volume_state state);
int volume_state_from_name(const char *name, enum volume_state *ret_state);

/*
 * volume_state_may_become: the one table of transitions (states.c). What changes a volume's state here is
 * checked against it: -EINVAL. volume_state_is_live: something of ours is at the target.
 */
bool volume_state_may_become(enum volume_state from, enum volume_state to);
bool volume_state_is_live(enum volume_state state);

struct run_counters {
	uint64_t seen, changed, correct, excluded, failed;
};

/*
 * One volume. Every text is owned by the record, may be NULL where said so, and is freed by
 * volume_record_free().
 */
struct volume_record {
	char *id;
	char *plugin; /* "emptyDir", "local", ... */
	char *source; /* JSON {kind, schemaVersion, object}: interface.md, Plugins and specs */
	char *source_identity; /* canonical text; equal means the same source */
	char *plugin_metadata; /* JSON of the plugin's own save(), or NULL */
	char *target;	       /* absolute, as given; NULL: staged, mounted nowhere */
	char *target_resolved; /* with its parent resolved; or NULL */
	gid_t fs_group;	       /* GID_UNSET: unset */
	char *policy;	       /* "Always" | "OnRootMismatch" | "RootOnly" */
	char *ownership;       /* "converge" | "virtual" | "none" */
	char *excludes;	       /* JSON array of patterns */
	char *coherence;       /* "exclusive" | "shared" */
	bool keep_private, read_only, handoff, persist;
	bool handoff_in_namespaces; /* copies in other mount namespaces are replaced too */
	bool idmap;		    /* the overlay's mounts may be idmapped */
	char *mount_options; /* of its mount, as mount_flags_text() writes them, or NULL: as its source's */
	char *transport;	/* of the overlay's requests: "dev" | "io_uring"; NULL: "dev" */
	uint64_t converge_rate; /* files a second; 0: no limit */
	bool paused;
	enum volume_state state;
	char *reason;	       /* why the state is what it is, or NULL */
	char *boot_id;	       /* of the boot in which it was last mounted, or NULL */
	uint64_t mount_id;     /* unique mount id of what we mounted at the target; 0: none */
	char *run_id;	       /* the run this volume takes part in, or NULL */
	int64_t created_at_ms; /* since 1970, UTC; set by the store */
	int64_t updated_at_ms; /* set by the store */
};

struct volume_record *volume_record_new(void); /* all zero, GID_UNSET; NULL: no memory */
void volume_record_free(struct volume_record *vol);
DEFINE_AUTO(volume_record)

/*
 * store_volume_insert: the intent: a new volume in state setting-up, before anything is done for it.
 * Returns 0, -EEXIST (id or target is taken), or an error above.
 */
int store_volume_insert(struct store *s, const struct volume_record *vol);

/*
 * store_volume_update: every column of the volume with this id but created_at_ms. -ENOENT: no such
 * volume, or its run_id is not on record; -EEXIST: its target is another's; -EINVAL: its state may not
 * follow the one on record.
 */
int store_volume_update(struct store *s, const struct volume_record *vol);

/* store_volume_set_state: state, reason (may be NULL), mount id. -ENOENT: no such volume. -EINVAL: as above. */
int store_volume_set_state(struct store *s, const char *id, enum volume_state state,
			   const char *reason, uint64_t mount_id);

/*
 * store_volume_by_id, store_volume_by_target: one volume; a target matches as given or resolved. It is
 * all that a path-only unmount needs.
 * Returns 0 or -ENOENT (for an unmount: a success), or an error above.
 */
int store_volume_by_id(struct store *s, const char *id, struct volume_record **ret_vol);
int store_volume_by_target(struct store *s, const char *target, struct volume_record **ret_vol);

/*
 * store_volume_list: every volume, by id; freed by store_volume_list_free(). Returns how many; for none
 * *ret_list is NULL.
 */
int store_volume_list(struct store *s, struct volume_record ***ret_list);
void store_volume_list_free(struct volume_record **list, size_t count);

/*
 * A device: what a volume whose target is NULL is about, the one global mount of an attachable volume. Its
 * source, state, boot id and mount id are the volume's of the same id; its consumers are volumes of their
 * own, whose source identity is store_device_consumer()'s.
 */
struct device_record {
	char *id;
	char *staging_path; /* absolute: where it is mounted, or is to be */
	char *identity; /* canonical text of what the device is: UUID, type, size, serial; "" before that is known */
	char *arguments; /* JSON: how it was asked to be staged */
};

struct device_record *device_record_new(void);
void device_record_free(struct device_record *device);
DEFINE_AUTO(device_record)

/*
 * store_device_put: one transaction: the volume @vol, as store_volume_insert() where it is new, else as
 * store_volume_update(), and its device. -EEXIST: the staging path is another device's.
 */
int store_device_put(struct store *s, const struct volume_record *vol,
		     const struct device_record *device);

/* store_device_by_id, store_device_by_staging: 0 or -ENOENT, or an error above. */
int store_device_by_id(struct store *s, const char *id, struct device_record **ret_device);
int store_device_by_staging(struct store *s, const char *path, struct device_record **ret_device);

/* store_device_consumer: the source identity of consumers of device @id; the caller's to free; NULL: no memory. */
char *store_device_consumer(const char *id);

/* store_device_of: the id of the device that a volume is a consumer of; borrowed; NULL: of none. */
const char *store_device_of(const struct volume_record *vol);

/* store_volume_delete: with its device, marker and failures, after the last step of tear-down. 0 also if absent. */
int store_volume_delete(struct store *s, const char *id);

/*
 * A marker: "set-up of this volume succeeded", with what it certifies (a text of the plugin's:
 * the directory's handle, the boot and mount of a tmpfs).
 */
int store_marker_get(struct store *s, const char *volume_id, char **ret_certifies); /* -ENOENT */
int store_marker_drop(struct store *s, const char *volume_id);

/*
 * A volume that another one wraps: set up in its own right, with a marker of its own, but presented nowhere.
 * It goes with the volume that wraps it.
 */
struct wrapped_record {
	char *volume_id; /* of the volume that is presented */
	char *name; /* its directory below that volume's: "data", or "data/inner" for what that one wraps */
	char *plugin;
	char *source;	       /* JSON, as volume_record.source */
	char *plugin_metadata; /* JSON, or NULL */
	char *certifies;       /* its marker; NULL: its set-up has not succeeded */
};

struct wrapped_record *wrapped_record_new(void); /* all NULL; NULL: no memory */
void wrapped_record_free(struct wrapped_record *wrapped);
DEFINE_AUTO(wrapped_record)

/* store_wrapped_set: records it, or every column of one that is on record. -ENOENT: no such volume. */
int store_wrapped_set(struct store *s, const struct wrapped_record *wrapped);
int store_wrapped_get(struct store *s, const char *volume_id, const char *name,
		      struct wrapped_record **ret_wrapped); /* -ENOENT */
/* store_wrapped_list: all of a volume, by name; as store_volume_list(). */
int store_wrapped_list(struct store *s, const char *volume_id, struct wrapped_record ***ret_list);
void store_wrapped_list_free(struct wrapped_record **list, size_t count);
/* store_wrapped_delete: with its marker. 0 also if absent. */
int store_wrapped_delete(struct store *s, const char *volume_id, const char *name);

/* A run: one application of ownership to one lower tree. It outlives the volumes that it served. */
struct run_record {
	char *id;   /* 32 hex digits, random */
	char *tree; /* file system UUID and root handle, hex */
	char *wanted; /* canonical text of gid, mask, policy, excludes: equal means the same ownership */
	char *epoch; /* "seconds.nanoseconds" on the file system's clock, or NULL: not known yet */
	bool finished;
	struct run_counters counters;
	int64_t created_at_ms, updated_at_ms;
};

struct run_record *run_record_new(void);
void run_record_free(struct run_record *run);
DEFINE_AUTO(run_record)

/*
 * store_setup_done: one transaction: every column of @vol, as store_volume_update() (so plugin metadata,
 * state, boot and mount id); its marker (@certifies NULL: the strategy has none; one on record goes); the
 * run that is due (@run may be NULL), which becomes volume.run_id whatever @vol says. A run whose id is
 * on record is taken over as far as it has got; a new one makes the other runs of its tree untrue, and
 * those that no volume takes part in are forgotten.
 * Returns how many runs were forgotten, -ENOENT (no such volume, or @vol->run_id is not on record), -EEXIST (the
 * run's id is on record for another tree or ownership, or the target is taken), or an error above.
 */
int store_setup_done(struct store *s, const struct volume_record *vol, const char *certifies,
		     const struct run_record *run);

/*
 * store_run_find: the newest run of this tree, if it is of this wanted ownership: a later one of another has
 * made it untrue. All of a run: -ENOENT: none such.
 */
int store_run_find(struct store *s, const char *tree, const char *wanted,
		   struct run_record **ret_run);
int store_run_get(struct store *s, const char *id, struct run_record **ret_run);
int store_run_set_epoch(struct store *s, const char *id, const char *epoch);
int store_run_set_counters(struct store *s, const char *id, const struct run_counters *counters);

/* store_run_finish: no pending file is left but those counted as failed and excluded. */
int store_run_finish(struct store *s, const char *id, const struct run_counters *counters);

struct failure_record {
	char *path; /* relative to the volume, quoted by log_quote() */
	int error;  /* errno, positive */
};

/*
 * store_failures_set: replaces the volume's failures: at most STORE_FAILURES_MAX, and their total.
 * Of both: -ENOENT: no such volume.
 */
int store_failures_set(struct store *s, const char *volume_id,
		       const struct failure_record *failures, size_t count, uint64_t total);
/* Returns how many; *ret_list freed by store_failures_free(). */
int store_failures_get(struct store *s, const char *volume_id, struct failure_record **ret_list,
		       uint64_t *ret_total);
void store_failures_free(struct failure_record *list, size_t count);

struct event_record {
	int64_t id; /* rising */
	int64_t at_ms;
	char *volume_id; /* may be NULL */
	char *kind;	 /* one word: "mounted", "mount-failed", "converged", ... */
	char *message;	 /* one line */
};

int store_event_add(struct store *s, const char *volume_id, const char *kind, const char *message);
/* store_event_list: events with an id above @after, oldest first, at most @limit. Returns how many. */
int store_event_list(struct store *s, int64_t after, size_t limit, struct event_record **ret_list);
void store_event_list_free(struct event_record *list, size_t count);

/* store_error_text: one line on what the last failed call of this thread met, for the log. Borrowed. */
const char *store_error_text(void);

#endif
