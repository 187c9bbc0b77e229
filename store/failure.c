// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>

#include "store/database.h"

static const struct field failure_fields[] = {
	{ FIELD_TEXT, offsetof(struct failure_record, path) },
	{ FIELD_INT, offsetof(struct failure_record, error) },
};

static int failure_insert(struct store *s, const char *volume_id, size_t number,
			  const struct failure_record *failure)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_FAILURE_INSERT);
	int r;

	if ((r = statement_bind_text(stmt, 1, volume_id)) < 0 ||
	    (r = statement_bind_i64(stmt, 2, (int64_t)number)) < 0 ||
	    (r = statement_bind_text(stmt, 3, failure->path)) < 0 ||
	    (r = statement_bind_i64(stmt, 4, failure->error)) < 0)
		return r;
	return statement_run(s, stmt);
}

static int failures_replace(struct store *s, const char *volume_id,
			    const struct failure_record *failures, size_t count, uint64_t total)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_FAILURE_SET_TOTAL);
	int r;

	if ((r = statement_bind_text(stmt, 1, volume_id)) < 0 ||
	    (r = statement_bind_i64(stmt, 2, (int64_t)total)) < 0 ||
	    (r = statement_run(s, stmt)) < 0)
		return r;
	if (r == 0) {
		store_error_set("no volume %s is on record", volume_id);
		return -ENOENT;
	}
	stmt = statement_get(s, STATEMENT_FAILURE_CLEAR);
	if ((r = statement_bind_text(stmt, 1, volume_id)) < 0 || (r = statement_run(s, stmt)) < 0)
		return r;
	for (size_t i = 0; i < count && i < STORE_FAILURES_MAX; i++) {
		r = failure_insert(s, volume_id, i, &failures[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

int store_failures_set(struct store *s, const char *volume_id,
		       const struct failure_record *failures, size_t count, uint64_t total)
{
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	return database_end(s, failures_replace(s, volume_id, failures, count, total));
}

static int failures_read(struct store *s, const char *volume_id, struct failure_record **ret_list,
			 uint64_t *ret_total)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_FAILURE_GET_TOTAL);
	struct failure_record *list;
	uint64_t total;
	size_t count = 0;
	int r = statement_bind_text(stmt, 1, volume_id);

	if (r < 0 || (r = statement_step(s, stmt)) < 0)
		return r;
	if (r == 0) {
		store_error_set("no volume %s is on record", volume_id);
		return -ENOENT;
	}
	total = (uint64_t)sqlite3_column_int64(stmt, 0);

	stmt = statement_get(s, STATEMENT_FAILURE_LIST);
	r = statement_bind_text(stmt, 1, volume_id);
	if (r < 0)
		return r;
	list = calloc(STORE_FAILURES_MAX, sizeof(*list));
	if (!list)
		return -ENOMEM;
	while (count < STORE_FAILURES_MAX && (r = statement_step(s, stmt)) > 0) {
		r = statement_read_record(stmt, 0, failure_fields, ARRAY_SIZE(failure_fields),
					  &list[count]);
		if (r < 0)
			break;
		count++;
	}
	if (r < 0) {
		store_failures_free(list, count);
		return r;
	}
	*ret_list = list;
	*ret_total = total;
	return (int)count;
}

int store_failures_get(struct store *s, const char *volume_id, struct failure_record **ret_list,
		       uint64_t *ret_total)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = failures_read(s, volume_id, ret_list, ret_total);
	database_end_read(s);
	return r;
}

void store_failures_free(struct failure_record *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i].path);
	free(list);
}
