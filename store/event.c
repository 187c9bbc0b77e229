// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>

#include "store/database.h"

static const struct field event_fields[] = {
	{ FIELD_I64, offsetof(struct event_record, id) },
	{ FIELD_I64, offsetof(struct event_record, at_ms) },
	{ FIELD_TEXT_OR_NULL, offsetof(struct event_record, volume_id) },
	{ FIELD_TEXT, offsetof(struct event_record, kind) },
	{ FIELD_TEXT, offsetof(struct event_record, message) },
};

static int event_add(struct store *s, const char *volume_id, const char *kind, const char *message)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_EVENT_INSERT);
	int r;

	if ((r = statement_bind_i64(stmt, 1, store_now_ms())) < 0 ||
	    (r = statement_bind_text(stmt, 2, volume_id)) < 0 ||
	    (r = statement_bind_text(stmt, 3, kind)) < 0 ||
	    (r = statement_bind_text(stmt, 4, message)) < 0 || (r = statement_run(s, stmt)) < 0)
		return r;
	r = statement_run(s, statement_get(s, STATEMENT_EVENT_PRUNE));
	return r < 0 ? r : 0;
}

int store_event_add(struct store *s, const char *volume_id, const char *kind, const char *message)
{
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	return database_end(s, event_add(s, volume_id, kind, message));
}

static int event_list(struct store *s, int64_t after, size_t limit, struct event_record **ret_list)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_EVENT_LIST);
	struct event_record *list;
	size_t count = 0;
	int r;

	if (limit > STORE_EVENTS_MAX)
		limit = STORE_EVENTS_MAX;
	if ((r = statement_bind_i64(stmt, 1, after)) < 0 ||
	    (r = statement_bind_i64(stmt, 2, (int64_t)limit)) < 0)
		return r;
	list = calloc(limit + 1, sizeof(*list)); /* one more: a limit of 0 gives a list too */
	if (!list)
		return -ENOMEM;
	while (count < limit && (r = statement_step(s, stmt)) > 0) {
		r = statement_read_record(stmt, 0, event_fields, ARRAY_SIZE(event_fields),
					  &list[count]);
		count++; /* a half-read record is freed with the list */
		if (r < 0)
			break;
	}
	if (r < 0) {
		store_event_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

int store_event_list(struct store *s, int64_t after, size_t limit, struct event_record **ret_list)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = event_list(s, after, limit, ret_list);
	database_end_read(s);
	return r;
}

void store_event_list_free(struct event_record *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(list[i].volume_id);
		free(list[i].kind);
		free(list[i].message);
	}
	free(list);
}
