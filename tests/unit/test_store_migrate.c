// SPDX-License-Identifier: Apache-2.0
/*
 * Every schema version that ever landed is brought to today's, from a fixture of it (scripts/make-store-fixture);
 * nothing that was on record is lost, and the schema is that of a new store. Runs from the root of the tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "store/dump.h"
#include "store/store.h"

#define RUN "0123456789abcdef0123456789abcdef"

static char dir[] = "/tmp/test_store_migrate.XXXXXX";

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	assert_true(getdelim(&text, &size, '\0', file) > 0);
	fclose(file);
	return text;
}

static void make_from_fixture(int version, const char *path)
{
	AUTO_FREE char *text = NULL;
	sqlite3 *db = NULL;
	char name[64];

	snprintf(name, sizeof(name), "tests/fixtures/store_v%d.sql", version);
	text = read_file(name);
	if (!text)
		fail_msg("no fixture %s: scripts/make-store-fixture makes it", name);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int version_of(const char *path)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;
	int version;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	version = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return version;
}

/* Tables, columns and indexes, whatever way they came to be. */
static char *schema_of(const char *path)
{
	static const char sql[] =
		"SELECT group_concat(t.name || '.' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || c.pk, '\n')"
		" FROM (SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name) t, pragma_table_info(t.name) c"
		" UNION ALL SELECT group_concat(name || ' on ' || tbl_name, '\n') FROM"
		" (SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' ORDER BY name)";
	sqlite3_stmt *stmt = NULL;
	char *text = NULL, *longer;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		assert_true(asprintf(&longer, "%s%s\n", text ? text : "",
				     (const char *)sqlite3_column_text(stmt, 0)) > 0);
		free(text);
		text = longer;
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	assert_non_null(text);
	return text;
}

static void check_contents(struct store *s, int version)
{
	AUTO(volume_record) *running = NULL;
	AUTO(volume_record) *wrapping = NULL;
	AUTO(run_record) *run = NULL;
	AUTO(wrapped_record) *wrapped = NULL;
	AUTO_FREE char *marker = NULL;
	struct failure_record *failures = NULL;
	struct event_record *events = NULL;
	uint64_t total = 0;

	assert_int_equal(store_volume_by_id(s, "running", &running), 0);
	assert_string_equal(running->plugin, "emptyDir");
	assert_non_null(strstr(running->source, "\"emptyDir\":{}"));
	assert_string_equal(running->plugin_metadata, "{\"mountId\":7}");
	assert_string_equal(running->target, "/t/running");
	assert_int_equal(running->fs_group, 4242);
	assert_string_equal(running->policy, "OnRootMismatch");
	assert_string_equal(running->excludes, "[\"*.key\"]");
	assert_int_equal(running->converge_rate, 100);
	assert_true(running->persist && running->handoff && !running->read_only);
	assert_int_equal(running->state, VOLUME_CONVERGING);
	assert_true(running->mount_id == UINT64_MAX);
	assert_string_equal(running->run_id, RUN);
	/* On record since version 4. */
	if (version >= 4)
		assert_string_equal(running->mount_options, "nosuid,noatime");
	else
		assert_null(running->mount_options);
	if (version >= 5)
		assert_string_equal(running->transport, "io_uring");
	else
		assert_null(running->transport);
	assert_int_equal(running->idmap, version >= 6);
	assert_int_equal(store_marker_get(s, "running", &marker), 0);
	assert_string_equal(marker, "handle 1 aabb");
	assert_int_equal(store_run_find(s, "aabb:1.cc", "gid=4242", &run), 0);
	assert_string_equal(run->epoch, "1.000000002");
	assert_int_equal(run->counters.changed, 5);
	assert_int_equal(store_failures_get(s, "running", &failures, &total), 1);
	assert_int_equal(total, 12);
	assert_int_equal(failures[0].error, EPERM);
	store_failures_free(failures, 1);

	assert_int_equal(store_volume_by_id(s, "wrapping", &wrapping), 0);
	assert_true(wrapping->read_only);
	assert_string_equal(wrapping->reason, "a reason");
	/* What a volume wraps is on record since version 2. */
	assert_int_equal(store_wrapped_get(s, "wrapping", "data", &wrapped),
			 version >= 2 ? 0 : -ENOENT);
	if (wrapped)
		assert_string_equal(wrapped->certifies, "tmpfs x 1");

	assert_int_equal(store_event_list(s, 0, 10, &events), 1);
	assert_string_equal(events[0].message, "emptyDir at /t/running");
	store_event_list_free(events, 1);
}

static void every_version_is_migrated(void **state)
{
	AUTO_FREE char *wanted = NULL;
	struct store *s = NULL;
	char *aside = NULL, path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s/new.db", dir);
	assert_int_equal(store_open(path, &s, &aside), 0);
	store_close(s);
	wanted = schema_of(path);
	for (int version = 1; version <= STORE_SCHEMA_VERSION; version++) {
		AUTO_FREE char *schema = NULL;
		AUTO_FREE char *dump = NULL;
		AUTO_FREE char *id = NULL;

		snprintf(path, sizeof(path), "%s/v%d.db", dir, version);
		make_from_fixture(version, path);
		/* Tried first: then it is as it was. */
		assert_int_equal(store_try(path), 0);
		assert_int_equal(version_of(path), version);
		assert_int_equal(store_open(path, &s, &aside), 0);
		assert_null(aside);
		assert_int_equal(store_check(s), 0);
		check_contents(s, version);
		/* It can be written to, and read back from a text. */
		assert_int_equal(store_volume_dump(s, "running", &dump), 0);
		assert_int_equal(store_volume_delete(s, "running"), 0);
		assert_int_equal(store_volume_restore(s, dump, &id), 0);
		assert_int_equal(store_volume_compare(s, "running", dump), 0);
		store_close(s);
		schema = schema_of(path);
		assert_string_equal(schema, wanted);
		assert_int_equal(store_open(path, &s, &aside), 0);
		assert_null(aside);
		store_close(s);
	}
}

