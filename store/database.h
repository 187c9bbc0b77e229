/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_DATABASE_H
#define STORE_DATABASE_H

/*
 * database: the one connection of a store: its lock, its prepared statements, its transactions, the
 * border between SQLite's result codes and errno, and its reserve of disk space.
 *
 * Knows SQLite; does not know what the tables mean. Private to store/. Everything here runs between
 * database_begin() and database_end(), which hold the lock.
 */

#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>

#include "fs/base/parse.h"
#include "store/store.h"

/*
 * The reserve: STORE_RESERVE_BYTES of the database's pages are free, and STORE_RESERVE_VOLUME_BYTES more for each
 * volume, so that every one of them can go through a transition; STORE_RESERVE_BYTES of its log lie allocated; the
 * log is restarted long before that is used up. SQLite grows into both without asking the file system,
 * so nobody else can take them when the disk fills up. One record is at most STORE_RECORD_MAX bytes, so
 * that one transaction never needs more than the reserve.
 */
#define STORE_RESERVE_BYTES (4 << 20)
#define STORE_RESERVE_VOLUME_BYTES (8 << 10) /* a row that grows by a reason: two pages */
#define STORE_RECORD_MAX (1 << 20)

/* The statements, in the order of their texts in statements.c. */
enum statement {
	STATEMENT_VOLUME_INSERT,
	STATEMENT_VOLUME_UPDATE,
	STATEMENT_VOLUME_SET_STATE,
	STATEMENT_VOLUME_GET_STATE,
	STATEMENT_VOLUME_BY_ID,
	STATEMENT_VOLUME_BY_TARGET,
	STATEMENT_VOLUME_LIST,
	STATEMENT_VOLUME_DELETE,
	STATEMENT_MARKER_SET,
	STATEMENT_MARKER_GET,
	STATEMENT_MARKER_DROP,
	STATEMENT_WRAPPED_SET,
	STATEMENT_WRAPPED_GET,
	STATEMENT_WRAPPED_LIST,
	STATEMENT_WRAPPED_DELETE,
	STATEMENT_RUN_INSERT,
	STATEMENT_RUN_TAKE_OVER,
	STATEMENT_RUN_PRUNE,
	STATEMENT_RUN_FIND,
	STATEMENT_RUN_GET,
	STATEMENT_RUN_SET_EPOCH,
	STATEMENT_RUN_SET_COUNTERS,
	STATEMENT_RUN_FINISH,
	STATEMENT_FAILURE_CLEAR,
	STATEMENT_FAILURE_INSERT,
	STATEMENT_FAILURE_SET_TOTAL,
	STATEMENT_FAILURE_GET_TOTAL,
	STATEMENT_FAILURE_LIST,
	STATEMENT_DEVICE_PUT,
	STATEMENT_DEVICE_BY_ID,
	STATEMENT_DEVICE_BY_STAGING,
	STATEMENT_DEVICE_DELETE,
	STATEMENT_EVENT_INSERT,
	STATEMENT_EVENT_PRUNE,
	STATEMENT_EVENT_LIST,
	STATEMENT_COUNT,
};

extern const char *const statement_texts[STATEMENT_COUNT];

struct store {
	pthread_mutex_t lock;
	char *path;  /* never changed */
	sqlite3 *db; /* guarded by lock; NULL: it could not be opened again */
	sqlite3_stmt *statements[STATEMENT_COUNT]; /* guarded by lock */
	char touched[VOLUME_ID_MAX +
		     1]; /* the volume that this transaction changes; guarded by lock */
	bool batch;	 /* dump.h; guarded by lock */
	void (*watcher)(void *arg, const char *volume_id); /* dump.h; may be NULL; never changed */
	void *watcher_arg;
};

/* The field of a record that a statement's parameter or column stands for. */
enum field_kind {
	FIELD_TEXT,	    /* char *; NULL is damage */
	FIELD_TEXT_OR_NULL, /* char * */
	FIELD_U64,	    /* uint64_t, kept with the same 64 bits */
	FIELD_I64,	    /* int64_t */
	FIELD_INT,	    /* int */
	FIELD_BOOL,	    /* bool */
	FIELD_GID,	    /* gid_t; GID_UNSET is NULL */
	FIELD_STATE,	    /* enum volume_state, by its name */
};

