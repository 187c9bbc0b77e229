// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/toy_manager.h"

/* "secret" is refreshable and needs objects; "gitRepo" is not refreshable. */
static struct {
	int refreshes, generation;
	gid_t gid;
	bool is_not_set_up, fails;
	char namespace[16];
} toy;

static int toy_check(struct volume_builder *b)
{
	(void)b;
	return 0;
}

static char *toy_identity(const struct volume_builder *b)
{
	(void)b;
	return strdup("");
}

static int toy_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
		      enum ownership_outcome *ret_ownership)
{
	(void)b, (void)gid, (void)ret_lower, (void)ret_ownership;
	fail_msg("%s", "a volume that is set up is not set up again by a refresh");
	return -EIO;
}

static int toy_certify(struct volume_builder *b, char **ret_text)
{
	if (toy.is_not_set_up)
		return builder_fail(b, -ENOENT, "gone");
	return asprintf(ret_text, "generation %d", toy.generation) < 0 ? -ENOMEM : 0;
}

static int toy_refresh(struct volume_builder *b, gid_t gid, bool *ret_changed)
{
	int wanted = (int)json_integer_value(
		json_object_get(json_array_get(b->objects, 0), "generation"));

	toy.refreshes++;
	toy.gid = gid;
	snprintf(toy.namespace, sizeof(toy.namespace), "%s",
		 b->pod_namespace ? b->pod_namespace : "");
	if (toy.fails)
		return builder_fail(b, -EIO, "the toy broke");
	*ret_changed = wanted != toy.generation;
	toy.generation = wanted;
	json_object_set_new(b->metadata, "generation", json_integer(wanted));
	return 0;
}

static int toy_open_lower(struct volume_builder *b, int *ret_lower)
{
	(void)b, (void)ret_lower;
	return -ENOENT;
}

static int toy_tear_down(struct volume_builder *b)
{
	(void)b;
	return 0;
}

static const struct volume_plugin toy_payload = {
	.name = "secret",
	.attributes = { .idempotency = IDEMPOTENCY_MARKER,
			.manages_ownership = true,
			.refreshable = true,
			.is_read_only = true,
			.needs_objects = true },
	.check = toy_check,
	.identity = toy_identity,
	.set_up = toy_set_up,
	.certify = toy_certify,
	.refresh = toy_refresh,
	.open_lower = toy_open_lower,
	.tear_down = toy_tear_down,
};

static const struct volume_plugin toy_plain = {
	.name = "gitRepo",
	.check = toy_check,
	.identity = toy_identity,
	.set_up = toy_set_up,
	.open_lower = toy_open_lower,
	.tear_down = toy_tear_down,
};

const struct volume_plugin *plugin_find(const char *name)
{
	return strcmp(name, "secret") == 0  ? &toy_payload :
	       strcmp(name, "gitRepo") == 0 ? &toy_plain :
					      NULL;
}

const struct volume_plugin *plugin_at(size_t index)
{
	(void)index;
	return NULL;
}

/* A volume that is native, with a marker that says generation 0. */
static struct fixture *make_live(void **state, const char *plugin)
{
	struct fixture *f = *state;

	memset(&toy, 0, sizeof(toy));
	insert(f, plugin);
	f->vol->fs_group = 4242;
	f->vol->state = VOLUME_NATIVE;
	assert_int_equal(store_setup_done(f->m->store, f->vol, "generation 0", NULL), 0);
	return f;
}

static enum proto_exit refresh(struct fixture *f, int generation, struct answer *answer)
{
	json_t *objects = json_pack("[{s:s, s:i}]", "kind", "Secret", "generation", generation);
	enum proto_exit exit = manager_refresh(f->m, FRONT_CTL, "v", objects, NULL, false, answer);

	json_decref(objects);
	return exit;
}

static void manager_refresh_changed_is_recorded(void **state)
{
	struct fixture *f = make_live(state, "secret");
	AUTO(volume_record) *vol = NULL;
	AUTO_FREE char *marker = NULL;
	struct answer answer = { 0 };

	assert_int_equal(refresh(f, 1, &answer), EXIT_OK);
	assert_true(json_is_true(json_object_get(answer.result, "changed")));
	assert_int_equal(toy.gid, 4242);
	assert_string_equal(toy.namespace, "default");
	assert_int_equal(store_marker_get(f->m->store, "v", &marker), 0);
	assert_string_equal(marker, "generation 1");
	assert_int_equal(store_volume_by_id(f->m->store, "v", &vol), 0);
	assert_string_equal(vol->plugin_metadata, "{\"generation\":1}");
	assert_int_equal(vol->state, VOLUME_NATIVE);
	answer_fini(&answer);
}

static void manager_refresh_unchanged_says_so(void **state)
{
	struct fixture *f = make_live(state, "secret");
	struct answer answer = { 0 };

	assert_int_equal(refresh(f, 0, &answer), EXIT_OK);
	assert_true(json_is_false(json_object_get(answer.result, "changed")));
	answer_fini(&answer);
}

static void manager_refresh_without_ownership_tells_no_gid(void **state)
{
	struct fixture *f = make_live(state, "secret");
	struct answer answer = { 0 };

	free(f->vol->ownership);
	f->vol->ownership = strdup("none");
	assert_int_equal(store_volume_update(f->m->store, f->vol), 0);
	assert_int_equal(refresh(f, 1, &answer), EXIT_OK);
	assert_int_equal(toy.gid, GID_UNSET);
	answer_fini(&answer);
}

static void expect_refusal(struct fixture *f, enum proto_exit exit, const char *words)
{
	struct answer answer = { 0 };

	assert_int_equal(refresh(f, 1, &answer), exit);
	assert_non_null(strstr(answer.error, words));
	answer_fini(&answer);
}

static void manager_refresh_what_cannot_be_refreshed_is_refused(void **state)
{
	struct fixture *f = make_live(state, "gitRepo");

	expect_refusal(f, EXIT_FAILED, "gitRepo is not refreshable");
	assert_int_equal(store_volume_delete(f->m->store, "v"), 0);
	expect_refusal(f, EXIT_NO_VOLUME, "no such volume");
}

static void manager_refresh_only_after_set_up(void **state)
{
	struct fixture *f = make_live(state, "secret");
	struct answer answer = { 0 };

	assert_int_equal(manager_refresh(f->m, FRONT_CTL, "v", NULL, NULL, false, &answer),
			 EXIT_FAILED);
	assert_non_null(strstr(answer.error, "needs objects"));
	answer_fini(&answer);
	toy.is_not_set_up = true;
	expect_refusal(f, EXIT_FAILED, "no longer there");
	assert_int_equal(store_volume_set_state(f->m->store, "v", VOLUME_SETTING_UP, NULL, 0), 0);
	expect_refusal(f, EXIT_FAILED, "setting-up");
	assert_int_equal(toy.refreshes, 0);
}

static void manager_refresh_failure_keeps_the_record(void **state)
{
	struct fixture *f = make_live(state, "secret");
	AUTO_FREE char *marker = NULL;

	toy.fails = true;
	expect_refusal(f, EXIT_FAILED, "the toy broke");
	assert_int_equal(store_marker_get(f->m->store, "v", &marker), 0);
	assert_string_equal(marker, "generation 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, manager_set_up, manager_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(manager_refresh_changed_is_recorded),
		TEST(manager_refresh_unchanged_says_so),
		TEST(manager_refresh_without_ownership_tells_no_gid),
		TEST(manager_refresh_what_cannot_be_refreshed_is_refused),
		TEST(manager_refresh_only_after_set_up),
		TEST(manager_refresh_failure_keeps_the_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
