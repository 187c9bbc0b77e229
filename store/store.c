// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "store/database.h"

/* The log is restarted when it is this long: well within its part of the reserve. */
enum { CHECKPOINT_PAGES = 256, GROW_BYTES = 1 << 20 };

/* A database is three files; the first is the one that SQLite is told. */
static const char *const file_suffixes[] = { "", "-wal", "-shm" };

static int path_join(const char *path, const char *suffix, char **ret_path)
{
	if (asprintf(ret_path, "%s%s", path, suffix) < 0) {
		*ret_path = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* The names in @path's directory, as they are now, survive a power cut. */
static int sync_directory(const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_FD int fd = -1;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

/*
 * Renames what there is of the database's files to the same name with ".damaged-<time>" after it; a
 * suffix stays at the end, so that the set can be opened under its new name for a rescue. The database
 * goes first: should we die in between, its log is what set_aside_orphans() finds.
 */
static int set_aside(const char *path, char **ret_name)
{
	AUTO_FREE char *name = NULL;
	struct timespec now;
	struct tm tm;
	char stamp[32];
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%S", &tm);
	if (asprintf(&name, "%s.damaged-%s.%09ld", path, stamp, now.tv_nsec) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(file_suffixes); i++) {
		AUTO_FREE char *from = NULL, *to = NULL;

		if ((r = path_join(path, file_suffixes[i], &from)) < 0 ||
		    (r = path_join(name, file_suffixes[i], &to)) < 0)
			return r;
		if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) < 0 &&
		    errno != ENOENT)
			return -errno;
	}
	r = sync_directory(path);
	if (r < 0)
		return r;
	free(*ret_name); /* an orphan's, of which the message may go */
	*ret_name = take_ptr(&name);
	return 0;
}

/* A log without a database: SQLite would delete it as soon as it made a new database there. */
static int set_aside_orphans(const char *path, char **ret_name)
{
	AUTO_FREE char *log = NULL;
	struct stat st;
	int r = path_join(path, "-wal", &log);

	if (r < 0)
		return r;
	if (lstat(path, &st) == 0 || lstat(log, &st) < 0)
		return 0;
	return set_aside(path, ret_name);
}

/*
 * Makes the database's file, or takes away what others may do with those that there are. SQLite gives
 * its log and index the mode of the database. An existing database is not opened here: closing any
 * descriptor of it would end the locks of every connection of this process to it (fcntl(2)).
 */
static int claim_files(const char *path)
{
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fchmod(fd, 0600) < 0 ? -errno : sync_directory(path);
	if (errno != EEXIST)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(file_suffixes); i++) {
		AUTO_FREE char *name = NULL;
		struct stat st;
		int r = path_join(path, file_suffixes[i], &name);

		if (r < 0)
			return r;
		if (lstat(name, &st) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		if (!S_ISREG(st.st_mode))
			return S_ISDIR(st.st_mode) ? -EISDIR :
			       S_ISLNK(st.st_mode) ? -ELOOP :
						     -EINVAL;
		if ((st.st_mode & 07777) != 0600 && chmod(name, 0600) < 0)
			return -errno;
	}
	return 0;
}

/* The part of the reserve that is the log's. A log is not locked by descriptor: it may be opened here. */
static int reserve_log(const char *path)
{
	AUTO_FREE char *log = NULL;
	AUTO_FD int fd = -1;
	int r = path_join(path, "-wal", &log);

	if (r < 0)
		return r;
	fd = open(log, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, STORE_RESERVE_BYTES) < 0)
		return -errno;
	return 0;
}

/* Runs a check of SQLite's that answers "ok" or with what is wrong. */
static int run_check(sqlite3 *db, const char *pragma)
{
	sqlite3_stmt *stmt = NULL;
	const char *answer;
	int rc, r = 0;

	rc = sqlite3_prepare_v2(db, pragma, -1, &stmt, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW) {
		r = rc == SQLITE_DONE ? -EIO : store_errno(db, rc);
	} else {
		answer = (const char *)sqlite3_column_text(stmt, 0);
		if (!answer || strcmp(answer, "ok") != 0) {
			store_error_set("%s", answer ? answer : "the check gave no answer");
			r = -EUCLEAN;
		}
	}
	sqlite3_finalize(stmt);
	return r;
}

/* Before anything is written: is it ours, not from the future, and whole? */
static int inspect(sqlite3 *db)
{
	enum schema_kind kind = SCHEMA_OURS;
	int version = 0;
	int r = store_errno(db, schema_kind(db, &kind));

	if (r < 0 || (r = store_errno(db, schema_version(db, &version))) < 0)
		return r;
	switch (kind) {
	case SCHEMA_OURS:
		return run_check(db, "PRAGMA quick_check(1)");
	case SCHEMA_DAMAGED:
		store_error_set("the header and the definitions of the tables do not fit");
		return -EUCLEAN;
	case SCHEMA_FOREIGN:
		store_error_set("the file is another program's database");
		return -EINVAL;
	case SCHEMA_NEWER:
		store_error_set("schema version %d is newer than %d, the newest this program knows",
				version, STORE_SCHEMA_VERSION);
		return -ENOTSUP;
	}
	return -EINVAL;
}

