// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

#include <stdio.h>
#include <string.h>

/* "fsgv": tells file(1), and us, whose database this is. */
enum { APPLICATION_ID = 0x66736776 };

/* No other program's database has as many tables that are named as ours are. */
enum { OUR_TABLES_MIN = 4 };

/*
 * The schema: migrations[n] brings a database from user_version n to n + 1. A row that has been
 * released is never changed; a change of the schema is a new row, and a fixture of the version before.
 * Each changes a table or an index: two versions with the same ones would be taken for a damaged number.
 */
static const char *const migrations[] = {
	"CREATE TABLE run ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" id TEXT NOT NULL UNIQUE CHECK (length(id) = 32),"
	" tree TEXT NOT NULL,"
	" wanted TEXT NOT NULL,"
	" epoch TEXT,"
	" finished INTEGER NOT NULL CHECK (finished IN (0, 1)),"
	" seen INTEGER NOT NULL,"
	" changed INTEGER NOT NULL,"
	" correct INTEGER NOT NULL,"
	" excluded INTEGER NOT NULL,"
	" failed INTEGER NOT NULL,"
	" created_at_ms INTEGER NOT NULL,"
	" updated_at_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX run_by_tree ON run (tree, wanted, seq);"

	"CREATE TABLE volume ("
	" id TEXT NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 128),"
	" plugin TEXT NOT NULL,"
	" source TEXT NOT NULL CHECK (json_valid(source)),"
	" source_identity TEXT NOT NULL,"
	" plugin_metadata TEXT CHECK (plugin_metadata IS NULL OR json_valid(plugin_metadata)),"
	/* NULL: staged, and not mounted anywhere. */
	" target TEXT UNIQUE CHECK (target LIKE '/%'),"
	" target_resolved TEXT UNIQUE CHECK (target_resolved LIKE '/%'),"
	/* NULL: unset. (gid_t)-1 is no group. */
	" fs_group INTEGER CHECK (fs_group BETWEEN 0 AND 4294967294),"
	" policy TEXT NOT NULL CHECK (policy IN ('Always', 'OnRootMismatch', 'RootOnly')),"
	" ownership TEXT NOT NULL CHECK (ownership IN ('converge', 'virtual', 'none')),"
	" excludes TEXT NOT NULL CHECK (json_valid(excludes)),"
	" coherence TEXT NOT NULL CHECK (coherence IN ('exclusive', 'shared')),"
	" keep_private INTEGER NOT NULL CHECK (keep_private IN (0, 1)),"
	" read_only INTEGER NOT NULL CHECK (read_only IN (0, 1)),"
	" handoff INTEGER NOT NULL CHECK (handoff IN (0, 1)),"
	" persist INTEGER NOT NULL CHECK (persist IN (0, 1)),"
	" converge_rate INTEGER NOT NULL,"
	" paused INTEGER NOT NULL CHECK (paused IN (0, 1)),"
	" state TEXT NOT NULL CHECK (state IN ('setting-up', 'presented', 'converging', 'converged',"
	"  'native', 'virtual', 'staged', 'absent', 'failed', 'tearing-down')),"
	" reason TEXT,"
	" boot_id TEXT,"
	" mount_id INTEGER NOT NULL,"
	" run_id TEXT REFERENCES run (id),"
	" failures_total INTEGER NOT NULL DEFAULT 0,"
	" created_at_ms INTEGER NOT NULL,"
	" updated_at_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE INDEX volume_by_run ON volume (run_id);"

	"CREATE TABLE marker ("
	" volume_id TEXT NOT NULL PRIMARY KEY REFERENCES volume (id) ON DELETE CASCADE,"
	" certifies TEXT NOT NULL,"
	" at_ms INTEGER NOT NULL"
	") STRICT;"

	"CREATE TABLE failure ("
	" volume_id TEXT NOT NULL REFERENCES volume (id) ON DELETE CASCADE,"
	" number INTEGER NOT NULL,"
	" path TEXT NOT NULL,"
	" error INTEGER NOT NULL CHECK (error > 0),"
	" PRIMARY KEY (volume_id, number)"
	") STRICT;"

	/* Attachable volumes' global mounts. */
	"CREATE TABLE device ("
	" id TEXT NOT NULL PRIMARY KEY,"
	" staging_path TEXT NOT NULL UNIQUE,"
	" identity TEXT NOT NULL,"
	" json TEXT NOT NULL CHECK (json_valid(json))"
	") STRICT;"

	/* Always empty: writing to it and deleting again makes free pages (database.h, the reserve). */
	"CREATE TABLE reserve (data BLOB NOT NULL) STRICT;"

	/* Events outlive their volumes; AUTOINCREMENT keeps ids rising when the last ones are gone. */
	"CREATE TABLE event ("
	" id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" at_ms INTEGER NOT NULL,"
	" volume_id TEXT,"
	" kind TEXT NOT NULL,"
	" message TEXT NOT NULL"
	") STRICT;",

	/* 2: volumes that volumes wrap; certifies is the marker of each. */
	"CREATE TABLE wrapped ("
	" volume_id TEXT NOT NULL REFERENCES volume (id) ON DELETE CASCADE,"
	" name TEXT NOT NULL CHECK (length(name) > 0),"
	" plugin TEXT NOT NULL,"
	" source TEXT NOT NULL CHECK (json_valid(source)),"
	" plugin_metadata TEXT CHECK (plugin_metadata IS NULL OR json_valid(plugin_metadata)),"
	" certifies TEXT,"
	" PRIMARY KEY (volume_id, name)"
	") STRICT;",

	/* 3 */
	("ALTER TABLE volume ADD COLUMN handoff_in_namespaces INTEGER NOT NULL DEFAULT 0"
	 " CHECK (handoff_in_namespaces IN (0, 1));"),

	/* 4 */
	"ALTER TABLE volume ADD COLUMN mount_options TEXT;",

	/* 5 */
	"ALTER TABLE volume ADD COLUMN transport TEXT CHECK (transport IN ('dev', 'io_uring'));",

	/* 6 */
	"ALTER TABLE volume ADD COLUMN idmap INTEGER NOT NULL DEFAULT 0 CHECK (idmap IN (0, 1));",
};

