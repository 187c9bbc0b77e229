// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/toy_manager.h"

#include "mountd/flow.h"
#include "mountd/host.h"

/*
 * Toy plugins in the place of the registry: "gitRepo" is what is wrapped, "secret" wraps one of it,
 * "projected" wraps itself.
 */
static struct {
	int inner_set_ups, outer_set_ups, inner_tear_downs;
	int inner_fails, outer_fails; /* -errno; after it has made something */
	int generation;		      /* what the inner one's marker certifies */
	int deepest;
	int restored_from;
} toy;

static json_t *inner_source;

static int toy_check(struct volume_builder *b)
{
	if (json_is_true(json_object_get(b->source, "bad")))
		return builder_fail(b, -EINVAL, "bad: not supported");
	return 0;
}

static char *toy_identity(const struct volume_builder *b)
{
	return json_dumps(b->source, JSON_SORT_KEYS);
}

static int inner_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	(void)gid;
	toy.inner_set_ups++;
	json_object_set_new(b->metadata, "made", json_integer(toy.inner_set_ups));
	if (mkdirat(b->dir_fd, "data", 0700) < 0 && errno != EEXIST)
		return -errno;
	if (toy.inner_fails)
		return builder_fail(b, toy.inner_fails, "the inner one fails");
	*ret_ownership = OWNERSHIP_DONE;
	return builder_open_dir(b, "data", ret_lower);
}

static int inner_certify(struct volume_builder *b, char **ret_text)
{
	(void)b;
	return asprintf(ret_text, "generation %d", toy.generation) < 0 ? -ENOMEM : 0;
}

static int inner_restore(struct volume_builder *b, int version)
{
	toy.restored_from = version;
	json_object_set(b->metadata, "made", json_object_get(b->metadata, "old"));
	json_object_del(b->metadata, "old");
	return 0;
}

static int inner_open_lower(struct volume_builder *b, int *ret_lower)
{
	return builder_open_dir(b, "data", ret_lower);
}

static int inner_tear_down(struct volume_builder *b)
{
	toy.inner_tear_downs++;
	return tree_remove(b->dir_fd, "data", b->error, sizeof(b->error));
}

static const struct volume_plugin toy_inner = {
	.name = "gitRepo",
	.attributes = { .idempotency = IDEMPOTENCY_MARKER,
			.manages_ownership = true,
			.metadata_version = 2 },
	.check = toy_check,
	.identity = toy_identity,
	.set_up = inner_set_up,
	.restore = inner_restore,
	.certify = inner_certify,
	.open_lower = inner_open_lower,
	.tear_down = inner_tear_down,
};

static int outer_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	bool ran = false;
	int r = b->host->set_up(b, "wrapped", "gitRepo", inner_source, gid, ret_lower,
				ret_ownership, &ran);

	if (r < 0)
		return r;
	toy.outer_set_ups++;
	if (toy.outer_fails) {
		cleanup_fd(ret_lower);
		return builder_fail(b, toy.outer_fails, "the outer one fails");
	}
	return 0;
}

static int outer_certify(struct volume_builder *b, char **ret_text)
{
	return b->host->certify(b, "wrapped", ret_text);
}

static int outer_open_lower(struct volume_builder *b, int *ret_lower)
{
	return b->host->open_lower(b, "wrapped", ret_lower);
}

static int outer_tear_down(struct volume_builder *b)
{
	return b->host->tear_down(b, "wrapped");
}

static const struct volume_plugin toy_outer = {
	.name = "secret",
	.attributes = { .idempotency = IDEMPOTENCY_MARKER, .manages_ownership = true },
	.check = toy_check,
	.identity = toy_identity,
	.set_up = outer_set_up,
	.certify = outer_certify,
	.open_lower = outer_open_lower,
	.tear_down = outer_tear_down,
};

static int cycle_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership)
{
	bool ran;

	toy.deepest++;
	return b->host->set_up(b, "wrapped", "projected", b->source, gid, ret_lower, ret_ownership,
			       &ran);
}

