// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "store/database.h"

/* In the order of WRAPPED_COLUMNS in statements.c. */
#define COLUMN(type, member)                                                                       \
	{                                                                                          \
		FIELD_##type, offsetof(struct wrapped_record, member)                              \
	}
static const struct field wrapped_fields[] = {
	COLUMN(TEXT, volume_id),
	COLUMN(TEXT, name),
	COLUMN(TEXT, plugin),
	COLUMN(TEXT, source),
	COLUMN(TEXT_OR_NULL, plugin_metadata),
	COLUMN(TEXT_OR_NULL, certifies),
};
#undef COLUMN

struct wrapped_record *wrapped_record_new(void)
{
	return calloc(1, sizeof(struct wrapped_record));
}

void wrapped_record_free(struct wrapped_record *wrapped)
{
	if (!wrapped)
		return;
	fields_free(wrapped_fields, ARRAY_SIZE(wrapped_fields), wrapped);
	free(wrapped);
}

int store_wrapped_set(struct store *s, const struct wrapped_record *wrapped)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_WRAPPED_SET);
	r = statement_bind_record(stmt, wrapped_fields, ARRAY_SIZE(wrapped_fields), wrapped);
	if (r == 0)
		r = statement_run(s, stmt);
	database_touch(s, wrapped->volume_id);
	return database_end(s, r < 0 ? r : 0);
}

static int wrapped_read(sqlite3_stmt *stmt, struct wrapped_record **ret_wrapped)
{
	AUTO(wrapped_record) *wrapped = wrapped_record_new();
	int r;

	if (!wrapped)
		return -ENOMEM;
	r = statement_read_record(stmt, 0, wrapped_fields, ARRAY_SIZE(wrapped_fields), wrapped);
	if (r == 0)
		*ret_wrapped = take_ptr(&wrapped);
	return r;
}

int store_wrapped_get(struct store *s, const char *volume_id, const char *name,
		      struct wrapped_record **ret_wrapped)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_WRAPPED_GET);
	if ((r = statement_bind_text(stmt, 1, volume_id)) == 0 &&
	    (r = statement_bind_text(stmt, 2, name)) == 0)
		r = statement_step(s, stmt);
	if (r == 0) {
		store_error_set("volume %s wraps no %s", volume_id, name);
		r = -ENOENT;
	} else if (r > 0) {
		r = wrapped_read(stmt, ret_wrapped);
	}
	database_end_read(s);
	return r;
}

static int wrapped_list(struct store *s, const char *volume_id, struct wrapped_record ***ret_list)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_WRAPPED_LIST);
	struct wrapped_record **list = NULL;
	size_t count = 0;
	int r = statement_bind_text(stmt, 1, volume_id);

	while (r == 0 && (r = statement_step(s, stmt)) > 0) {
		struct wrapped_record **longer = reallocarray(list, count + 1, sizeof(*list));

		if (!longer) {
			r = -ENOMEM;
			break;
		}
		list = longer;
		r = wrapped_read(stmt, &list[count]);
		if (r < 0)
			break;
		count++;
	}
	if (r < 0) {
		store_wrapped_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

int store_wrapped_list(struct store *s, const char *volume_id, struct wrapped_record ***ret_list)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = wrapped_list(s, volume_id, ret_list);
	database_end_read(s);
	return r;
}

void store_wrapped_list_free(struct wrapped_record **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		wrapped_record_free(list[i]);
	free(list);
}

int store_wrapped_delete(struct store *s, const char *volume_id, const char *name)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_WRAPPED_DELETE);
	if ((r = statement_bind_text(stmt, 1, volume_id)) == 0 &&
	    (r = statement_bind_text(stmt, 2, name)) == 0)
		r = statement_run(s, stmt);
	database_touch(s, volume_id);
	return database_end(s, r < 0 ? r : 0);
}