struct field {
	enum field_kind kind;
	size_t offset;
};

/* fields_free: the texts of a record; not the record. */
void fields_free(const struct field *fields, size_t count, void *record);

/*
 * What a transaction may need of the disk. One that adds rows must leave the reserve whole and fails
 * with -ENOSPC otherwise; one that only changes or deletes rows may live on it, so that tear-down and
 * reconstruction work when no byte is free.
 */
enum transaction {
	TRANSACTION_READ,
	TRANSACTION_CHANGE,
	TRANSACTION_ADD,
};

/* database_begin: takes the lock and begins. On failure nothing is held. */
int database_begin(struct store *s, enum transaction kind);

/*
 * database_end: commits when @result is not negative, else rolls back, and gives up the lock.
 * Returns @result, or why the commit failed.
 */
int database_end(struct store *s, int result);

/* database_touch: this transaction changes the volume @id: its watcher is told when it is committed. */
void database_touch(struct store *s, const char *id);

/*
 * database_reopen: where it could only be read so far, tries to have it to be written; under the lock, outside of a
 * transaction. Costs next to nothing while that is not possible.
 */
void database_reopen(struct store *s);

/* database_end_read: ends a TRANSACTION_READ; what was read stays true whether this succeeds or not. */
void database_end_read(struct store *s);

/* database_prepare_all: every statement. SQLite's result code. */
int database_prepare_all(struct store *s);

/*
 * A statement's life: statement_get() (reset, nothing bound), statement_bind_*(), then statement_run()
 * or statement_step() until it returns 0. A failed bind shows in the step.
 */
sqlite3_stmt *statement_get(struct store *s, enum statement which);
int statement_bind_record(sqlite3_stmt *stmt, const struct field *fields, size_t count,
			  const void *record);
int statement_bind_text(sqlite3_stmt *stmt, int index, const char *text);
int statement_bind_i64(sqlite3_stmt *stmt, int index, int64_t value);

/* statement_step: 1 a row, 0 no more, or -errno. */
int statement_step(struct store *s, sqlite3_stmt *stmt);

/* statement_run: a statement without rows. Returns how many rows it changed, or -errno. */
int statement_run(struct store *s, sqlite3_stmt *stmt);

/* statement_read_record: the current row's columns, from @first on, into @record's fields. */
int statement_read_record(sqlite3_stmt *stmt, int first, const struct field *fields, size_t count,
			  void *record);

/* statement_read_text: a copy of one column; NULL in *ret_text for NULL. */
int statement_read_text(sqlite3_stmt *stmt, int column, char **ret_text);

/*
 * store_errno: SQLite's result code @rc as -errno: the only translation. Keeps its text for
 * store_error_text(). @db may be NULL.
 */
int store_errno(sqlite3 *db, int rc);

/* store_error_set: the text of a failure that SQLite knows nothing of. */
void store_error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* store_now_ms: the time that records are stamped with. */
int64_t store_now_ms(void);

/* What a database's header and tables together say of whose it is. */
enum schema_kind {
	SCHEMA_OURS,
	SCHEMA_NEWER,	/* ours, of a version that this program does not know */
	SCHEMA_FOREIGN, /* another program's */
	SCHEMA_DAMAGED, /* the tables are ours, and the header says otherwise, or not what those of its version are */
};

/*
 * schema_version: the user_version of the database. Both return SQLite's result code. schema_migrate: brings it to
 * STORE_SCHEMA_VERSION in one transaction; 0 or -errno.
 */
int schema_version(sqlite3 *db, int *ret_version);
int schema_kind(sqlite3 *db, enum schema_kind *ret_kind);
int schema_migrate(sqlite3 *db);

/* The rest of a run's part in store_setup_done(), with its result; in the caller's transaction. */
int run_take_part(struct store *s, const struct run_record *run);

/* volume_put: store_volume_update() or, where it is new, _insert(), in the caller's transaction. */
int volume_put(struct store *s, const struct volume_record *vol);

#endif
