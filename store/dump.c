// SPDX-License-Identifier: Apache-2.0
#include "store/dump.h"

#include <errno.h>
#include <string.h>

#include "fs/base/parse.h"
#include "store/database.h"

#define TABLES_MAX 16

/* A table that holds rows of a volume: which, and the column that names the volume (or the run). */
struct table {
	char *name, *key;
};

struct tables {
	struct table list[TABLES_MAX];
	size_t count;
};

static void tables_free(struct tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->count; i++) {
		free(tables->list[i].name);
		free(tables->list[i].key);
	}
	free(tables);
}
DEFINE_AUTO(tables)

static void stmt_finalize(sqlite3_stmt **io_stmt)
{
	sqlite3_finalize(*io_stmt);
}

#define AUTO_STATEMENT __attribute__((cleanup(stmt_finalize)))

/* One statement, with up to two texts bound to it. */
static int prepare(struct store *s, const char *sql, const char *first, const char *second,
		   sqlite3_stmt **ret_stmt)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, ret_stmt, NULL);
	int r = store_errno(s->db, rc);

	if (r == 0 && first)
		r = statement_bind_text(*ret_stmt, 1, first);
	if (r == 0 && second)
		r = statement_bind_text(*ret_stmt, 2, second);
	return r;
}

/* The first column of the first row; -ENOENT: no row. */
static int query_text(struct store *s, const char *sql, const char *first, const char *second,
		      char **ret_text)
{
	AUTO_STATEMENT sqlite3_stmt *stmt = NULL;
	int r = prepare(s, sql, first, second, &stmt);

	if (r == 0)
		r = statement_step(s, stmt);
	if (r == 0)
		return -ENOENT;
	return r < 0 ? r : statement_read_text(stmt, 0, ret_text);
}

/*
 * Those that refer to a volume, but for what the next walk finds again. A volume comes after its run and
 * before what refers to it.
 */
static int find_tables(struct store *s, struct tables **ret_tables)
{
	static const char sql[] =
		"SELECT 'run', 'id' UNION ALL SELECT 'volume', 'id' UNION ALL SELECT 'device', 'id' UNION ALL "
		"SELECT t.name, f.\"from\" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f "
		"WHERE t.type = 'table' AND f.\"table\" = 'volume' "
		"AND t.name NOT IN ('failure', 'device')";
	AUTO(tables) *tables = calloc(1, sizeof(*tables));
	AUTO_STATEMENT sqlite3_stmt *stmt = NULL;
	int r = tables ? prepare(s, sql, NULL, NULL, &stmt) : -ENOMEM;

	while (r == 0 && tables->count < TABLES_MAX && (r = statement_step(s, stmt)) > 0) {
		struct table *table = &tables->list[tables->count++];

		r = statement_read_text(stmt, 0, &table->name);
		if (r == 0)
			r = statement_read_text(stmt, 1, &table->key);
	}
	if (r == 0)
		*ret_tables = take_ptr(&tables);
	return r;
}

/* Which rows of a table belong to volume ?1. */
static const char *condition(const struct table *table)
{
	return strcmp(table->name, "run") == 0 ? "= (SELECT run_id FROM volume WHERE id = ?1)" :
						 "= ?1";
}

/* "SELECT json_group_array(json_object('a', "a", ...)) FROM ..."; seq is the database's own. */
static int dump_statement(struct store *s, const struct table *table, char **ret_sql)
{
	AUTO_STATEMENT sqlite3_stmt *columns = NULL;
	sqlite3_str *sql = sqlite3_str_new(s->db);
	const char *separator = "";
	int r = prepare(s, "SELECT name FROM pragma_table_info(?1) WHERE name <> 'seq'",
			table->name, NULL, &columns);

	sqlite3_str_appendall(sql, "SELECT json_group_array(json_object(");
	while (r == 0 && (r = statement_step(s, columns)) > 0) {
		const char *name = (const char *)sqlite3_column_text(columns, 0);

		sqlite3_str_appendf(sql, "%s%Q, \"%w\"", separator, name, name);
		separator = ", ";
		r = 0;
	}
	sqlite3_str_appendf(sql, ")) FROM \"%w\" WHERE \"%w\" %s", table->name, table->key,
			    condition(table));
	*ret_sql = sqlite3_str_finish(sql);
	if (r == 0 && !*ret_sql)
		r = -ENOMEM;
	return r;
}

