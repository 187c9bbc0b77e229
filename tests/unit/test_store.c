// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fs/base/parse.h"
#include "store/store.h"
#include "tests/unit/store_fixture.h"

#define RUN_A "0123456789abcdef0123456789abcdef"
#define RUN_B "fedcba9876543210fedcba9876543210"

static struct fixture *fixture_of(void **state)
{
	return *state;
}

static void reopen_store(struct fixture *f)
{
	store_close(f->store);
	f->store = NULL;
	open_store(f);
}

/* The number of names that the pattern below the fixture's directory finds. */
static size_t count_names(struct fixture *f, const char *pattern)
{
	char full[160];
	glob_t found;
	size_t count;

	snprintf(full, sizeof(full), "%s/%s", f->dir, pattern);
	if (glob(full, 0, NULL, &found) != 0)
		return 0;
	count = found.gl_pathc;
	globfree(&found);
	return count;
}

static struct volume_record *make_volume(const char *id)
{
	struct volume_record *vol = make_record(id, "emptyDir");

	assert_true(asprintf(&vol->target, "/target/%s", id) > 0);
	assert_true(asprintf(&vol->target_resolved, "/resolved/%s", id) > 0);
	return vol;
}

static struct run_record *make_run(const char *id, const char *tree, const char *wanted)
{
	struct run_record *run = run_record_new();

	assert_non_null(run);
	run->id = strdup(id);
	run->tree = strdup(tree);
	run->wanted = strdup(wanted);
	return run;
}

static void insert_volume(struct store *s, const char *id)
{
	AUTO(volume_record) *vol = make_volume(id);

	assert_int_equal(store_volume_insert(s, vol), 0);
}

static void replace_text(char **io_text, const char *text)
{
	free(*io_text);
	*io_text = text ? strdup(text) : NULL;
}

/* Each version differs from the one before in its number and in its tables (store/schema.c). */
#define NEWER_SCHEMA "ALTER TABLE volume ADD COLUMN later TEXT; PRAGMA user_version = 99"

/* As a few bytes of the file that have changed. */
#define WITHOUT_NOT_NULL                                                                              \
	"PRAGMA writable_schema = ON;"                                                                \
	"UPDATE sqlite_schema SET sql = replace(sql, 'plugin TEXT NOT NULL', 'plugin TEXT     NULL')" \
	" WHERE name = 'volume'"

static int raw_exec(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open(path, &db);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	return rc;
}

static void overwrite(const char *path, off_t offset, size_t len, int byte)
{
	AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);
	AUTO_FREE char *bytes = malloc(len);

	assert_true(fd >= 0);
	assert_non_null(bytes);
	memset(bytes, byte, len);
	assert_int_equal(pwrite(fd, bytes, len, offset), len);
}

static size_t read_file(const char *path, char **ret_bytes)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*ret_bytes = malloc((size_t)st.st_size + 1);
	assert_non_null(*ret_bytes);
	assert_int_equal(read(fd, *ret_bytes, (size_t)st.st_size), st.st_size);
	return (size_t)st.st_size;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
}

/* Closes the store and empties its log, which would heal what a test damages. */
static void close_without_log(struct fixture *f)
{
	char log_name[128];

	store_close(f->store);
	f->store = NULL;
	snprintf(log_name, sizeof(log_name), "%s-wal", f->path);
	assert_int_equal(truncate(log_name, 0), 0);
}

/* --- opening ------------------------------------------------------------------------------------ */

static void store_open_new_has_mode_0600(void **state)
{
	struct fixture *f = fixture_of(state);
	static const char *const suffixes[] = { "", "-wal", "-shm" };

	insert_volume(f->store, "v");
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		char name[128];
		struct stat st;

		snprintf(name, sizeof(name), "%s%s", f->path, suffixes[i]);
		assert_int_equal(stat(name, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
}

static void store_open_wide_umask_has_mode_0600(void **state)
{
	struct fixture *f = fixture_of(state);
	mode_t before = umask(0);
	struct stat st;

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(unlink(f->path), 0);
	strcat(f->path, "2");
	open_store(f);
	umask(before);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void store_open_wide_mode_is_narrowed(void **state)
{
	struct fixture *f = fixture_of(state);
	struct stat st;

	assert_int_equal(chmod(f->path, 0644), 0);
	reopen_store(f);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void store_open_again_keeps_records(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = NULL;

	insert_volume(f->store, "v");
	reopen_store(f);
	assert_int_equal(store_volume_by_id(f->store, "v", &vol), 0);
	assert_int_equal(count_names(f, "*damaged*"), 0);
}

static void store_open_no_directory_fails(void **state)
{
	struct store *s = NULL;
	char *aside = NULL;

	(void)state;
	assert_int_equal(store_open("/nonexistent/store.db", &s, &aside), -ENOENT);
	assert_null(s);
}

static void store_open_directory_is_an_error_not_damage(void **state)
{
	struct fixture *f = fixture_of(state);
	struct store *s = NULL;
	char *aside = NULL;

	assert_int_equal(store_open(f->dir, &s, &aside), -EISDIR);
	assert_int_equal(count_names(f, "*damaged*"), 0);
}

static void store_open_symlink_is_refused(void **state)
{
	struct fixture *f = fixture_of(state);
	struct store *s = NULL;
	char *aside = NULL, link_name[128];

	snprintf(link_name, sizeof(link_name), "%s/link", f->dir);
	assert_int_equal(symlink(f->path, link_name), 0);
	assert_int_equal(store_open(link_name, &s, &aside), -ELOOP);
}

static void store_open_unreadable_is_an_error_not_damage(void **state)
{
	struct fixture *f = fixture_of(state);
	int status = 0;
	pid_t child;

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(chmod(f->dir, 0755), 0);
	child = fork();
	if (child == 0) {
		struct store *s = NULL;
		char *aside = NULL;

		/* Root is refused by becoming another, the owner by the mode. */
		if (geteuid() == 0 ? setresuid(65534, 65534, 65534) < 0 : chmod(f->dir, 0) < 0)
			_exit(2);
		_exit(store_open(f->path, &s, &aside) == -EACCES && !aside ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	chmod(f->dir, 0700);
	assert_int_equal(status, 0);
	assert_int_equal(count_names(f, "*damaged*"), 0);
}

/* Opens a store that must be found damaged, and checks what is left behind. */
static void expect_set_aside(struct fixture *f)
{
	AUTO_FREE char *aside = NULL;
	struct volume_record **list = NULL;
	struct stat st;

	assert_int_equal(store_open(f->path, &f->store, &aside), 0);
	assert_non_null(aside);
	assert_memory_equal(aside, f->path, strlen(f->path));
	assert_non_null(strstr(aside, ".damaged-"));
	assert_int_equal(stat(aside, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(store_volume_list(f->store, &list), 0);
	store_volume_list_free(list, 0);
	insert_volume(f->store, "after");
	assert_int_equal(store_check(f->store), 0);
}

static void store_open_not_a_database_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);

	close_without_log(f);
	overwrite(f->path, 0, 512, 'x');
	expect_set_aside(f);
	assert_int_equal(count_names(f, "store.db.damaged-*-wal"), 1);
	assert_int_equal(count_names(f, "store.db.damaged-*-shm"), 1);
}

static void store_open_damaged_page_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);

	insert_volume(f->store, "v");
	close_without_log(f);
	overwrite(f->path, 4096, 4096 * 3, 0x5a);
	expect_set_aside(f);
}

static void store_open_truncated_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);

	insert_volume(f->store, "v");
	close_without_log(f);
	assert_int_equal(truncate(f->path, 8192), 0);
	expect_set_aside(f);
}

static void store_open_missing_table_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(raw_exec(f->path, "DROP TABLE event"), SQLITE_OK);
	expect_set_aside(f);
}

/* Our tables under another's name or number are a damaged header: else a flipped bit would stop the node. */
static void store_open_wrong_header_is_set_aside(void **state)
{
	static const char *const wrong[] = { "PRAGMA application_id = 7",
					     "PRAGMA user_version = 99", "PRAGMA user_version = 1",
					     "PRAGMA user_version = 0" };
	struct fixture *f = fixture_of(state);

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		store_close(f->store);
		f->store = NULL;
		assert_int_equal(raw_exec(f->path, wrong[i]), SQLITE_OK);
		assert_int_equal(store_try(f->path), -EUCLEAN);
		expect_set_aside(f);
	}
}