static int configure_connection(sqlite3 *db)
{
	int persist = 1, grow_bytes = GROW_BYTES;

	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, STORE_BUSY_MS);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, STORE_RECORD_MAX);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	/* Until the file is known to be ours to write, closing it must not write it either. */
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
	sqlite3_file_control(db, "main", SQLITE_FCNTL_CHUNK_SIZE, &grow_bytes);
	return store_errno(db, sqlite3_exec(db,
					    "PRAGMA temp_store = MEMORY;"
					    "PRAGMA cell_size_check = ON",
					    NULL, NULL, NULL));
}

static int configure_database(sqlite3 *db)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "PRAGMA journal_mode = WAL;"
		 "PRAGMA synchronous = FULL;"
		 "PRAGMA foreign_keys = ON;"
		 "PRAGMA wal_autocheckpoint = %d;",
		 CHECKPOINT_PAGES);
	return store_errno(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

static int open_database(struct store *s, const char *path)
{
	int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	int r = store_errno(s->db, rc);

	if (r < 0 || (r = configure_connection(s->db)) < 0 || (r = inspect(s->db)) < 0 ||
	    (r = configure_database(s->db)) < 0)
		return r;
	r = schema_migrate(s->db);
	if (r < 0 || (r = store_errno(s->db, database_prepare_all(s))) < 0)
		return r;
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);

	/* A reserve that cannot be had now costs a later -ENOSPC; refusing to open would cost everything. */
	reserve_log(path);
	return 0;
}

static void close_database(struct store *s)
{
	for (size_t i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(s->statements[i]);
		s->statements[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

void database_reopen(struct store *s)
{
	if (s->db && (sqlite3_db_readonly(s->db, "main") == 0 || access(s->path, W_OK) < 0))
		return;
	/* One process has one view of the log's index, and that was opened to be read: it goes first. */
	close_database(s);
	if (open_database(s, s->path) < 0)
		close_database(s);
}

/* The name that AUTO() wants. */
static void store_free(struct store *s)
{
	store_close(s);
}

DEFINE_AUTO(store)

int store_open(const char *path, struct store **ret_store, char **ret_set_aside)
{
	AUTO(store) *s = calloc(1, sizeof(*s));
	AUTO_FREE char *aside = NULL;
	int r;

	if (!s)
		return -ENOMEM;
	store_error_set("%s", "");
	pthread_mutex_init(&s->lock, NULL);
	s->path = strdup(path);
	r = s->path ? set_aside_orphans(path, &aside) : -ENOMEM;
	if (r == 0)
		r = claim_files(path);
	if (r == 0)
		r = open_database(s, path);
	if (r == -EUCLEAN) {
		close_database(s);
		if ((r = set_aside(path, &aside)) < 0 || (r = claim_files(path)) < 0)
			return r;
		r = open_database(s, path);
	}
	if (r < 0)
		return r;

	*ret_store = take_ptr(&s);
	*ret_set_aside = take_ptr(&aside);
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	close_database(s);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

int store_check(struct store *s)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = run_check(s->db, "PRAGMA integrity_check(1)");
	database_end_read(s);
	return r;
}

static int copy_to(sqlite3 *db, sqlite3 *copy)
{
	sqlite3_backup *backup = sqlite3_backup_init(copy, "main", db, "main");
	int rc;

	if (!backup)
		return store_errno(copy, sqlite3_extended_errcode(copy));
	rc = sqlite3_backup_step(backup, -1);
	sqlite3_backup_finish(backup);
	return rc == SQLITE_DONE ? 0 : store_errno(copy, rc);
}

static int try_copy(sqlite3 *db)
{
	sqlite3 *copy = NULL;
	int rc = sqlite3_open_v2(":memory:", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				 NULL);
	int r = store_errno(copy, rc);

	if (r == 0)
		r = copy_to(db, copy);
	if (r == 0)
		r = schema_migrate(copy);
	sqlite3_close(copy);
	return r;
}

int store_try(const char *path)
{
	sqlite3 *db = NULL;
	struct stat st;
	int r;

	store_error_set("%s", "");
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = store_errno(
		db, sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL));
	if (r == 0)
		r = configure_connection(db);
	if (r == 0)
		r = inspect(db);
	if (r == 0)
		r = try_copy(db);
	sqlite3_close(db);
	return r;
}

int store_backup(struct store *s, const char *path)
{
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	sqlite3 *copy = NULL;
	int rc, r, synced;

	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&s->lock);
	rc = sqlite3_open_v2(path, &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	r = store_errno(copy, rc);
	if (r == 0)
		r = copy_to(s->db, copy);
	sqlite3_close(copy);
	pthread_mutex_unlock(&s->lock);

	synced = r == 0 ? fsync(fd) : 0;
	if (synced < 0)
		r = -errno;
	if (r == 0)
		r = sync_directory(path);
	if (r < 0)
		unlink(path); /* half a copy is of no use to anyone */
	return r;
}