static const struct volume_plugin toy_cycle = {
	.name = "projected",
	.check = toy_check,
	.identity = toy_identity,
	.set_up = cycle_set_up,
	.open_lower = outer_open_lower,
	.tear_down = outer_tear_down,
};

const struct volume_plugin *plugin_find(const char *name)
{
	static const struct volume_plugin *const toys[] = { &toy_inner, &toy_outer, &toy_cycle };

	for (size_t i = 0; i < ARRAY_SIZE(toys); i++) {
		if (strcmp(toys[i]->name, name) == 0)
			return toys[i];
	}
	return NULL;
}

const struct volume_plugin *plugin_at(size_t index)
{
	(void)index;
	return NULL;
}

/* ---- the volume that wraps ---- */

static int set_up(void **state)
{
	memset(&toy, 0, sizeof(toy));
	inner_source =
		json_pack("{s:s, s:s}", "repository", "x", "kubernetes.io/secret/key", "canary");
	return manager_set_up(state);
}

static int tear_down(void **state)
{
	json_decref(inner_source);
	return manager_tear_down(state);
}

/* One run of the flow for the presented volume; on success its marker is recorded, as setup does. */
static int run_flow(struct fixture *f, bool *ret_ran)
{
	AUTO(flow) *flow = flow_new(f->work->plugin, &f->work->building);
	int r = flow_set_up(flow, GID_UNSET);

	if (r == 0)
		assert_int_equal(store_setup_done(f->m->store, f->vol, flow->certifies, NULL), 0);
	if (r == 0)
		*ret_ran = flow->ran;
	return r;
}

static const char *builder_error(struct fixture *f)
{
	return f->work->building.b.error;
}