/* A definition that asks for less lets in what nobody expects. */
static void store_open_damaged_definition_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(raw_exec(f->path, WITHOUT_NOT_NULL), SQLITE_OK);
	assert_int_equal(store_try(f->path), -EUCLEAN);
	expect_set_aside(f);
}

static void store_open_statistics_are_no_damage(void **state)
{
	struct fixture *f = fixture_of(state);
	struct store *s = NULL;
	char *aside = NULL;

	insert_volume(f->store, "v");
	store_close(f->store);
	f->store = NULL;
	assert_int_equal(raw_exec(f->path, "ANALYZE"), SQLITE_OK);
	assert_int_equal(store_open(f->path, &s, &aside), 0);
	assert_null(aside);
	f->store = s;
}

/* Damage that comes later. */
static void store_null_where_there_must_be_text_is_damage(void **state)
{
	struct fixture *f = fixture_of(state);
	struct volume_record **list = NULL;

	insert_volume(f->store, "v");
	assert_int_equal(raw_exec(f->path, WITHOUT_NOT_NULL), SQLITE_OK);
	assert_int_equal(raw_exec(f->path, "UPDATE volume SET plugin = NULL"), SQLITE_OK);
	assert_int_equal(store_volume_list(f->store, &list), -EUCLEAN);
}

