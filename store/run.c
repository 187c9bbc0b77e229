// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "store/database.h"

/* In the order of RUN_COLUMNS in statements.c, and created_at_ms, which is read only. */
#define COLUMN(kind, member)                                                                       \
	{                                                                                          \
		FIELD_##kind, offsetof(struct run_record, member)                                  \
	}
static const struct field run_fields[] = {
	COLUMN(TEXT, id),
	COLUMN(TEXT, tree),
	COLUMN(TEXT, wanted),
	COLUMN(TEXT_OR_NULL, epoch),
	COLUMN(BOOL, finished),
	COLUMN(U64, counters.seen),
	COLUMN(U64, counters.changed),
	COLUMN(U64, counters.correct),
	COLUMN(U64, counters.excluded),
	COLUMN(U64, counters.failed),
	COLUMN(I64, updated_at_ms),
	COLUMN(I64, created_at_ms),
};
#undef COLUMN

enum { RUN_FIELDS_WRITTEN = ARRAY_SIZE(run_fields) - 1 };

struct run_record *run_record_new(void)
{
	return calloc(1, sizeof(struct run_record));
}

void run_record_free(struct run_record *run)
{
	if (!run)
		return;
	fields_free(run_fields, ARRAY_SIZE(run_fields), run);
	free(run);
}

static int no_such_run(const char *id)
{
	store_error_set("no run %s is on record", id);
	return -ENOENT;
}

/* A run that is on record keeps what it has reached: epoch, counters, whether it is finished. */
static int run_take_over(struct store *s, const struct run_record *run)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_RUN_TAKE_OVER);
	int r;

	if ((r = statement_bind_text(stmt, 1, run->id)) < 0 ||
	    (r = statement_bind_text(stmt, 2, run->tree)) < 0 ||
	    (r = statement_bind_text(stmt, 3, run->wanted)) < 0 ||
	    (r = statement_bind_i64(stmt, 4, store_now_ms())) < 0 ||
	    (r = statement_run(s, stmt)) < 0)
		return r;
	if (r > 0)
		return 0;
	store_error_set("run %s is on record for another tree or ownership", run->id);
	return -EEXIST;
}

int run_take_part(struct store *s, const struct run_record *run)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_RUN_INSERT);
	struct run_record stamped = *run;
	int r;

	stamped.updated_at_ms = store_now_ms();
	r = statement_bind_record(stmt, run_fields, RUN_FIELDS_WRITTEN, &stamped);
	if (r < 0 || (r = statement_run(s, stmt)) < 0)
		return r;
	if (r == 0)
		return run_take_over(s, run);

	stmt = statement_get(s, STATEMENT_RUN_PRUNE);
	if ((r = statement_bind_text(stmt, 1, run->id)) < 0 ||
	    (r = statement_bind_text(stmt, 2, run->tree)) < 0)
		return r;
	return statement_run(s, stmt);
}

static int run_read(sqlite3_stmt *stmt, struct run_record **ret_run)
{
	AUTO(run_record) *run = run_record_new();
	int r;

	if (!run)
		return -ENOMEM;
	r = statement_read_record(stmt, 0, run_fields, ARRAY_SIZE(run_fields), run);
	if (r < 0)
		return r;
	*ret_run = take_ptr(&run);
	return 0;
}

/* The one run that a statement with one or two parameters finds; @second may be NULL. */
static int run_query(struct store *s, enum statement which, const char *first, const char *second,
		     struct run_record **ret_run)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	stmt = statement_get(s, which);
	r = statement_bind_text(stmt, 1, first);
	if (r == 0 && second)
		r = statement_bind_text(stmt, 2, second);
	if (r == 0)
		r = statement_step(s, stmt);
	if (r == 0)
		r = no_such_run(first);
	else if (r > 0)
		r = run_read(stmt, ret_run);
	database_end_read(s);
	return r;
}

int store_run_find(struct store *s, const char *tree, const char *wanted,
		   struct run_record **ret_run)
{
	return run_query(s, STATEMENT_RUN_FIND, tree, wanted, ret_run);
}

int store_run_get(struct store *s, const char *id, struct run_record **ret_run)
{
	return run_query(s, STATEMENT_RUN_GET, id, NULL, ret_run);
}

int store_run_set_epoch(struct store *s, const char *id, const char *epoch)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_RUN_SET_EPOCH);
	if ((r = statement_bind_text(stmt, 1, id)) == 0 &&
	    (r = statement_bind_text(stmt, 2, epoch)) == 0 &&
	    (r = statement_bind_i64(stmt, 3, store_now_ms())) == 0 &&
	    (r = statement_run(s, stmt)) == 0)
		r = no_such_run(id);
	return database_end(s, r < 0 ? r : 0);
}

static int write_counters(struct store *s, enum statement which, const char *id,
			  const struct run_counters *counters)
{
	static const struct field fields[] = {
		{ FIELD_U64, offsetof(struct run_counters, seen) },
		{ FIELD_U64, offsetof(struct run_counters, changed) },
		{ FIELD_U64, offsetof(struct run_counters, correct) },
		{ FIELD_U64, offsetof(struct run_counters, excluded) },
		{ FIELD_U64, offsetof(struct run_counters, failed) },
	};
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	stmt = statement_get(s, which);
	if ((r = statement_bind_record(stmt, fields, ARRAY_SIZE(fields), counters)) == 0 &&
	    (r = statement_bind_i64(stmt, 6, store_now_ms())) == 0 &&
	    (r = statement_bind_text(stmt, 7, id)) == 0 && (r = statement_run(s, stmt)) == 0)
		r = no_such_run(id);
	return database_end(s, r < 0 ? r : 0);
}

int store_run_set_counters(struct store *s, const char *id, const struct run_counters *counters)
{
	return write_counters(s, STATEMENT_RUN_SET_COUNTERS, id, counters);
}

int store_run_finish(struct store *s, const char *id, const struct run_counters *counters)
{
	return write_counters(s, STATEMENT_RUN_FINISH, id, counters);
}
