// SPDX-License-Identifier: Apache-2.0
/*
 * The store on a disk without a free byte: tear-down goes on, what adds records is refused, nothing is
 * damaged. Needs root, for a mount namespace of its own with a small tmpfs and a small ext4 in it; exit 77
 * without, or where no loop device is to be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "store/store.h"

enum { VOLUMES = 20 };

static char base[] = "/tmp/test_store_full.XXXXXX";

static struct volume_record *make_volume(const char *id)
{
	struct volume_record *vol = volume_record_new();

	assert_non_null(vol);
	vol->id = strdup(id);
	vol->plugin = strdup("emptyDir");
	vol->source = strdup("{}");
	vol->source_identity = strdup("x");
	assert_true(asprintf(&vol->target, "/target/%s", id) > 0);
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	return vol;
}

static int insert_volume(struct store *s, const char *id)
{
	AUTO(volume_record) *vol = make_volume(id);

	return store_volume_insert(s, vol);
}

static void name_of(int number, char *ret_id, size_t size)
{
	snprintf(ret_id, size, "volume-%d", number);
}

static void populate(struct store *s)
{
	for (int i = 0; i < VOLUMES; i++) {
		struct run_record run = { .tree = (char *)"tree", .wanted = (char *)"gid=1" };
		AUTO(volume_record) *vol = NULL;
		char id[32], run_id[33];

		name_of(i, id, sizeof(id));
		snprintf(run_id, sizeof(run_id), "%032d", i);
		run.id = run_id;
		vol = make_volume(id);
		assert_int_equal(store_volume_insert(s, vol), 0);
		vol->state = VOLUME_CONVERGING;
		assert_int_equal(store_setup_done(s, vol, "certified", &run), 0);
	}
}

/* Fills the file system to the last byte that this process can get. */
static void fill(const char *path)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	static char block[1 << 16];

	assert_true(fd >= 0);
	for (size_t size = sizeof(block); size > 0; size /= 2) {
		while (write(fd, block, size) > 0)
			;
		assert_int_equal(errno, ENOSPC);
	}
	fsync(fd);
}

static struct store *open_store(const char *path)
{
	struct store *s = NULL;
	char *aside = NULL;

	assert_int_equal(store_open(path, &s, &aside), 0);
	assert_null(aside);
	return s;
}

static void tear_down_volume(struct store *s, int number)
{
	AUTO(volume_record) *vol = NULL;
	struct run_counters counters = { 1, 2, 3, 4, 5 };
	char id[32], run_id[33], reason[2000];

	name_of(number, id, sizeof(id));
	snprintf(run_id, sizeof(run_id), "%032d", number);
	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	assert_int_equal(store_volume_set_state(s, id, VOLUME_TEARING_DOWN, reason, 1), 0);
	assert_int_equal(store_volume_by_id(s, id, &vol), 0);
	assert_int_equal(store_run_set_counters(s, run_id, &counters), 0);
	assert_int_equal(store_volume_update(s, vol), 0);
	assert_int_equal(store_marker_drop(s, id), 0);
	assert_int_equal(store_volume_delete(s, id), 0);
}

/* A process that dies on the full disk leaves what the next one can open. */
static void die_on_full_disk(const char *path)
{
	pid_t child = fork();

	if (child == 0) {
		struct store *s = NULL;
		char *aside = NULL;

		if (store_open(path, &s, &aside) == 0)
			store_volume_set_state(s, "volume-10", VOLUME_FAILED, "dying", 0);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void live_through_a_full_disk(const char *dir)
{
	struct volume_record **list = NULL;
	char path[128], filler[128];
	struct store *s;
	int count, added = 0;

	snprintf(path, sizeof(path), "%s/store.db", dir);
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	s = open_store(path);
	populate(s);
	fill(filler);

	/* What adds records is refused before the reserve is touched, not after. */
	for (int i = 0; i < 200; i++) {
		AUTO(volume_record) *vol = NULL;
		char id[32];
		int r;

		snprintf(id, sizeof(id), "extra-%d", i);
		vol = make_volume(id);
		free(vol->source_identity);
		vol->source_identity = calloc(1, 65536);
		assert_non_null(vol->source_identity);
		memset(vol->source_identity, 's', 65535);
		r = store_volume_insert(s, vol);
		if (r < 0) {
			assert_int_equal(r, -ENOSPC);
			break;
		}
		added++;
	}
	assert_true(added < 200);
	assert_int_equal(store_event_add(s, NULL, "kind", "message"), -ENOSPC);

	for (int i = 0; i < VOLUMES / 2; i++)
		tear_down_volume(s, i);
	assert_int_equal(store_check(s), 0);
	store_close(s);
	die_on_full_disk(path);
	s = open_store(path);
	assert_int_equal(store_check(s), 0);
	/* Far more changes than the log's reserve has room for: it is used again and again. */
	for (int i = 0; i < 3000; i++)
		assert_int_equal(store_volume_set_state(s, "volume-19",
							i % 2 ? VOLUME_FAILED : VOLUME_ABSENT,
							i % 2 ? "odd" : NULL, 0),
				 0);
	for (int i = VOLUMES / 2; i < VOLUMES; i++)
		tear_down_volume(s, i);
	count = store_volume_list(s, &list);
	assert_int_equal(count, added);
	for (int i = 0; i < count; i++)
		assert_int_equal(store_volume_delete(s, list[i]->id), 0);
	store_volume_list_free(list, (size_t)count);
	assert_int_equal(store_check(s), 0);

	assert_int_equal(unlink(filler), 0);
	assert_int_equal(insert_volume(s, "again"), 0);
	store_close(s);
	s = open_store(path);
	assert_int_equal(store_volume_delete(s, "again"), 0);
	store_close(s);
}

static void store_on_full_tmpfs_tears_down(void **state)
{
	char dir[64];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/tmpfs", base);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, "size=32m"), 0);
	live_through_a_full_disk(dir);
	assert_int_equal(umount(dir), 0);
}

static void store_on_full_ext4_tears_down(void **state)
{
	char dir[64], command[512];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/ext4", base);
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(
		command, sizeof(command),
		"truncate -s 64M %s/image && mkfs.ext4 -q -m 0 %s/image && mount -o loop %s/image %s",
		base, base, base, dir);
	if (system(command) != 0)
		fail_msg("%s", command);
	live_through_a_full_disk(dir);
	assert_int_equal(umount(dir), 0);
}

/* A store that cannot have its reserve is refused at the first record, and not damaged. */
static void store_on_too_small_disk_is_enospc(void **state)
{
	struct store *s = NULL;
	char dir[64], path[96], *aside = NULL;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/small", base);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, "size=2m"), 0);
	snprintf(path, sizeof(path), "%s/store.db", dir);
	assert_int_equal(store_open(path, &s, &aside), 0);
	assert_int_equal(insert_volume(s, "v"), -ENOSPC);
	assert_int_equal(store_check(s), 0);
	store_close(s);
	assert_int_equal(umount(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(store_on_full_tmpfs_tears_down),
		cmocka_unit_test(store_on_too_small_disk_is_enospc),
		cmocka_unit_test(store_on_full_ext4_tears_down),
	};
	char command[128];
	int failed;

	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		return 77;
	}
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		printf("skipped: no mount namespace: %s\n", strerror(errno));
		return 77;
	}
	if (access("/dev/loop-control", F_OK) < 0) {
		printf("skipped: no loop devices\n");
		return 77;
	}
	if (!mkdtemp(base))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", base);
	if (system(command) != 0)
		failed++;
	return failed;
}