static void store_open_any_flipped_bit_of_the_header_opens_or_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO_FREE char *image = NULL;
	size_t len;

	insert_volume(f->store, "v");
	store_close(f->store); /* and with it, what is in the log is written */
	f->store = NULL;
	len = read_file(f->path, &image);
	for (size_t i = 0; i < 100; i++) {
		AUTO_FREE char *aside = NULL;

		assert_int_equal(raw_exec(f->path, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
		image[i] ^= 1 << i % 8;
		write_file(f->path, image, len);
		image[i] ^= 1 << i % 8;
		assert_int_equal(store_open(f->path, &f->store, &aside), 0);
		close_without_log(f);
	}
}

static void store_open_garbled_schema_text_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO_FREE char *image = NULL;
	char *at;
	size_t len;

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(raw_exec(f->path, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
	len = read_file(f->path, &image);
	at = memmem(image, len, "json_valid", strlen("json_valid"));
	assert_non_null(at);
	at[strlen("json")] = 'X'; /* a function that there is none of */
	write_file(f->path, image, len);
	expect_set_aside(f);
}

static void store_open_log_without_database_is_set_aside(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO_FREE char *aside = NULL;

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(count_names(f, "store.db-wal"), 1);
	assert_int_equal(store_open(f->path, &f->store, &aside), 0);
	assert_non_null(aside);
	assert_int_equal(count_names(f, "store.db.damaged-*-wal"), 1);
}

static void store_open_damaged_twice_keeps_both(void **state)
{
	struct fixture *f = fixture_of(state);

	for (int i = 0; i < 2; i++) {
		close_without_log(f);
		overwrite(f->path, 0, 512, 'x');
		expect_set_aside(f);
	}
	assert_int_equal(count_names(f, "store.db.damaged-*-wal"), 2);
}

static void store_open_newer_schema_is_refused_untouched(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO_FREE char *before = NULL, *after = NULL, *aside = NULL;
	struct store *s = NULL;
	size_t len;

	store_close(f->store);
	f->store = NULL;
	assert_int_equal(raw_exec(f->path, NEWER_SCHEMA), SQLITE_OK);
	assert_int_equal(store_try(f->path), -ENOTSUP);
	len = read_file(f->path, &before);
	assert_int_equal(store_open(f->path, &s, &aside), -ENOTSUP);
	assert_null(s);
	assert_null(aside);
	assert_non_null(strstr(store_error_text(), "99"));
	assert_int_equal(read_file(f->path, &after), len);
	assert_memory_equal(before, after, len);
	assert_int_equal(count_names(f, "*damaged*"), 0);
}

/* The newer program died: its last words are only in the log. They must stay there. */
static void store_open_newer_schema_in_log_is_refused_untouched(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO_FREE char *before = NULL, *after = NULL;
	struct store *s = NULL;
	char *aside = NULL, log_name[128];
	size_t len;
	pid_t child;

	store_close(f->store);
	f->store = NULL;
	child = fork();
	if (child == 0) {
		sqlite3 *db;

		if (sqlite3_open(f->path, &db) != SQLITE_OK ||
		    sqlite3_exec(db, NEWER_SCHEMA, NULL, NULL, NULL) != SQLITE_OK)
			_exit(1);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	snprintf(log_name, sizeof(log_name), "%s-wal", f->path);
	len = read_file(log_name, &before);
	assert_int_equal(store_open(f->path, &s, &aside), -ENOTSUP);
	assert_int_equal(read_file(log_name, &after), len);
	assert_memory_equal(before, after, len);
}

static void store_open_foreign_database_is_refused_untouched(void **state)
{
	struct fixture *f = fixture_of(state);
	struct store *s = NULL;
	char *aside = NULL, other[128];

	snprintf(other, sizeof(other), "%s/other.db", f->dir);
	assert_int_equal(raw_exec(other, "CREATE TABLE theirs (x)"), SQLITE_OK);
	assert_int_equal(store_open(other, &s, &aside), -EINVAL);
	assert_int_equal(raw_exec(other, "PRAGMA application_id = 7; PRAGMA user_version = 1"),
			 SQLITE_OK);
	assert_int_equal(store_open(other, &s, &aside), -EINVAL);
	assert_null(aside);
	assert_int_equal(raw_exec(other, "SELECT x FROM theirs"), SQLITE_OK);
}

/* --- volumes ------------------------------------------------------------------------------------ */

static void store_volume_insert_every_field_is_read_back(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("pod.1_data-x"), *got = NULL;
	AUTO(volume_record) *plain = make_volume("plain");
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1");

	insert_volume(f->store, "other");
	vol->plugin_metadata = strdup("{\"a\":[1,\"\\u0000\"]}");
	vol->fs_group = 4294967294U;
	vol->keep_private = vol->read_only = vol->handoff = vol->persist = vol->paused = true;
	vol->converge_rate = UINT64_MAX;
	vol->mount_id = 1ULL << 40;
	vol->reason = strdup("why \xc3\xa4 \" ' \n");
	vol->boot_id = strdup("boot");
	vol->state = VOLUME_CONVERGING;
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, NULL, run), 0);

	assert_int_equal(store_volume_by_id(f->store, vol->id, &got), 0);
	assert_string_equal(got->id, vol->id);
	assert_string_equal(got->plugin, vol->plugin);
	assert_string_equal(got->source, vol->source);
	assert_string_equal(got->source_identity, vol->source_identity);
	assert_string_equal(got->plugin_metadata, vol->plugin_metadata);
	assert_string_equal(got->target, vol->target);
	assert_string_equal(got->target_resolved, vol->target_resolved);
	assert_int_equal(got->fs_group, vol->fs_group);
	assert_string_equal(got->policy, vol->policy);
	assert_string_equal(got->ownership, vol->ownership);
	assert_string_equal(got->excludes, vol->excludes);
	assert_string_equal(got->coherence, vol->coherence);
	assert_true(got->keep_private && got->read_only && got->handoff && got->persist &&
		    got->paused);
	assert_true(got->converge_rate == UINT64_MAX);
	assert_int_equal(got->state, VOLUME_CONVERGING);
	assert_string_equal(got->reason, vol->reason);
	assert_string_equal(got->boot_id, "boot");
	assert_true(got->mount_id == 1ULL << 40);
	assert_string_equal(got->run_id, RUN_A);
	assert_true(got->created_at_ms > 0);
	assert_true(got->updated_at_ms >= got->created_at_ms);

	volume_record_free(got);
	got = NULL;
	assert_int_equal(store_volume_insert(f->store, plain), 0);
	assert_int_equal(store_volume_by_id(f->store, "plain", &got), 0);
	assert_true(got->fs_group == GID_UNSET);
	assert_false(got->keep_private || got->read_only || got->handoff || got->persist ||
		     got->paused);
	assert_null(got->reason);
	assert_null(got->run_id);
	assert_null(got->boot_id);
	assert_null(got->plugin_metadata);
	assert_int_equal(got->state, VOLUME_SETTING_UP);
}

static void store_volume_insert_taken_is_eexist(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_volume_insert(f->store, vol), -EEXIST);
	replace_text(&vol->id, "w");
	assert_int_equal(store_volume_insert(f->store, vol), -EEXIST); /* the target */
	replace_text(&vol->target, "/elsewhere");
	assert_int_equal(store_volume_insert(f->store, vol), -EEXIST); /* the resolved target */
	replace_text(&vol->target_resolved, "/elsewhere");
	assert_int_equal(store_volume_insert(f->store, vol), 0);
}

static void store_volume_insert_staged_needs_no_target(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *a = make_volume("a"), *b = make_volume("b");

	replace_text(&a->target, NULL);
	replace_text(&a->target_resolved, NULL);
	replace_text(&b->target, NULL);
	replace_text(&b->target_resolved, NULL);
	assert_int_equal(store_volume_insert(f->store, a), 0);
	assert_int_equal(store_volume_insert(f->store, b), 0);
}