static void sql_free(char **io_sql)
{
	sqlite3_free(*io_sql);
}

#define AUTO_SQL __attribute__((cleanup(sql_free)))

static int dump_table(struct store *s, const struct table *table, const char *id, sqlite3_str *text)
{
	AUTO_SQL char *sql = NULL;
	AUTO_FREE char *rows = NULL;
	int r = dump_statement(s, table, &sql);

	if (r == 0)
		r = query_text(s, sql, id, NULL, &rows);
	if (r == 0)
		sqlite3_str_appendf(text, ",\"%w\":%s", table->name, rows);
	return r;
}

static int dump_volume(struct store *s, const char *id, char **ret_text)
{
	AUTO(tables) *tables = NULL;
	AUTO_FREE char *found = NULL;
	AUTO_SQL char *made = NULL;
	sqlite3_str *text;
	int r = query_text(s, "SELECT id FROM volume WHERE id = ?1", id, NULL, &found);

	if (r == 0)
		r = find_tables(s, &tables);
	if (r < 0)
		return r;
	text = sqlite3_str_new(s->db);
	sqlite3_str_appendf(text, "{\"schemaVersion\":%d", STORE_SCHEMA_VERSION);
	for (size_t i = 0; r == 0 && i < tables->count; i++)
		r = dump_table(s, &tables->list[i], id, text);
	sqlite3_str_appendchar(text, 1, '}');
	made = sqlite3_str_finish(text);
	if (r < 0)
		return r;
	*ret_text = made ? strdup(made) : NULL;
	return *ret_text ? 0 : -ENOMEM;
}

int store_volume_dump(struct store *s, const char *id, char **ret_text)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = dump_volume(s, id, ret_text);
	database_end_read(s);
	return r;
}

/* ---- and back ---- */

/*
 * "INSERT INTO t (columns that both have) SELECT json_extract(...) FROM json_each(?1, '$.t')". Columns are
 * named by the schema, never by the text. NULL in *ret_sql: the text has no row for this table.
 */
static int restore_statement(struct store *s, const struct table *table, const char *text,
			     char **ret_sql)
{
	static const char known[] =
		"SELECT i.name FROM pragma_table_info(?2) i WHERE i.name <> 'seq' AND EXISTS "
		"(SELECT 1 FROM json_each(?1, '$.\"' || ?2 || '\"[0]') k WHERE k.key = i.name)";
	AUTO_STATEMENT sqlite3_stmt *columns = NULL;
	sqlite3_str *names = sqlite3_str_new(s->db), *values = sqlite3_str_new(s->db);
	AUTO_SQL char *name_list = NULL;
	AUTO_SQL char *value_list = NULL;
	const char *separator = "";
	int r = prepare(s, known, text, table->name, &columns);

	while (r == 0 && (r = statement_step(s, columns)) > 0) {
		const char *name = (const char *)sqlite3_column_text(columns, 0);

		sqlite3_str_appendf(names, "%s\"%w\"", separator, name);
		sqlite3_str_appendf(values, "%sjson_extract(value, '$.\"%w\"')", separator, name);
		separator = ", ";
		r = 0;
	}
	name_list = sqlite3_str_finish(names);
	value_list = sqlite3_str_finish(values);
	*ret_sql = NULL;
	if (r < 0 || !name_list)
		return r;
	*ret_sql = sqlite3_mprintf(
		"INSERT INTO \"%w\" (%s) SELECT %s FROM json_each(?1, '$.\"%w\"') WHERE true%s",
		table->name, name_list, value_list, table->name,
		strcmp(table->name, "run") == 0 ? " ON CONFLICT (id) DO NOTHING" : "");
	return *ret_sql ? 0 : -ENOMEM;
}

static int restore_table(struct store *s, const struct table *table, const char *text)
{
	AUTO_STATEMENT sqlite3_stmt *stmt = NULL;
	AUTO_SQL char *sql = NULL;
	int r = restore_statement(s, table, text, &sql);

	if (r < 0 || !sql)
		return r;
	r = prepare(s, sql, text, NULL, &stmt);
	if (r == 0)
		r = statement_run(s, stmt);
	return r < 0 ? r : 0;
}