/* No fixture may be there for a version that this program does not know: it would be tested by nobody. */
static void fixtures_are_of_known_versions(void **state)
{
	glob_t found;

	(void)state;
	assert_int_equal(glob("tests/fixtures/store_v*.sql", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, STORE_SCHEMA_VERSION);
	globfree(&found);
}

/* ---- texts of volumes ---- */

static void restore_of_foreign_text_is_einval(void **state)
{
	static const char *const texts[] = {
		"",
		"{}",
		"nonsense",
		"[1]",
		"{\"schemaVersion\":1,\"volume\":[]}",
		"{\"schemaVersion\":1,\"volume\":[{\"id\":\"../x\"}]}",
		"{\"schemaVersion\":1,\"volume\":[{\"id\":7}]}",
		"{\"schemaVersion\":1,\"volume\":[{\"id\":\"a\"},{\"id\":\"b\"}]}",
		"{\"schemaVersion\":\"1\",\"volume\":[{\"id\":\"a\"}]}",
		"{\"schemaVersion\":1,\"volume\":[{\"id\":\"a\",\"plugin\":\"x\"}]}",
		"{\"schemaVersion\":1,\"volume\":[{\"id\":\"a\"}],\"marker\":[{\"volume_id\":\"b\"}]}",
	};
	struct store *s = NULL;
	char *aside = NULL, *id = NULL, path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s/texts.db", dir);
	assert_int_equal(store_open(path, &s, &aside), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(store_volume_restore(s, texts[i], &id), -EINVAL);
	assert_int_equal(store_volume_restore(
				 s, "{\"schemaVersion\":99999,\"volume\":[{\"id\":\"a\"}]}", &id),
			 -ENOTSUP);
	assert_null(id);
	assert_int_equal(store_check(s), 0);
	store_close(s);
}

static void restore_of_known_volume_changes_nothing(void **state)
{
	AUTO_FREE char *dump = NULL;
	AUTO_FREE char *after = NULL;
	struct store *s = NULL;
	char *aside = NULL, *id = NULL, path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s/v%d.db", dir, STORE_SCHEMA_VERSION);
	assert_int_equal(store_open(path, &s, &aside), 0);
	assert_int_equal(store_volume_dump(s, "running", &dump), 0);
	assert_int_equal(store_volume_restore(s, dump, &id), -EEXIST);
	assert_int_equal(store_volume_dump(s, "running", &after), 0);
	assert_string_equal(dump, after);
	store_close(s);
}

/* What a restart of the machine changes: every volume a little, in one transaction, or none of it. */
static void batch_is_one_transaction(void **state)
{
	enum { VOLUMES = 120 };
	AUTO_FREE char *id = NULL;
	AUTO(volume_record) *vol = NULL;
	struct volume_record **list = NULL;
	struct store *s = NULL;
	char *aside = NULL, path[80], reason[1000], name[32];

	(void)state;
	snprintf(path, sizeof(path), "%s/batch.db", dir);
	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	assert_int_equal(store_open(path, &s, &aside), 0);
	assert_int_equal(store_batch_begin(s), 0);
	for (int i = 0; i < VOLUMES; i++) {
		char text[1024];

		snprintf(
			text, sizeof(text),
			"{\"schemaVersion\":1,\"volume\":[{\"id\":\"v%d\",\"plugin\":\"emptyDir\","
			"\"source\":\"{}\",\"source_identity\":\"x\",\"target\":\"/t/%d\",\"policy\":\"Always\","
			"\"ownership\":\"converge\",\"excludes\":\"[]\",\"coherence\":\"shared\",\"keep_private\":0,"
			"\"read_only\":0,\"handoff\":1,\"persist\":0,\"converge_rate\":0,\"paused\":0,"
			"\"state\":\"native\",\"mount_id\":1,\"created_at_ms\":1,\"updated_at_ms\":1}]}",
			i, i);
		assert_int_equal(store_volume_restore(s, text, &id), 0);
		free(id);
		id = NULL;
		/* One that fails takes nothing else with it. */
		if (i == VOLUMES / 2)
			assert_int_equal(store_volume_restore(s, text, &id), -EEXIST);
		assert_int_equal(store_event_add(s, "v", "restored", reason), 0);
	}
	assert_int_equal(store_batch_end(s), 0);
	assert_int_equal(store_batch_begin(s), 0);
	for (int i = 0; i < VOLUMES; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		assert_int_equal(store_volume_set_state(s, name, VOLUME_ABSENT, reason, 0), 0);
		assert_int_equal(store_event_add(s, name, "reconstructed", reason), 0);
	}
	assert_int_equal(store_batch_end(s), 0);
	store_close(s);
	assert_int_equal(store_open(path, &s, &aside), 0);
	assert_null(aside);
	assert_int_equal(store_check(s), 0);
	assert_int_equal(store_volume_by_id(s, "v119", &vol), 0);
	assert_int_equal(vol->state, VOLUME_ABSENT);
	assert_int_equal(store_volume_list(s, &list), VOLUMES);
	store_volume_list_free(list, VOLUMES);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_is_migrated),
		cmocka_unit_test(fixtures_are_of_known_versions),
		cmocka_unit_test(restore_of_foreign_text_is_einval),
		cmocka_unit_test(restore_of_known_volume_changes_nothing),
		cmocka_unit_test(batch_is_one_transaction),
	};
	char command[128];
	int failed;

	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) == 0 ? failed : failed + 1;
}