static void store_volume_insert_broken_text_is_einval(void **state)
{
	static const struct {
		size_t offset;
		const char *text;
	} cases[] = {
		{ offsetof(struct volume_record, id), NULL },
		{ offsetof(struct volume_record, id), "../x" },
		{ offsetof(struct volume_record, plugin), NULL },
		{ offsetof(struct volume_record, source), "{not json" },
		{ offsetof(struct volume_record, source), NULL },
		{ offsetof(struct volume_record, source_identity), NULL },
		{ offsetof(struct volume_record, plugin_metadata), "}" },
		{ offsetof(struct volume_record, target), "relative" },
		{ offsetof(struct volume_record, target_resolved), "relative" },
		{ offsetof(struct volume_record, policy), "Sometimes" },
		{ offsetof(struct volume_record, ownership), "mine" },
		{ offsetof(struct volume_record, excludes), "*.key" },
		{ offsetof(struct volume_record, coherence), "loose" },
	};
	struct fixture *f = fixture_of(state);
	struct volume_record **list = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(volume_record) *vol = make_volume("v");

		replace_text((void *)((char *)vol + cases[i].offset), cases[i].text);
		assert_int_equal(store_volume_insert(f->store, vol), -EINVAL);
		assert_true(strlen(store_error_text()) > 0);
	}
	assert_int_equal(store_volume_list(f->store, &list), 0);
}

static void store_volume_insert_oversized_text_is_einval(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");

	free(vol->source);
	vol->source = malloc((2 << 20) + 1);
	assert_non_null(vol->source);
	memset(vol->source, '1', 2 << 20);
	vol->source[2 << 20] = '\0';
	assert_int_equal(store_volume_insert(f->store, vol), -EINVAL);
}

static void store_volume_insert_hostile_text_is_only_text(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v"), *got = NULL;

	replace_text(&vol->target, "/x'); DROP TABLE volume; --");
	replace_text(&vol->target_resolved, "/x\" OR 1=1");
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_volume_by_target(f->store, "/' OR 1=1 --", &got), -ENOENT);
	assert_int_equal(store_volume_by_target(f->store, vol->target, &got), 0);
}

static void store_volume_insert_unknown_run_is_enoent(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");

	vol->run_id = strdup(RUN_A);
	assert_int_equal(store_volume_insert(f->store, vol), -ENOENT);
}

static void store_volume_update_replaces_all_but_creation(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = NULL, *got = NULL;
	int64_t created;

	insert_volume(f->store, "v");
	assert_int_equal(store_volume_by_id(f->store, "v", &vol), 0);
	created = vol->created_at_ms;
	vol->created_at_ms = 1;
	vol->fs_group = 2000;
	replace_text(&vol->policy, "RootOnly");
	assert_int_equal(store_volume_update(f->store, vol), 0);
	assert_int_equal(store_volume_by_id(f->store, "v", &got), 0);
	assert_int_equal(got->fs_group, 2000);
	assert_string_equal(got->policy, "RootOnly");
	assert_int_equal(got->created_at_ms, created);
}

static void store_volume_update_unknown_is_enoent(void **state)
{
	AUTO(volume_record) *vol = make_volume("v");

	assert_int_equal(store_volume_update(fixture_of(state)->store, vol), -ENOENT);
}

static void store_volume_update_taken_target_is_eexist(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = NULL;

	insert_volume(f->store, "a");
	insert_volume(f->store, "b");
	assert_int_equal(store_volume_by_id(f->store, "b", &vol), 0);
	replace_text(&vol->target, "/target/a");
	assert_int_equal(store_volume_update(f->store, vol), -EEXIST);
}

static void store_volume_set_state_every_state_is_kept(void **state)
{
	struct fixture *f = fixture_of(state);

	insert_volume(f->store, "v");
	for (int i = VOLUME_SETTING_UP; i <= VOLUME_TEARING_DOWN; i++) {
		AUTO(volume_record) *vol = NULL;

		/* From which every other may be reached. */
		assert_int_equal(store_volume_set_state(f->store, "v", VOLUME_SETTING_UP, NULL, 0),
				 0);
		assert_int_equal(store_volume_set_state(f->store, "v", (enum volume_state)i,
							i % 2 ? "reason" : NULL, (uint64_t)i),
				 0);
		assert_int_equal(store_volume_by_id(f->store, "v", &vol), 0);
		assert_int_equal(vol->state, i);
		assert_int_equal(vol->mount_id, i);
		assert_int_equal(vol->reason != NULL, i % 2);
	}
	assert_int_equal(store_volume_set_state(f->store, "w", VOLUME_NATIVE, NULL, 0), -ENOENT);
}

static void volume_state_from_name_round_trip(void **state)
{
	enum volume_state got = VOLUME_FAILED;

	(void)state;
	for (int i = VOLUME_SETTING_UP; i <= VOLUME_TEARING_DOWN; i++) {
		const char *name = volume_state_name((enum volume_state)i);

		assert_int_equal(volume_state_from_name(name, &got), 0);
		assert_int_equal(got, i);
	}
	assert_int_equal(volume_state_from_name("mounted", &got), -EINVAL);
	assert_int_equal(got, VOLUME_TEARING_DOWN);
}

static void store_volume_by_target_given_goes_before_resolved(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *a = make_volume("a"), *b = make_volume("b"), *got = NULL;

	replace_text(&a->target_resolved, "/shared");
	replace_text(&b->target, "/shared");
	assert_int_equal(store_volume_insert(f->store, a), 0);
	assert_int_equal(store_volume_insert(f->store, b), 0);
	assert_int_equal(store_volume_by_target(f->store, "/shared", &got), 0);
	assert_string_equal(got->id, "b");
	volume_record_free(got);
	got = NULL;
	assert_int_equal(store_volume_by_target(f->store, "/resolved/b", &got), 0);
	assert_string_equal(got->id, "b");
	volume_record_free(got);
	got = NULL;
	assert_int_equal(store_volume_by_target(f->store, "/nowhere", &got), -ENOENT);
	assert_null(got);
}

static void store_volume_list_is_ordered_by_id(void **state)
{
	struct fixture *f = fixture_of(state);
	struct volume_record **list = NULL;

	insert_volume(f->store, "c");
	insert_volume(f->store, "a");
	insert_volume(f->store, "b");
	assert_int_equal(store_volume_list(f->store, &list), 3);
	assert_string_equal(list[0]->id, "a");
	assert_string_equal(list[1]->id, "b");
	assert_string_equal(list[2]->id, "c");
	store_volume_list_free(list, 3);
}

