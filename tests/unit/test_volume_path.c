// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/volume_path.h"

/* A store with the volumes "outer" at DIR/pods/outer and "inner" below that; the targets need not be there. */
struct fixture {
	char dir[64];
	struct store *store;
};

static const char *const made[] = { "store.db", "store.db-wal", "store.db-shm", "to",
				    "loop",	"up",		"pods" };

static char *path_in(const struct fixture *f, const char *path, char ret_path[256])
{
	snprintf(ret_path, 256, "%s%s", f->dir, path);
	return ret_path;
}

static void insert(struct fixture *f, const char *id, const char *target)
{
	AUTO(volume_record) *vol = volume_record_new();
	char path[256];

	assert_non_null(vol);
	vol->id = strdup(id);
	vol->plugin = strdup("local");
	vol->source = strdup("{}");
	vol->source_identity = strdup("");
	vol->target = strdup(path_in(f, target, path));
	vol->target_resolved = strdup(path);
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	assert_int_equal(store_volume_insert(f->store, vol), 0);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	AUTO_FREE char *set_aside = NULL;
	char path[256], to[256];

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_volume_path.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(store_open(path_in(f, "/store.db", path), &f->store, &set_aside), 0);
	insert(f, "outer", "/pods/outer");
	insert(f, "inner", "/pods/outer/a/inner");
	assert_int_equal(mkdir(path_in(f, "/pods", path), 0755), 0);
	assert_int_equal(symlink(path_in(f, "/pods/outer", to), path_in(f, "/to", path)), 0);
	assert_int_equal(symlink("loop", path_in(f, "/loop", path)), 0);
	assert_int_equal(symlink("pods/../pods", path_in(f, "/up", path)), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char path[256], name[64];

	store_close(f->store);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		snprintf(name, sizeof(name), "/%s", made[i]);
		remove(path_in(f, name, path));
	}
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

static void assert_leads(struct fixture *f, const char *path, const char *id, const char *wanted)
{
	AUTO(volume_record) *vol = NULL;
	AUTO_FREE char *rest = NULL;
	char buffer[256];

	assert_int_equal(volume_of_path(f->store, path_in(f, path, buffer), &vol, &rest), 0);
	assert_string_equal(vol->id, id);
	assert_string_equal(rest, wanted);
}

static void assert_error(struct fixture *f, const char *path, int error)
{
	AUTO(volume_record) *vol = NULL;
	AUTO_FREE char *rest = NULL;
	char buffer[256];

	assert_int_equal(volume_of_path(f->store, path_in(f, path, buffer), &vol, &rest), error);
	assert_null(vol);
}

/* No target is there, so whoever looked at one would fail. */
static void volume_of_path_ends_at_the_target(void **state)
{
	assert_leads(*state, "/pods/outer", "outer", "");
	assert_leads(*state, "/pods/outer/", "outer", "");
	assert_leads(*state, "/pods/./outer//deep/file/", "outer", "deep/file");
	assert_leads(*state, "/pods/../pods/outer/x", "outer", "x");
}

static void volume_of_path_inner_volume_has_its_own(void **state)
{
	assert_leads(*state, "/pods/outer/a", "outer", "a");
	assert_leads(*state, "/pods/outer/a/inner", "inner", "");
	assert_leads(*state, "/pods/outer/a//inner/b/c", "inner", "b/c");
	assert_leads(*state, "/pods/outer/a/innermost", "outer", "a/innermost");
}

static void volume_of_path_follows_links_above(void **state)
{
	assert_leads(*state, "/to/x", "outer", "x");
	assert_leads(*state, "/up/outer/x", "outer", "x");
	assert_error(*state, "/loop/x", -ELOOP);
}

static void volume_of_path_elsewhere_is_no_volume(void **state)
{
	assert_error(*state, "/pods", -ENOENT);
	assert_error(*state, "/pods/other", -ENOENT);
	assert_error(*state, "/none/of/these", -ENOENT);
	/* The last component of what is in no volume is not followed. */
	assert_error(*state, "/to", -ENOENT);
	assert_error(*state, "/store.db/x", -ENOTDIR);
	assert_error(*state, "/pods/outer/../x", -EXDEV);
	assert_error(*state, "/pods/outer/..", -EXDEV);
	assert_leads(*state, "/pods/outer/..x", "outer", "..x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(volume_of_path_ends_at_the_target, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(volume_of_path_inner_volume_has_its_own, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(volume_of_path_follows_links_above, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(volume_of_path_elsewhere_is_no_volume, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
