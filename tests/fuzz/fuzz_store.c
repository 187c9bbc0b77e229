// SPDX-License-Identifier: Apache-2.0
/*
 * A damaged database: a whole one in which bytes are overwritten as the input says: 3 bytes where, 1 byte what,
 * and so on. Whatever is done to it: the store opens, or says why not; nothing is deleted; no call crashes.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "store/dump.h"
#include "tests/fuzz/fuzz.h"

#define VOLUMES 12
#define CHANGES_MAX 64

static char image_path[512], path[512];
static unsigned char *image;
static size_t image_size;

static void add_volume(struct store *s, int number)
{
	struct volume_record *vol = volume_record_new();
	struct run_record run = { .tree = (char *)"tree", .wanted = (char *)"gid=1" };
	struct failure_record failure = { (char *)"a/b", EPERM };
	char run_id[33];

	REQUIRE(vol);
	snprintf(run_id, sizeof(run_id), "%032d", number);
	run.id = run_id;
	REQUIRE(asprintf(&vol->id, "volume-%d", number) > 0 &&
		asprintf(&vol->target, "/target/%d", number) > 0);
	vol->plugin = strdup("emptyDir");
	vol->source = strdup("{\"kind\":\"Volume\",\"schemaVersion\":1,\"object\":{}}");
	vol->source_identity = strdup("x");
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	REQUIRE(store_volume_insert(s, vol) == 0);
	vol->state = VOLUME_CONVERGING;
	REQUIRE(store_setup_done(s, vol, "certified", &run) == 0);
	REQUIRE(store_failures_set(s, vol->id, &failure, 1, 1) == 0);
	REQUIRE(store_event_add(s, vol->id, "mounted", "somewhere") == 0);
	volume_record_free(vol);
}

/* Without the reserve's free pages: they are most of it, and say nothing. */
static void shrink(void)
{
	sqlite3 *db = NULL;

	REQUIRE(sqlite3_open(image_path, &db) == SQLITE_OK);
	REQUIRE(sqlite3_exec(db, "PRAGMA journal_mode = DELETE; VACUUM; PRAGMA journal_mode = WAL",
			     NULL, NULL, NULL) == SQLITE_OK);
	REQUIRE(sqlite3_close(db) == SQLITE_OK);
}

static void remove_all(void)
{
	char pattern[520];
	glob_t names;

	snprintf(pattern, sizeof(pattern), "%s*", path);
	if (glob(pattern, 0, NULL, &names) == 0) {
		for (size_t i = 0; i < names.gl_pathc; i++)
			unlink(names.gl_pathv[i]);
		globfree(&names);
	}
}

static void make_image(void)
{
	const char *dir = getenv("TMPDIR");
	struct store *s = NULL;
	char *aside = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "%s/fuzz_store.db", dir ? dir : "/tmp");
	snprintf(image_path, sizeof(image_path), "%s/fuzz_image.db", dir ? dir : "/tmp");
	remove_all(); /* of a run that was ended */
	REQUIRE(store_open(path, &s, &aside) == 0);
	for (int i = 0; i < VOLUMES; i++)
		add_volume(s, i);
	unlink(image_path);
	REQUIRE(store_backup(s, image_path) == 0);
	store_close(s);
	free(aside);
	shrink();
	file = fopen(image_path, "re");
	REQUIRE(file && fseek(file, 0, SEEK_END) == 0);
	image_size = (size_t)ftell(file);
	image = malloc(image_size);
	rewind(file);
	REQUIRE(image && fread(image, 1, image_size, file) == image_size);
	fclose(file);
}

static void write_damaged(const uint8_t *data, size_t size)
{
	AUTO_FREE unsigned char *bytes = malloc(image_size);
	FILE *file = fopen(path, "we");

	REQUIRE(bytes && file);
	memcpy(bytes, image, image_size);
	for (size_t i = 0; i + 4 <= size && i < 4 * CHANGES_MAX; i += 4) {
		size_t at = (size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2];

		bytes[at % image_size] = data[i + 3];
	}
	REQUIRE(fwrite(bytes, 1, image_size, file) == image_size);
	fclose(file);
	chmod(path, 0600);
}

/* Every kind of call once; what each returns is its own matter, but not a crash. */
static void use(struct store *s)
{
	struct volume_record **list = NULL;
	struct failure_record *failures = NULL;
	struct event_record *events = NULL;
	uint64_t total = 0;
	int n = store_volume_list(s, &list);

	for (int i = 0; i < n; i++) {
		AUTO(run_record) *run = NULL;
		AUTO_FREE char *text = NULL;
		AUTO_FREE char *marker = NULL;
		int count = store_failures_get(s, list[i]->id, &failures, &total);

		if (count >= 0)
			store_failures_free(failures, (size_t)count);
		(void)store_volume_dump(s, list[i]->id, &text);
		(void)store_marker_get(s, list[i]->id, &marker);
		if (list[i]->run_id)
			(void)store_run_get(s, list[i]->run_id, &run);
		(void)store_volume_set_state(s, list[i]->id, VOLUME_FAILED, "fuzz", 1);
		(void)store_volume_delete(s, list[i]->id);
	}
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	n = store_event_list(s, 0, 100, &events);
	if (n >= 0)
		store_event_list_free(events, (size_t)n);
	(void)store_check(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *aside = NULL;
	struct store *s = NULL;
	int r;

	if (!image)
		make_image();
	remove_all();
	write_damaged(data, size);
	r = store_open(path, &s, &aside);
	REQUIRE(r <= 0);
	/* Set aside or left: never gone. */
	REQUIRE(access(aside ? aside : path, F_OK) == 0);
	if (r == 0)
		use(s);
	store_close(s);
	return 0;
}