static void store_volume_delete_takes_marker_and_failures_along(void **state)
{
	struct fixture *f = fixture_of(state);
	struct failure_record failure = { (char *)"a", EPERM }, *failures = NULL;
	AUTO(volume_record) *vol = make_volume("v"), *got = NULL;
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1"), *kept = NULL;
	AUTO_FREE char *certifies = NULL;
	uint64_t total = 0;

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, "handle", run), 0);
	assert_int_equal(store_failures_set(f->store, "v", &failure, 1, 1), 0);
	assert_int_equal(store_volume_delete(f->store, "v"), 0);
	assert_int_equal(store_volume_by_id(f->store, "v", &got), -ENOENT);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), -ENOENT);
	assert_int_equal(store_run_get(f->store, RUN_A, &kept), 0);
	assert_int_equal(store_volume_delete(f->store, "v"), 0);

	insert_volume(f->store, "v");
	assert_int_equal(store_failures_get(f->store, "v", &failures, &total), 0);
	assert_int_equal(total, 0);
	store_failures_free(failures, 0);
}

/* --- set-up, markers, runs ---------------------------------------------------------------------- */

static void store_setup_done_records_all_at_once(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v"), *got = NULL;
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1"), *found = NULL;
	AUTO_FREE char *certifies = NULL;

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	vol->plugin_metadata = strdup("{\"medium\":\"\"}");
	vol->state = VOLUME_PRESENTED;
	assert_int_equal(store_setup_done(f->store, vol, "handle", run), 0);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), 0);
	assert_string_equal(certifies, "handle");
	assert_int_equal(store_run_find(f->store, "tree", "gid=1", &found), 0);
	assert_string_equal(found->id, RUN_A);
	assert_false(found->finished);
	assert_null(found->epoch);
	assert_int_equal(store_volume_by_id(f->store, "v", &got), 0);
	assert_string_equal(got->run_id, RUN_A);
	assert_string_equal(got->plugin_metadata, "{\"medium\":\"\"}");
	assert_int_equal(got->state, VOLUME_PRESENTED);
}

static void store_setup_done_failure_leaves_nothing(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1"), *found = NULL;
	AUTO_FREE char *certifies = NULL;

	/* no such volume */
	assert_int_equal(store_setup_done(f->store, vol, "handle", run), -ENOENT);
	assert_int_equal(store_run_get(f->store, RUN_A, &found), -ENOENT);
	/* metadata that is no JSON */
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	vol->plugin_metadata = strdup("{");
	assert_int_equal(store_setup_done(f->store, vol, "handle", run), -EINVAL);
	assert_int_equal(store_run_get(f->store, RUN_A, &found), -ENOENT);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), -ENOENT);
	/* a run id that is none */
	replace_text(&vol->plugin_metadata, NULL);
	replace_text(&run->id, "short");
	assert_int_equal(store_setup_done(f->store, vol, "handle", run), -EINVAL);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), -ENOENT);
}

static void store_setup_done_without_marker_drops_it(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");
	AUTO_FREE char *certifies = NULL;

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, "one", NULL), 0);
	assert_int_equal(store_setup_done(f->store, vol, "two", NULL), 0);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), 0);
	assert_string_equal(certifies, "two");
	assert_int_equal(store_setup_done(f->store, vol, NULL, NULL), 0);
	free(take_ptr(&certifies));
	assert_int_equal(store_marker_get(f->store, "v", &certifies), -ENOENT);
}

static void store_setup_done_known_run_is_taken_over(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *a = make_volume("a"), *b = make_volume("b");
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1"), *got = NULL;
	struct run_counters counters = { 10, 5, 4, 1, 0 };

	assert_int_equal(store_volume_insert(f->store, a), 0);
	assert_int_equal(store_volume_insert(f->store, b), 0);
	assert_int_equal(store_setup_done(f->store, a, NULL, run), 0);
	assert_int_equal(store_run_set_epoch(f->store, RUN_A, "12.5"), 0);
	assert_int_equal(store_run_set_counters(f->store, RUN_A, &counters), 0);
	assert_int_equal(store_setup_done(f->store, b, NULL, run), 0);
	assert_int_equal(store_run_get(f->store, RUN_A, &got), 0);
	assert_string_equal(got->epoch, "12.5");
	assert_int_equal(got->counters.seen, 10);
	replace_text(&run->wanted, "gid=2");
	assert_int_equal(store_setup_done(f->store, b, NULL, run), -EEXIST);
}

static void store_setup_done_new_run_forgets_the_others_of_its_tree(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v"), *other = make_volume("other");
	AUTO(run_record) *first = make_run(RUN_A, "tree", "gid=1"), *found = NULL;
	AUTO(run_record) *second = make_run(RUN_B, "tree", "gid=2");
	AUTO(run_record) *elsewhere =
		make_run("00000000000000000000000000000000", "tree2", "gid=1");
	struct run_counters counters = { 0 };

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_volume_insert(f->store, other), 0);
	assert_int_equal(store_setup_done(f->store, other, NULL, elsewhere), 0);
	assert_int_equal(store_volume_delete(f->store, "other"), 0);
	assert_int_equal(store_setup_done(f->store, vol, NULL, first), 0);
	assert_int_equal(store_run_finish(f->store, RUN_A, &counters), 0);
	assert_int_equal(store_volume_delete(f->store, "v"), 0);
	assert_int_equal(store_run_find(f->store, "tree", "gid=1", &found), 0);
	assert_true(found->finished);
	run_record_free(take_ptr(&found));

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, NULL, second), 1);
	/* gid 2 has overwritten it: that gid 1 was once finished says nothing any more */
	assert_int_equal(store_run_find(f->store, "tree", "gid=1", &found), -ENOENT);
	assert_int_equal(store_run_find(f->store, "tree2", "gid=1", &found), 0);
}

static void store_setup_done_run_in_use_is_kept(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *a = make_volume("a"), *b = make_volume("b");
	AUTO(run_record) *first = make_run(RUN_A, "tree", "gid=1"), *found = NULL;
	AUTO(run_record) *second = make_run(RUN_B, "tree", "gid=1");

	assert_int_equal(store_volume_insert(f->store, a), 0);
	assert_int_equal(store_volume_insert(f->store, b), 0);
	assert_int_equal(store_setup_done(f->store, a, NULL, first), 0);
	assert_int_equal(store_setup_done(f->store, b, NULL, second), 0);
	assert_int_equal(store_run_get(f->store, RUN_A, &found), 0);
	run_record_free(take_ptr(&found));
	assert_int_equal(store_run_find(f->store, "tree", "gid=1", &found), 0);
	assert_string_equal(found->id, RUN_B); /* the newest */
}