_Static_assert(ARRAY_SIZE(migrations) == STORE_SCHEMA_VERSION, "a migration for every version");

static int query_int(sqlite3 *db, const char *sql, int *ret_value)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		*ret_value = sqlite3_column_int(stmt, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc;
}

int schema_version(sqlite3 *db, int *ret_version)
{
	return query_int(db, "PRAGMA user_version", ret_version);
}

/* The tables of version 1, which every version has. */
static int count_tables(sqlite3 *db, int *ret_ours, int *ret_all)
{
	int rc = query_int(db,
			   "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN"
			   " ('run', 'volume', 'marker', 'failure', 'device', 'reserve', 'event')",
			   ret_ours);

	return rc == SQLITE_OK ? query_int(db, "SELECT count(*) FROM sqlite_schema", ret_all) : rc;
}

static int migrate(sqlite3 *db, int from, int to)
{
	int rc = SQLITE_OK;

	for (int i = from; rc == SQLITE_OK && i < to; i++)
		rc = sqlite3_exec(db, migrations[i], NULL, NULL, NULL);
	return rc;
}

static int migrate_locked(sqlite3 *db)
{
	char stamp[128];
	int version = 0;
	int rc = schema_version(db, &version);

	if (rc == SQLITE_OK)
		rc = migrate(db, version, STORE_SCHEMA_VERSION);
	if (rc != SQLITE_OK)
		return rc;
	snprintf(stamp, sizeof(stamp), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		 APPLICATION_ID, STORE_SCHEMA_VERSION);
	return sqlite3_exec(db, stamp, NULL, NULL, NULL);
}

