// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fs/base/parse.h"
#include "store/dump.h"

/* The reserve grows by a little more than is missing, so that few transactions have to do it. */
enum { RESERVE_STEP_BYTES = 1 << 20, RESERVE_PIECE_BYTES = 1 << 18 };

/* What store_error_text() gives; of this thread, as errno is. */
static _Thread_local char error_text[256];

void store_error_set(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
}

const char *store_error_text(void)
{
	return error_text;
}

int64_t store_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int constraint_errno(int extended)
{
	switch (extended) {
	case SQLITE_CONSTRAINT_UNIQUE:
	case SQLITE_CONSTRAINT_PRIMARYKEY:
		return -EEXIST;
	case SQLITE_CONSTRAINT_FOREIGNKEY:
		return -ENOENT;
	default:
		return -EINVAL;
	}
}

/* The operating system's own error where SQLite kept it. */
static int system_errno(sqlite3 *db, int otherwise)
{
	int error = db ? sqlite3_system_errno(db) : 0;

	if (error == EDQUOT)
		return -ENOSPC;
	return error > 0 ? -error : otherwise;
}

int store_errno(sqlite3 *db, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return 0;
	store_error_set("%s (%s)", db ? sqlite3_errmsg(db) : sqlite3_errstr(rc),
			sqlite3_errstr(rc));
	if (rc == SQLITE_IOERR_NOMEM)
		return -ENOMEM;

	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EAGAIN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_CANTOPEN:
		return system_errno(db, -EACCES);
	case SQLITE_IOERR:
		return system_errno(db, -EIO) == -ENOSPC ? -ENOSPC : -EIO;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	/* Our statements fit our schema: where one fails, the schema is no longer what was made. */
	case SQLITE_ERROR:
		return -EUCLEAN;
	case SQLITE_CONSTRAINT:
		return constraint_errno(rc);
	case SQLITE_MISMATCH:
	case SQLITE_TOOBIG:
	case SQLITE_RANGE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

int database_prepare_all(struct store *s)
{
	for (size_t i = 0; i < STATEMENT_COUNT; i++) {
		int rc = sqlite3_prepare_v3(s->db, statement_texts[i], -1,
					    SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL);

		if (rc != SQLITE_OK)
			return rc;
	}
	return SQLITE_OK;
}

static int64_t query_i64(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

/* Adds @bytes of free pages to the database; fails where the disk has no room for them. */
static int reserve_grow(struct store *s, int64_t size_bytes, int64_t bytes)
{
	sqlite3_int64 wanted = size_bytes + bytes;
	char sql[256];

	/* SQLite does not say why it could not allocate; a full disk is what it nearly always is. */
	if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_SIZE_HINT, &wanted) != SQLITE_OK) {
		store_error_set("no room on disk for the reserve");
		return -ENOSPC;
	}
	snprintf(
		sql, sizeof(sql),
		"WITH RECURSIVE piece (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM piece WHERE n < %d) "
		"INSERT INTO reserve (data) SELECT zeroblob(%d) FROM piece;"
		"DELETE FROM reserve;",
		(int)(bytes / RESERVE_PIECE_BYTES) + 1, RESERVE_PIECE_BYTES);
	return store_errno(s->db, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

/* Makes sure that enough of the database's pages are free. */
static int reserve_fill(struct store *s)
{
	int64_t pages = query_i64(s->db, "PRAGMA page_count");
	int64_t unused = query_i64(s->db, "PRAGMA freelist_count");
	int64_t page_bytes = query_i64(s->db, "PRAGMA page_size");

	int64_t volumes = query_i64(s->db, "SELECT count(*) FROM volume");
	int64_t wanted = STORE_RESERVE_BYTES + volumes * STORE_RESERVE_VOLUME_BYTES;

	if (pages < 0 || unused < 0 || page_bytes < 0 || volumes < 0)
		return store_errno(s->db, sqlite3_errcode(s->db));
	if (unused * page_bytes >= wanted)
		return 0;
	return reserve_grow(s, pages * page_bytes,
			    wanted - unused * page_bytes + RESERVE_STEP_BYTES);
}

int database_begin(struct store *s, enum transaction kind)
{
	int r;

	pthread_mutex_lock(&s->lock);
	error_text[0] = '\0';
	if (kind != TRANSACTION_READ && !s->batch)
		database_reopen(s);
	r = store_errno(s->db, sqlite3_exec(s->db,
					    s->batch		     ? "SAVEPOINT step" :
					    kind == TRANSACTION_READ ? "BEGIN" :
								       "BEGIN IMMEDIATE",
					    NULL, NULL, NULL));
	if (r < 0)
		pthread_mutex_unlock(&s->lock);
	else if (kind == TRANSACTION_ADD && (r = reserve_fill(s)) < 0)
		database_end(s, r);
	return r;
}

void database_touch(struct store *s, const char *id)
{
	snprintf(s->touched, sizeof(s->touched), "%s", id);
}

int database_end(struct store *s, int result)
{
	char touched[sizeof(s->touched)];
	int r;

	/* An unfinished statement would keep its read transaction, and with it the log, for ever. */
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_reset(s->statements[i]);
	if (result >= 0) {
		r = store_errno(s->db, sqlite3_exec(s->db, s->batch ? "RELEASE step" : "COMMIT",
						    NULL, NULL, NULL));
		if (r < 0)
			result = r;
	}
	/* Some failures have rolled back already: then there is nothing left to do, and that is fine. */
	if (!sqlite3_get_autocommit(s->db) && (!s->batch || result < 0))
		sqlite3_exec(s->db, s->batch ? "ROLLBACK TO step; RELEASE step" : "ROLLBACK", NULL,
			     NULL, NULL);
	memcpy(touched, s->touched, sizeof(touched));
	s->touched[0] = '\0';
	pthread_mutex_unlock(&s->lock);
	if (result >= 0 && touched[0] && s->watcher && !s->batch)
		s->watcher(s->watcher_arg, touched);
	return result;
}

int store_batch_begin(struct store *s)
{
	int r;

	pthread_mutex_lock(&s->lock);
	/* Else pages that are changed again and again are written again and again. */
	sqlite3_exec(s->db, "PRAGMA cache_spill = OFF", NULL, NULL, NULL);
	r = store_errno(s->db, sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
	s->batch = r == 0;
	pthread_mutex_unlock(&s->lock);
	return r;
}

int store_batch_end(struct store *s)
{
	int r = 0;

	pthread_mutex_lock(&s->lock);
	if (s->batch)
		r = store_errno(s->db, sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL));
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_exec(s->db, "PRAGMA cache_spill = ON", NULL, NULL, NULL);
	s->batch = false;
	pthread_mutex_unlock(&s->lock);
	return r;
}

void database_end_read(struct store *s)
{
	/* In a batch there is nothing to undo, and undoing would throw the cache away. */
	database_end(s, s->batch ? 0 : -ECANCELED);
}

sqlite3_stmt *statement_get(struct store *s, enum statement which)
{
	sqlite3_stmt *stmt = s->statements[which];

	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return stmt;
}

int statement_bind_text(sqlite3_stmt *stmt, int index, const char *text)
{
	/* The caller's text outlives the step; the binding is cleared or replaced before the next one. */
	return store_errno(sqlite3_db_handle(stmt),
			   sqlite3_bind_text(stmt, index, text, -1, SQLITE_STATIC));
}

int statement_bind_i64(sqlite3_stmt *stmt, int index, int64_t value)
{
	return store_errno(sqlite3_db_handle(stmt), sqlite3_bind_int64(stmt, index, value));
}

static int bind_field(sqlite3_stmt *stmt, int index, const struct field *field, const void *record)
{
	const void *at = (const char *)record + field->offset;

	switch (field->kind) {
	case FIELD_TEXT:
	case FIELD_TEXT_OR_NULL:
		return statement_bind_text(stmt, index, *(char *const *)at);
	case FIELD_U64:
		return statement_bind_i64(stmt, index, (int64_t) * (const uint64_t *)at);
	case FIELD_I64:
		return statement_bind_i64(stmt, index, *(const int64_t *)at);
	case FIELD_INT:
		return statement_bind_i64(stmt, index, *(const int *)at);
	case FIELD_BOOL:
		return statement_bind_i64(stmt, index, *(const bool *)at);
	case FIELD_GID:
		if (*(const gid_t *)at == GID_UNSET)
			return 0; /* unbound parameters are NULL */
		return statement_bind_i64(stmt, index, *(const gid_t *)at);
	case FIELD_STATE:
		return statement_bind_text(stmt, index,
					   volume_state_name(*(const enum volume_state *)at));
	}
	return -EINVAL;
}

int statement_bind_record(sqlite3_stmt *stmt, const struct field *fields, size_t count,
			  const void *record)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = bind_field(stmt, (int)i + 1, &fields[i], record);
	return r;
}

int statement_step(struct store *s, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);

	return rc == SQLITE_ROW ? 1 : store_errno(s->db, rc);
}