/* As when what is wanted of a mounted volume changes, and changes back. */
static void store_run_find_later_run_makes_it_untrue(void **state)
{
	struct fixture *f = fixture_of(state);
	struct run_counters counters = { .seen = 1 };
	AUTO(volume_record) *a = make_volume("a"), *b = make_volume("b");
	AUTO(run_record) *first = make_run(RUN_A, "tree", "gid=1"), *found = NULL;
	AUTO(run_record) *second = make_run(RUN_B, "tree", "gid=2");

	assert_int_equal(store_volume_insert(f->store, a), 0);
	assert_int_equal(store_volume_insert(f->store, b), 0);
	assert_int_equal(store_setup_done(f->store, a, NULL, first), 0);
	assert_int_equal(store_run_finish(f->store, RUN_A, &counters), 0);
	assert_int_equal(store_setup_done(f->store, b, NULL, second), 0);
	assert_int_equal(store_run_get(f->store, RUN_A, &found), 0); /* its volume is there */
	run_record_free(take_ptr(&found));
	assert_int_equal(store_run_find(f->store, "tree", "gid=1", &found), -ENOENT);
	assert_int_equal(store_run_find(f->store, "tree", "gid=2", &found), 0);
}

static void store_marker_drop_is_idempotent(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");
	AUTO_FREE char *certifies = NULL;

	assert_int_equal(store_marker_drop(f->store, "v"), 0);
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, "x", NULL), 0);
	assert_int_equal(store_marker_drop(f->store, "v"), 0);
	assert_int_equal(store_marker_drop(f->store, "v"), 0);
	assert_int_equal(store_marker_get(f->store, "v", &certifies), -ENOENT);
}

static void store_run_functions_unknown_run_is_enoent(void **state)
{
	struct store *s = fixture_of(state)->store;
	struct run_counters counters = { 0 };
	struct run_record *run = NULL;

	assert_int_equal(store_run_get(s, RUN_A, &run), -ENOENT);
	assert_int_equal(store_run_find(s, "t", "w", &run), -ENOENT);
	assert_int_equal(store_run_set_epoch(s, RUN_A, "1.0"), -ENOENT);
	assert_int_equal(store_run_set_counters(s, RUN_A, &counters), -ENOENT);
	assert_int_equal(store_run_finish(s, RUN_A, &counters), -ENOENT);
	assert_null(run);
}

static void store_run_finish_keeps_counters(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v");
	AUTO(run_record) *run = make_run(RUN_A, "tree", "gid=1"), *got = NULL;
	struct run_counters counters = { 1, 2, 3, 4, 5 };

	assert_int_equal(store_volume_insert(f->store, vol), 0);
	assert_int_equal(store_setup_done(f->store, vol, NULL, run), 0);
	assert_int_equal(store_run_finish(f->store, RUN_A, &counters), 0);
	reopen_store(f);
	assert_int_equal(store_run_get(f->store, RUN_A, &got), 0);
	assert_true(got->finished);
	assert_memory_equal(&got->counters, &counters, sizeof(counters));
}

/* --- failures and events ------------------------------------------------------------------------ */

static void store_failures_set_keeps_the_first_and_the_total(void **state)
{
	struct fixture *f = fixture_of(state);
	struct failure_record many[STORE_FAILURES_MAX + 5], *got = NULL;
	uint64_t total = 0;
	int count;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i].path = (char *)(i == 0 ? "dir/first" : "dir/other");
		many[i].error = EPERM;
	}
	insert_volume(f->store, "v");
	assert_int_equal(store_failures_set(f->store, "v", many, ARRAY_SIZE(many), 12345), 0);
	count = store_failures_get(f->store, "v", &got, &total);
	assert_int_equal(count, STORE_FAILURES_MAX);
	assert_int_equal(total, 12345);
	assert_string_equal(got[0].path, "dir/first");
	assert_int_equal(got[1].error, EPERM);
	store_failures_free(got, (size_t)count);

	assert_int_equal(store_failures_set(f->store, "v", NULL, 0, 0), 0);
	assert_int_equal(store_failures_get(f->store, "v", &got, &total), 0);
	assert_int_equal(total, 0);
	store_failures_free(got, 0);
}

static void store_failures_set_bad_record_changes_nothing(void **state)
{
	struct fixture *f = fixture_of(state);
	struct failure_record good = { (char *)"a", EIO },
			      bad[] = { { (char *)"b", EIO }, { NULL, 0 } };
	struct failure_record *got = NULL;
	uint64_t total = 0;

	insert_volume(f->store, "v");
	assert_int_equal(store_failures_set(f->store, "v", &good, 1, 1), 0);
	assert_int_equal(store_failures_set(f->store, "v", bad, 2, 2), -EINVAL);
	assert_int_equal(store_failures_get(f->store, "v", &got, &total), 1);
	assert_string_equal(got[0].path, "a");
	store_failures_free(got, 1);
	assert_int_equal(store_failures_set(f->store, "w", &good, 1, 1), -ENOENT);
	assert_int_equal(store_failures_get(f->store, "w", &got, &total), -ENOENT);
}

static void store_event_list_is_bounded_and_rising(void **state)
{
	struct fixture *f = fixture_of(state);
	struct event_record *list = NULL;
	int64_t last;
	int count;

	assert_int_equal(store_event_add(f->store, "v", "mounted", "one"), 0);
	assert_int_equal(store_event_add(f->store, NULL, "started", "two"), 0);
	assert_int_equal(store_event_add(f->store, "v", NULL, "three"), -EINVAL);
	count = store_event_list(f->store, 0, 10, &list);
	assert_int_equal(count, 2);
	assert_string_equal(list[0].volume_id, "v");
	assert_string_equal(list[0].kind, "mounted");
	assert_string_equal(list[0].message, "one");
	assert_null(list[1].volume_id);
	assert_true(list[1].id > list[0].id);
	assert_true(list[0].at_ms > 0);
	last = list[1].id;
	store_event_list_free(list, 2);
	assert_int_equal(store_event_list(f->store, last, 10, &list), 0);
	store_event_list_free(list, 0);
	assert_int_equal(store_event_list(f->store, 0, 1, &list), 1);
	assert_string_equal(list[0].message, "one");
	store_event_list_free(list, 1);
}