static bool exists(struct fixture *f, const char *name)
{
	struct stat st;

	return fstatat(f->work->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static char *certified(struct fixture *f, const char *name)
{
	AUTO(wrapped_record) *wrapped = NULL;

	if (store_wrapped_get(f->m->store, "v", name, &wrapped) < 0)
		return NULL;
	return take_ptr(&wrapped->certifies);
}

/* ---- tests ---- */

static void wrapped_set_up_has_record_directory_and_marker(void **state)
{
	struct fixture *f = *state;
	AUTO(wrapped_record) *wrapped = NULL;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	assert_true(ran);
	assert_true(exists(f, "wrapped/data"));
	assert_int_equal(store_wrapped_get(f->m->store, "v", "wrapped", &wrapped), 0);
	assert_string_equal(wrapped->plugin, "gitRepo");
	assert_string_equal(wrapped->certifies, "generation 0");
	assert_string_equal(wrapped->plugin_metadata, "{\"made\":1,\"metadataVersion\":2}");
	assert_null(strstr(wrapped->source, "canary"));
}

static void wrapped_set_up_again_runs_nothing(void **state)
{
	struct fixture *f = *state;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	open_work(f);
	assert_int_equal(run_flow(f, &ran), 0);
	assert_false(ran);
	assert_int_equal(toy.outer_set_ups, 1);
	assert_int_equal(toy.inner_set_ups, 1);
}

static void wrapped_set_up_void_marker_runs_both_again(void **state)
{
	struct fixture *f = *state;
	AUTO_FREE char *marker = NULL;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	toy.generation = 1;
	open_work(f);
	assert_int_equal(run_flow(f, &ran), 0);
	assert_true(ran);
	assert_int_equal(toy.inner_set_ups, 2);
	assert_int_equal(toy.outer_set_ups, 2);
	marker = certified(f, "wrapped");
	assert_string_equal(marker, "generation 1");
}

/* As after a crash between the two: the inner one is set up, the outer one is not. */
static void wrapped_set_up_goes_on_after_the_inner_one(void **state)
{
	struct fixture *f = *state;
	bool ran = false;

	insert(f, "secret");
	toy.outer_fails = -EIO;
	assert_int_equal(run_flow(f, &ran), -EIO);
	assert_string_equal(builder_error(f), "the outer one fails");
	toy.outer_fails = 0;
	open_work(f);
	assert_int_equal(run_flow(f, &ran), 0);
	assert_true(ran);
	assert_int_equal(toy.inner_set_ups, 1);
	assert_int_equal(toy.outer_set_ups, 2);
}

static void wrapped_set_up_failure_leaves_no_marker_and_is_torn_down(void **state)
{
	struct fixture *f = *state;
	struct volume_builder *b;
	bool ran = false;

	insert(f, "secret");
	b = &f->work->building.b;
	toy.inner_fails = -ENOSPC;
	assert_int_equal(run_flow(f, &ran), -ENOSPC);
	assert_string_equal(b->error, "gitRepo: the inner one fails");
	assert_null(certified(f, "wrapped"));
	assert_true(exists(f, "wrapped/data"));
	assert_int_equal(f->work->plugin->tear_down(b), 0);
	assert_false(exists(f, "wrapped"));
	assert_int_equal(toy.inner_tear_downs, 1);
}

static void wrapped_tear_down_is_idempotent(void **state)
{
	struct fixture *f = *state;
	struct volume_builder *b;
	AUTO(wrapped_record) *none = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_FD int fd = -1;
	bool ran = false;

	insert(f, "secret");
	b = &f->work->building.b;
	assert_int_equal(b->host->tear_down(b, "wrapped"), 0);
	assert_int_equal(run_flow(f, &ran), 0);
	assert_int_equal(b->host->open_lower(b, "wrapped", &fd), 0);
	assert_int_equal(b->host->tear_down(b, "wrapped"), 0);
	assert_int_equal(b->host->tear_down(b, "wrapped"), 0);
	assert_int_equal(toy.inner_tear_downs, 1);
	assert_false(exists(f, "wrapped"));
	assert_int_equal(store_wrapped_get(f->m->store, "v", "wrapped", &none), -ENOENT);
	cleanup_fd(&fd);
	assert_int_equal(b->host->open_lower(b, "wrapped", &fd), -ENOENT);
	assert_int_equal(b->host->certify(b, "wrapped", &text), -ENOENT);
}

/* Cut off after the directory went, before the record did. */
static void wrapped_tear_down_without_directory_drops_the_record(void **state)
{
	struct fixture *f = *state;
	struct volume_builder *b;
	AUTO(wrapped_record) *none = NULL;
	bool ran = false;

	insert(f, "secret");
	b = &f->work->building.b;
	assert_int_equal(run_flow(f, &ran), 0);
	assert_int_equal(tree_remove(b->dir_fd, "wrapped", b->error, sizeof(b->error)), 0);
	assert_int_equal(b->host->tear_down(b, "wrapped"), 0);
	assert_int_equal(toy.inner_tear_downs, 0);
	assert_int_equal(store_wrapped_get(f->m->store, "v", "wrapped", &none), -ENOENT);
}

static void wrapped_set_up_of_a_cycle_is_eloop(void **state)
{
	struct fixture *f = *state;
	struct volume_builder *b;
	bool ran = false;

	insert(f, "projected");
	b = &f->work->building.b;
	assert_int_equal(run_flow(f, &ran), -ELOOP);
	assert_non_null(strstr(b->error, "deep"));
	assert_int_equal(toy.deepest, PLUGIN_DEPTH_MAX);
	assert_int_equal(f->work->plugin->tear_down(b), 0);
	assert_false(exists(f, "wrapped"));
}

static void wrapped_set_up_of_another_source_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO_FREE char *marker = NULL;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	json_object_set_new(inner_source, "repository", json_string("y"));
	assert_int_equal(store_marker_drop(f->m->store, "v"), 0);
	open_work(f);
	assert_int_equal(run_flow(f, &ran), -EEXIST);
	assert_int_equal(toy.inner_set_ups, 1);
	marker = certified(f, "wrapped");
	assert_string_equal(marker, "generation 0");
}

static void wrapped_set_up_bad_input_is_refused(void **state)
{
	struct fixture *f = *state;
	char *only[] = { (char *)"secret", NULL };
	struct volume_builder *b;
	enum ownership_outcome outcome;
	bool ran = false;
	int fd = -1;

	insert(f, "secret");
	b = &f->work->building.b;
	for (size_t i = 0; i < 4; i++) {
		static const char *const names[] = { "", ".", "..", "a/b" };

		assert_int_equal(b->host->set_up(b, names[i], "gitRepo", inner_source, GID_UNSET,
						 &fd, &outcome, &ran),
				 -EINVAL);
	}
	assert_int_equal(
		b->host->set_up(b, "wrapped", "nfs", inner_source, GID_UNSET, &fd, &outcome, &ran),
		-ENOSYS);
	json_object_set_new(inner_source, "bad", json_true());
	assert_int_equal(run_flow(f, &ran), -EINVAL);
	assert_string_equal(b->error, "gitRepo: bad: not supported");
	json_object_del(inner_source, "bad");
	f->front.plugins = only;
	assert_int_equal(run_flow(f, &ran), -EACCES);
	assert_int_equal(toy.inner_set_ups, 0);
}

/* As if another version of the plugin had recorded it. */
static void record_metadata(struct fixture *f, const char *text)
{
	AUTO(wrapped_record) *wrapped = NULL;

	assert_int_equal(store_wrapped_get(f->m->store, "v", "wrapped", &wrapped), 0);
	free(wrapped->plugin_metadata);
	wrapped->plugin_metadata = strdup(text);
	assert_int_equal(store_wrapped_set(f->m->store, wrapped), 0);
}

static void wrapped_metadata_of_an_earlier_version_is_restored(void **state)
{
	struct fixture *f = *state;
	AUTO(wrapped_record) *wrapped = NULL;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	record_metadata(f, "{\"old\":7,\"metadataVersion\":1}");
	assert_int_equal(store_marker_drop(f->m->store, "v"), 0);
	open_work(f);
	assert_int_equal(run_flow(f, &ran), 0);
	assert_int_equal(toy.restored_from, 1);
	assert_int_equal(toy.inner_set_ups, 1);
	assert_int_equal(store_wrapped_get(f->m->store, "v", "wrapped", &wrapped), 0);
	assert_string_equal(wrapped->plugin_metadata, "{\"made\":7,\"metadataVersion\":2}");
}

static void wrapped_metadata_of_a_newer_version_is_refused(void **state)
{
	struct fixture *f = *state;
	bool ran = false;

	insert(f, "secret");
	assert_int_equal(run_flow(f, &ran), 0);
	record_metadata(f, "{\"new\":7,\"metadataVersion\":3}");
	open_work(f);
	assert_int_equal(run_flow(f, &ran), -ENOTSUP);
	assert_non_null(strstr(builder_error(f), "version 3"));
	assert_int_equal(f->work->plugin->tear_down(&f->work->building.b), -ENOTSUP);
	assert_int_equal(toy.inner_tear_downs, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wrapped_set_up_has_record_directory_and_marker),
		TEST(wrapped_set_up_again_runs_nothing),
		TEST(wrapped_set_up_void_marker_runs_both_again),
		TEST(wrapped_set_up_goes_on_after_the_inner_one),
		TEST(wrapped_set_up_failure_leaves_no_marker_and_is_torn_down),
		TEST(wrapped_tear_down_is_idempotent),
		TEST(wrapped_tear_down_without_directory_drops_the_record),
		TEST(wrapped_set_up_of_a_cycle_is_eloop),
		TEST(wrapped_set_up_of_another_source_is_refused),
		TEST(wrapped_set_up_bad_input_is_refused),
		TEST(wrapped_metadata_of_an_earlier_version_is_restored),
		TEST(wrapped_metadata_of_a_newer_version_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