int statement_run(struct store *s, sqlite3_stmt *stmt)
{
	int r = statement_step(s, stmt);

	sqlite3_reset(stmt);
	return r < 0 ? r : sqlite3_changes(s->db);
}

int statement_read_text(sqlite3_stmt *stmt, int column, char **ret_text)
{
	const unsigned char *text = sqlite3_column_text(stmt, column);
	char *copy = NULL;

	if (!text && sqlite3_column_type(stmt, column) != SQLITE_NULL)
		return -ENOMEM;
	if (text) {
		copy = strdup((const char *)text);
		if (!copy)
			return -ENOMEM;
	}
	*ret_text = copy;
	return 0;
}

static int read_state(sqlite3_stmt *stmt, int column, enum volume_state *ret_state)
{
	const unsigned char *name = sqlite3_column_text(stmt, column);

	/* The schema lets only known names in. */
	if (!name || volume_state_from_name((const char *)name, ret_state) < 0)
		return -EUCLEAN;
	return 0;
}

static int read_field(sqlite3_stmt *stmt, int column, const struct field *field, void *record)
{
	void *at = (char *)record + field->offset;

	switch (field->kind) {
	case FIELD_TEXT:
		/* The schema lets no NULL in. */
		return sqlite3_column_type(stmt, column) == SQLITE_NULL ?
			       -EUCLEAN :
			       statement_read_text(stmt, column, at);
	case FIELD_TEXT_OR_NULL:
		return statement_read_text(stmt, column, at);
	case FIELD_U64:
		*(uint64_t *)at = (uint64_t)sqlite3_column_int64(stmt, column);
		return 0;
	case FIELD_I64:
		*(int64_t *)at = sqlite3_column_int64(stmt, column);
		return 0;
	case FIELD_INT:
		*(int *)at = sqlite3_column_int(stmt, column);
		return 0;
	case FIELD_BOOL:
		*(bool *)at = sqlite3_column_int(stmt, column) != 0;
		return 0;
	case FIELD_GID:
		*(gid_t *)at = sqlite3_column_type(stmt, column) == SQLITE_NULL ?
				       GID_UNSET :
				       (gid_t)sqlite3_column_int64(stmt, column);
		return 0;
	case FIELD_STATE:
		return read_state(stmt, column, at);
	}
	return -EINVAL;
}

void fields_free(const struct field *fields, size_t count, void *record)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].kind == FIELD_TEXT || fields[i].kind == FIELD_TEXT_OR_NULL)
			free(*(char **)((char *)record + fields[i].offset));
}

int statement_read_record(sqlite3_stmt *stmt, int first, const struct field *fields, size_t count,
			  void *record)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = read_field(stmt, first + (int)i, &fields[i], record);
	return r;
}