static void store_event_add_the_oldest_go_first(void **state)
{
	struct fixture *f = fixture_of(state);
	struct event_record *list = NULL;
	char sql[300];

	/* Fills the table at once: 10,000 durable calls would take a minute. */
	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		 "INSERT INTO event (at_ms, kind, message) SELECT i, 'k', 'm' FROM n",
		 STORE_EVENTS_MAX);
	assert_int_equal(raw_exec(f->path, sql), SQLITE_OK);
	assert_int_equal(store_event_add(f->store, "v", "last", "m"), 0);
	assert_int_equal(store_event_list(f->store, 0, SIZE_MAX, &list), STORE_EVENTS_MAX);
	assert_int_equal(list[0].id, 2);
	assert_string_equal(list[STORE_EVENTS_MAX - 1].kind, "last");
	store_event_list_free(list, STORE_EVENTS_MAX);
}

/* --- other processes, threads, death ------------------------------------------------------------ */

static void store_volume_insert_locked_by_another_is_eagain(void **state)
{
	struct fixture *f = fixture_of(state);
	AUTO(volume_record) *vol = make_volume("v"), *got = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_volume_insert(f->store, vol), -EAGAIN);
	assert_int_equal(store_volume_by_id(f->store, "v", &got), -ENOENT); /* readers go on */
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	sqlite3_close(db);
}

struct worker {
	struct store *store;
	int number;
	int failed;
};

enum { WORKERS = 8, WORKER_ROUNDS = 20 };

static void *worker_main(void *argument)
{
	struct worker *w = argument;

	for (int i = 0; i < WORKER_ROUNDS; i++) {
		AUTO(volume_record) *vol = NULL, *got = NULL;
		char id[32];

		snprintf(id, sizeof(id), "t%d-%d", w->number, i);
		vol = make_volume(id);
		if (store_volume_insert(w->store, vol) != 0 ||
		    store_setup_done(w->store, vol, id, NULL) != 0 ||
		    store_volume_by_target(w->store, vol->target, &got) != 0 ||
		    strcmp(got->id, id) != 0)
			w->failed++;
		/* The text is this thread's own, whatever the others meet. */
		if (store_volume_insert(w->store, vol) != -EEXIST ||
		    strlen(store_error_text()) == 0)
			w->failed++;
		if (i % 2 && store_volume_delete(w->store, id) != 0)
			w->failed++;
	}
	return NULL;
}

static void store_functions_many_threads_agree(void **state)
{
	struct fixture *f = fixture_of(state);
	struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	struct volume_record **list = NULL;
	int count;

	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ f->store, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].failed, 0);
	}
	count = store_volume_list(f->store, &list);
	assert_int_equal(count, WORKERS * WORKER_ROUNDS / 2);
	store_volume_list_free(list, (size_t)count);
}

/* The child's life: volumes come and go, and each step that has returned is told to the pipe. */
static void live_until_killed(const char *path, int report_fd)
{
	struct store *s = NULL;
	char *aside = NULL;

	if (store_open(path, &s, &aside) != 0)
		_exit(1);
	for (int i = 0;; i++) {
		struct volume_record *vol;
		struct run_record *run;
		char id[32], run_id[33];
		int step[2] = { i, 0 };

		snprintf(id, sizeof(id), "v%d-%d", getpid(), i);
		snprintf(run_id, sizeof(run_id), "%016x%016x", (unsigned)getpid(), (unsigned)i);
		vol = make_volume(id);
		run = make_run(run_id, id, "gid=1");
		if (store_volume_insert(s, vol) != 0)
			_exit(2);
		step[1] = 1;
		if (write(report_fd, step, sizeof(step)) < 0)
			_exit(3);
		vol->state = VOLUME_PRESENTED;
		if (store_setup_done(s, vol, "certified", run) != 0)
			_exit(4);
		step[1] = 2;
		if (write(report_fd, step, sizeof(step)) < 0)
			_exit(3);
		if (i % 3 == 0 && store_volume_delete(s, id) != 0)
			_exit(5);
		step[1] = 3;
		if (write(report_fd, step, sizeof(step)) < 0)
			_exit(3);
		volume_record_free(vol);
		run_record_free(run);
	}
}

/* What a volume's record, its marker and its run say together: set up wholly or not at all. */
static void expect_whole(struct store *s, const struct volume_record *vol)
{
	AUTO(run_record) *run = NULL;
	AUTO_FREE char *certifies = NULL;
	bool done = vol->state == VOLUME_PRESENTED;

	assert_int_equal(store_marker_get(s, vol->id, &certifies), done ? 0 : -ENOENT);
	assert_int_equal(vol->run_id != NULL, done);
	assert_int_equal(store_run_find(s, vol->id, "gid=1", &run), done ? 0 : -ENOENT);
}

static void expect_step_on_record(struct store *s, pid_t child, const int step[2])
{
	AUTO(volume_record) *vol = NULL;
	char id[32];
	int r;

	snprintf(id, sizeof(id), "v%d-%d", child, step[0]);
	r = store_volume_by_id(s, id, &vol);
	if (step[1] == 3 && step[0] % 3 == 0) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	/* the step after the last that was told may have happened, or not */
	if (r == -ENOENT && step[1] == 2 && step[0] % 3 == 0)
		return;
	assert_int_equal(r, 0);
	assert_true(step[1] == 1 || vol->state == VOLUME_PRESENTED);
}