static int query_schema(sqlite3 *db, sqlite3_stmt **ret_stmt)
{
	/* Statistics are whoever's that has asked for them. */
	return sqlite3_prepare_v2(db,
				  "SELECT name, sql FROM sqlite_schema"
				  " WHERE tbl_name NOT LIKE 'sqlite_stat_' ORDER BY name",
				  -1, ret_stmt, NULL);
}

/* Two statements' next rows have the same two columns, or both have no more rows (*ret_rc is SQLITE_DONE). */
static bool rows_are_same(sqlite3_stmt *a, sqlite3_stmt *b, int *ret_rc)
{
	*ret_rc = sqlite3_step(a);
	if (sqlite3_step(b) != *ret_rc || (*ret_rc != SQLITE_ROW && *ret_rc != SQLITE_DONE))
		return false;
	for (int i = 0; i < 2 && *ret_rc == SQLITE_ROW; i++) {
		const char *mine = (const char *)sqlite3_column_text(a, i);
		const char *other = (const char *)sqlite3_column_text(b, i);

		if (!mine != !other || (mine && strcmp(mine, other) != 0))
			return false;
	}
	return true;
}

/* Whether the tables and indexes are exactly those of a version, to the letter of their definitions. */
static int has_tables_of(sqlite3 *db, int version, bool *ret_same)
{
	sqlite3_stmt *own = NULL, *made = NULL;
	sqlite3 *model = NULL;
	int rc = sqlite3_open_v2(":memory:", &model, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				 NULL);
	int step = SQLITE_ROW;

	if (rc == SQLITE_OK)
		rc = migrate(model, 0, version);
	if (rc == SQLITE_OK)
		rc = query_schema(model, &made);
	if (rc == SQLITE_OK)
		rc = query_schema(db, &own);
	while (rc == SQLITE_OK && step == SQLITE_ROW && rows_are_same(own, made, &step))
		;
	*ret_same = rc == SQLITE_OK && step == SQLITE_DONE;
	sqlite3_finalize(own);
	sqlite3_finalize(made);
	sqlite3_close(model);
	return rc;
}

int schema_kind(sqlite3 *db, enum schema_kind *ret_kind)
{
	int version = 0, application = 0, ours = 0, all = 0, rc;
	bool is_newer, same = false;

	if ((rc = schema_version(db, &version)) != SQLITE_OK ||
	    (rc = query_int(db, "PRAGMA application_id", &application)) != SQLITE_OK ||
	    (rc = count_tables(db, &ours, &all)) != SQLITE_OK)
		return rc;
	if (application == 0 ? version == 0 && all > 0 : application != APPLICATION_ID) {
		/* A flipped bit must not make ours a stranger's, of which nothing would be set aside. */
		*ret_kind = ours >= OUR_TABLES_MIN ? SCHEMA_DAMAGED : SCHEMA_FOREIGN;
		return SQLITE_OK;
	}
	is_newer = version > STORE_SCHEMA_VERSION;
	rc = has_tables_of(db, is_newer ? STORE_SCHEMA_VERSION : version, &same);
	if (is_newer)
		*ret_kind = same ? SCHEMA_DAMAGED : SCHEMA_NEWER;
	else
		/* Else what a definition does not ask for any more would be read, and be of use to nobody. */
		*ret_kind = same ? SCHEMA_OURS : SCHEMA_DAMAGED;
	return rc;
}

int schema_migrate(sqlite3 *db)
{
	int version = 0, r;
	int rc = schema_version(db, &version);

	if (rc != SQLITE_OK || version == STORE_SCHEMA_VERSION)
		return store_errno(db, rc);
	rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return store_errno(db, rc);
	rc = migrate_locked(db);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	r = store_errno(db, rc); /* before the roll-back takes the message away */
	if (!sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}