static int text_id(struct store *s, const char *text, char **ret_id)
{
	AUTO_FREE char *id = NULL;
	/* Whatever it is: one volume, all of whose rows are its own. */
	int r = query_text(s,
			   "SELECT json_extract(?1, '$.volume[0].id') WHERE json_valid(?1) "
			   "AND json_type(?1, '$.volume[0].id') = 'text' "
			   "AND json_type(?1, '$.schemaVersion') = 'integer' "
			   "AND json_array_length(?1, '$.volume') = 1",
			   text, NULL, &id);

	if (r < 0)
		return r == -ENOENT ? -EINVAL : r;
	if (!id || !volume_id_is_valid(id))
		return -EINVAL;
	*ret_id = take_ptr(&id);
	return 0;
}

/* Rows that name another volume: the text was not made by store_volume_dump(). */
static int check_keys(struct store *s, const struct tables *tables, const char *text,
		      const char *id)
{
	for (size_t i = 0; i < tables->count; i++) {
		const struct table *table = &tables->list[i];
		AUTO_SQL char *sql = NULL;
		AUTO_FREE char *other = NULL;
		int r;

		if (strcmp(table->name, "run") == 0)
			continue;
		sql = sqlite3_mprintf("SELECT 1 FROM json_each(?1, '$.\"%w\"') WHERE "
				      "json_extract(value, '$.\"%w\"') IS NOT ?2",
				      table->name, table->key);
		if (!sql)
			return -ENOMEM;
		r = query_text(s, sql, text, id, &other);
		if (r != -ENOENT)
			return r < 0 ? r : -EINVAL;
	}
	return 0;
}

static int restore_volume(struct store *s, const char *text, char **ret_id)
{
	AUTO(tables) *tables = NULL;
	AUTO_FREE char *version = NULL;
	AUTO_FREE char *id = NULL;
	int r = text_id(s, text, &id);
	uint64_t number;

	if (r == 0)
		r = query_text(s, "SELECT json_extract(?1, '$.schemaVersion')", text, NULL,
			       &version);
	if (r == 0 && (!version || parse_u64(version, &number) < 0))
		r = -EINVAL;
	if (r == 0 && number > STORE_SCHEMA_VERSION)
		r = -ENOTSUP;
	if (r == 0)
		r = find_tables(s, &tables);
	if (r == 0)
		r = check_keys(s, tables, text, id);
	for (size_t i = 0; r == 0 && i < tables->count; i++)
		r = restore_table(s, &tables->list[i], text);
	if (r < 0)
		return r;
	database_touch(s, id);
	*ret_id = take_ptr(&id);
	return 0;
}

/* What SQLite's JSON functions do not like of a text is the text's fault. */
static int text_errno(int error)
{
	return error == -EUCLEAN && strstr(store_error_text(), sqlite3_errstr(SQLITE_ERROR)) ?
		       -EINVAL :
		       error;
}

int store_volume_restore(struct store *s, const char *text, char **ret_id)
{
	AUTO_FREE char *id = NULL;
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	r = database_end(s, text_errno(restore_volume(s, text, &id)));
	if (r == 0)
		*ret_id = take_ptr(&id);
	return r == -ENOENT ? -EINVAL : r; /* a run that it names and does not have */
}

/* Of one schema version and one moment; where columns were added since, nothing can be said. */
static int compare(struct store *s, const char *id, const char *text)
{
	static const char sql[] =
		"SELECT json_extract(?1, '$.volume') IS NOT json_extract(?2, '$.volume') "
		"WHERE json_extract(?1, '$.schemaVersion') = json_extract(?2, '$.schemaVersion') "
		"AND json_extract(?1, '$.volume[0].updated_at_ms') = "
		"json_extract(?2, '$.volume[0].updated_at_ms')";
	AUTO_FREE char *own = NULL;
	AUTO_FREE char *differs = NULL;
	int r = dump_volume(s, id, &own);

	if (r == 0)
		r = query_text(s, sql, own, text, &differs);
	if (r == -ENOENT)
		return own ? 0 : r;
	return r < 0 ? r : differs && strcmp(differs, "1") == 0 ? -EUCLEAN : 0;
}

int store_volume_compare(struct store *s, const char *id, const char *text)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = text_errno(compare(s, id, text));
	database_end_read(s);
	return r;
}

int store_text_id(struct store *s, const char *text, char **ret_id)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = text_errno(text_id(s, text, ret_id));
	database_end_read(s);
	return r;
}

void store_watch(struct store *s, void (*changed)(void *arg, const char *volume_id), void *arg)
{
	s->watcher = changed;
	s->watcher_arg = arg;
}