static void store_functions_killed_anywhere_keep_what_was_told(void **state)
{
	struct fixture *f = fixture_of(state);

	store_close(f->store);
	f->store = NULL;
	for (int round = 0; round < 25; round++) {
		struct volume_record **list = NULL;
		int pipe_fds[2], step[2], last[2] = { -1, 0 }, count;
		pid_t child;

		assert_int_equal(pipe(pipe_fds), 0);
		child = fork();
		if (child == 0)
			live_until_killed(f->path, pipe_fds[1]);
		close(pipe_fds[1]);
		usleep(15000 + (useconds_t)round * 1700);
		kill(child, SIGKILL);
		while (read(pipe_fds[0], step, sizeof(step)) == sizeof(step))
			memcpy(last, step, sizeof(last));
		close(pipe_fds[0]);
		assert_int_equal(waitpid(child, NULL, 0), child);

		open_store(f);
		assert_int_equal(store_check(f->store), 0);
		if (last[0] >= 0)
			expect_step_on_record(f->store, child, last);
		count = store_volume_list(f->store, &list);
		assert_true(count >= 0);
		for (int i = 0; i < count; i++)
			expect_whole(f->store, list[i]);
		store_volume_list_free(list, (size_t)count);
		store_close(f->store);
		f->store = NULL;
	}
}

static void store_backup_can_be_opened(void **state)
{
	struct fixture *f = fixture_of(state);
	struct store *copy = NULL;
	AUTO(volume_record) *vol = NULL;
	char path[128], *aside = NULL;
	struct stat st;

	insert_volume(f->store, "v");
	snprintf(path, sizeof(path), "%s/backup.db", f->dir);
	assert_int_equal(store_backup(f->store, path), 0);
	assert_int_equal(store_backup(f->store, path), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(store_open(path, &copy, &aside), 0);
	assert_null(aside);
	assert_int_equal(store_volume_by_id(copy, "v", &vol), 0);
	store_close(copy);
	insert_volume(f->store, "w");
}

static void store_check_damaged_is_euclean(void **state)
{
	struct fixture *f = fixture_of(state);

	assert_int_equal(store_check(f->store), 0);
	insert_volume(f->store, "v");
	reopen_store(f);
	/* Behind our back: what the pages say is no longer what the indexes say. */
	assert_int_equal(raw_exec(f->path,
				  "PRAGMA writable_schema = ON;"
				  "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM "
				  "sqlite_schema WHERE name = 'run_by_tree') "
				  "WHERE name = 'volume_by_run';"
				  "PRAGMA schema_version = 1000"),
			 SQLITE_OK);
	assert_int_equal(store_check(f->store), -EUCLEAN);
	assert_true(strlen(store_error_text()) > 0);
}

static void store_close_null_is_harmless(void **state)
{
	(void)state;
	store_close(NULL);
	volume_record_free(NULL);
	run_record_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, store_set_up, store_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(store_open_new_has_mode_0600),
		TEST(store_open_wide_umask_has_mode_0600),
		TEST(store_open_wide_mode_is_narrowed),
		TEST(store_open_again_keeps_records),
		TEST(store_open_no_directory_fails),
		TEST(store_open_directory_is_an_error_not_damage),
		TEST(store_open_symlink_is_refused),
		TEST(store_open_unreadable_is_an_error_not_damage),
		TEST(store_open_not_a_database_is_set_aside),
		TEST(store_open_damaged_page_is_set_aside),
		TEST(store_open_truncated_is_set_aside),
		TEST(store_open_missing_table_is_set_aside),
		TEST(store_open_log_without_database_is_set_aside),
		TEST(store_open_wrong_header_is_set_aside),
		TEST(store_open_damaged_definition_is_set_aside),
		TEST(store_open_statistics_are_no_damage),
		TEST(store_null_where_there_must_be_text_is_damage),
		TEST(store_open_any_flipped_bit_of_the_header_opens_or_is_set_aside),
		TEST(store_open_garbled_schema_text_is_set_aside),
		TEST(store_open_damaged_twice_keeps_both),
		TEST(store_open_newer_schema_is_refused_untouched),
		TEST(store_open_newer_schema_in_log_is_refused_untouched),
		TEST(store_open_foreign_database_is_refused_untouched),
		TEST(store_volume_insert_every_field_is_read_back),
		TEST(store_volume_insert_taken_is_eexist),
		TEST(store_volume_insert_staged_needs_no_target),
		TEST(store_volume_insert_broken_text_is_einval),
		TEST(store_volume_insert_oversized_text_is_einval),
		TEST(store_volume_insert_hostile_text_is_only_text),
		TEST(store_volume_insert_unknown_run_is_enoent),
		TEST(store_volume_update_replaces_all_but_creation),
		TEST(store_volume_update_unknown_is_enoent),
		TEST(store_volume_update_taken_target_is_eexist),
		TEST(store_volume_set_state_every_state_is_kept),
		TEST(volume_state_from_name_round_trip),
		TEST(store_volume_by_target_given_goes_before_resolved),
		TEST(store_volume_list_is_ordered_by_id),
		TEST(store_volume_delete_takes_marker_and_failures_along),
		TEST(store_setup_done_records_all_at_once),
		TEST(store_setup_done_failure_leaves_nothing),
		TEST(store_setup_done_without_marker_drops_it),
		TEST(store_setup_done_known_run_is_taken_over),
		TEST(store_setup_done_new_run_forgets_the_others_of_its_tree),
		TEST(store_setup_done_run_in_use_is_kept),
		TEST(store_run_find_later_run_makes_it_untrue),
		TEST(store_marker_drop_is_idempotent),
		TEST(store_run_functions_unknown_run_is_enoent),
		TEST(store_run_finish_keeps_counters),
		TEST(store_failures_set_keeps_the_first_and_the_total),
		TEST(store_failures_set_bad_record_changes_nothing),
		TEST(store_event_list_is_bounded_and_rising),
		TEST(store_event_add_the_oldest_go_first),
		TEST(store_volume_insert_locked_by_another_is_eagain),
		TEST(store_functions_many_threads_agree),
		TEST(store_functions_killed_anywhere_keep_what_was_told),
		TEST(store_backup_can_be_opened),
		TEST(store_check_damaged_is_euclean),
		TEST(store_close_null_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
