// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fake_wrapped.h"

#include "fs/base/parse.h"

static const struct volume_plugin *const plugin = &plugin_claim;

/* A claim and its volume, in which a case changes one value. */
static json_t *objects(void)
{
	json_t *list = json_loads(
		"[{\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":\"c\",\"namespace\":\"ns\","
		"\"uid\":\"u1\"},\"spec\":{\"volumeName\":\"pv\"},\"status\":{\"phase\":\"Bound\"}},"
		"{\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"pv\"},\"spec\":{\"capacity\":{},"
		"\"claimRef\":{\"kind\":\"PersistentVolumeClaim\",\"name\":\"c\",\"namespace\":\"ns\","
		"\"uid\":\"u1\"},\"volumeMode\":\"Filesystem\",\"mountOptions\":[\"noatime\",\"vers=4\"],"
		"\"local\":{\"path\":\"/srv/x\"}}}]",
		0, NULL);

	assert_non_null(list);
	return list;
}

/* The object (0: the claim, 1: the volume) at the path of @keys. */
static json_t *at(json_t *list, size_t index, const char *section)
{
	return json_object_get(json_array_get(list, index), section);
}

static int begin(void **state)
{
	struct fake *f;

	fake_wrapped_begin(state);
	f = *state;
	fake_source(f, "{\"claimName\":\"c\"}");
	f->b.objects = objects();
	f->b.pod_namespace = "ns";
	return 0;
}

static int end(void **state)
{
	struct fake *f = *state;

	json_decref(f->b.objects);
	f->b.objects = NULL;
	return fake_wrapped_end(state);
}

static void set_up_leads_to_the_volume_s_plugin(void **state)
{
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	struct fake *f = *state;
	AUTO_FD int lower = -1;

	wrapped.outcome = OWNERSHIP_PRESENT;
	assert_int_equal(plugin->check(&f->b), 0);
	assert_false(f->b.read_only);
	assert_false(plugin->is_set_up(&f->b));
	if (plugin->set_up(&f->b, 4242, &lower, &outcome) < 0)
		fail_msg("%s", f->b.error);
	assert_int_equal(outcome, OWNERSHIP_PRESENT);
	assert_string_equal(wrapped.plugin, "local");
	assert_string_equal(json_string_value(json_object_get(wrapped.source, "path")), "/srv/x");
	assert_int_equal(wrapped.gid, 4242);
	assert_true(plugin->is_set_up(&f->b));
	assert_true(plugin->manages(&f->b));
	assert_string_equal(json_string_value(json_object_get(f->b.metadata, "namespace")), "ns");
	assert_string_equal(json_string_value(json_object_get(f->b.metadata, "claim")), "c");
	assert_string_equal(json_string_value(json_object_get(f->b.metadata, "volume")), "pv");
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_false(plugin->is_set_up(&f->b));
}

static void ownership_is_that_of_what_it_wraps(void **state)
{
	enum ownership_outcome outcome = OWNERSHIP_DONE;
	struct fake *f = *state;
	AUTO_FD int lower = -1;

	wrapped.outcome = OWNERSHIP_IGNORED;
	assert_int_equal(plugin->set_up(&f->b, 4242, &lower, &outcome), 0);
	assert_int_equal(outcome, OWNERSHIP_IGNORED);
	assert_false(plugin->manages(&f->b));
}

static void is_shared_is_that_of_what_it_wraps(void **state)
{
	struct fake *f = *state;
	json_t *spec = at(f->b.objects, 1, "spec");

	assert_true(plugin->is_shared(&f->b)); /* local */
	json_object_del(spec, "local");
	json_object_set_new(spec, "gcePersistentDisk", json_pack("{s:s}", "pdName", "d"));
	assert_false(plugin->is_shared(&f->b));
	json_decref(f->b.objects);
	f->b.objects = NULL;
	assert_true(plugin->is_shared(&f->b)); /* unknown */
}

static void check_read_only_volumes_make_it_read_only(void **state)
{
	struct fake *f = *state;

	json_object_set_new(json_object_get(at(f->b.objects, 1, "spec"), "local"), "readOnly",
			    json_true());
	assert_int_equal(plugin->check(&f->b), 0);
	assert_true(f->b.read_only);
}

static void check_mistakes_are_named(void **state)
{
	static const struct {
		size_t object;
		const char *section, *key, *value;
		int error;
		const char *words;
	} cases[] = {
		{ 0, "status", "phase", "\"Pending\"", -EAGAIN, "claim c: its phase is Pending" },
		{ 0, "status", "phase", "null", -EAGAIN, "unknown" },
		{ 0, "spec", "volumeName", "\"\"", -EINVAL, "names no volume" },
		{ 0, "spec", "volumeName", "\"other\"", -ENOENT, "PersistentVolume other" },
		{ 0, "metadata", "uid", "\"u2\"", -EPERM, "uid in claimRef" },
		{ 0, "metadata", "uid", "\"\"", -EPERM, "uid in claimRef" },
		{ 1, "spec", "claimRef", "{\"name\":\"c\",\"namespace\":\"other\",\"uid\":\"u1\"}",
		  -EPERM, "namespace in claimRef" },
		{ 1, "spec", "claimRef", "{\"name\":\"d\",\"namespace\":\"ns\",\"uid\":\"u1\"}",
		  -EPERM, "name in claimRef" },
		{ 1, "spec", "claimRef", "{\"name\":\"c\",\"namespace\":\"ns\"}", -EPERM,
		  "uid in claimRef" },
		{ 1, "spec", "claimRef", "null", -EPERM, "claimRef" },
		{ 1, "spec", "volumeMode", "\"Block\"", -EINVAL, "volumeMode Block" },
		{ 1, "spec", "local", "null", -EINVAL, "no source that a plugin is for" },
		{ 1, "spec", "nfs", "{\"server\":\"h\",\"path\":\"/\"}", -EINVAL, "two sources" },
		{ 1, "spec", "persistentVolumeClaim", "{\"claimName\":\"c\"}", -ELOOP, "leads to" },
		{ 1, "spec", "mountOptions", "[1]", -EINVAL, "mountOptions" },
		{ 0, "metadata", "name", "\"d\"", -ENOENT, "PersistentVolumeClaim ns/c" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_decref(f->b.objects);
		f->b.objects = objects();
		json_object_set_new(at(f->b.objects, cases[i].object, cases[i].section),
				    cases[i].key,
				    json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
		f->b.error[0] = '\0';
		assert_int_equal(plugin->check(&f->b), cases[i].error);
		if (!strstr(f->b.error, cases[i].words))
			fail_msg("%zu: %s", i, f->b.error);
	}
	fake_source(f, "{}");
	assert_int_equal(plugin->check(&f->b), -EINVAL);
}

static void set_up_of_another_claim_of_that_name_is_refused(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;
	int lower = -1;

	assert_int_equal(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome), 0);
	cleanup_fd(&lower);
	json_object_set_new(at(f->b.objects, 0, "metadata"), "uid", json_string("u2"));
	json_object_set_new(json_object_get(at(f->b.objects, 1, "spec"), "claimRef"), "uid",
			    json_string("u2"));
	assert_int_equal(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome), -EEXIST);
	assert_non_null(strstr(f->b.error, "another claim now"));
}

static void set_up_without_objects_is_refused(void **state)
{
	enum ownership_outcome outcome;
	struct fake *f = *state;
	int lower = -1;

	json_decref(f->b.objects);
	f->b.objects = NULL;
	assert_int_equal(plugin->check(&f->b), 0);
	assert_int_equal(plugin->set_up(&f->b, GID_UNSET, &lower, &outcome), -ENOENT);
	assert_non_null(strstr(f->b.error, "no objects"));
	assert_int_equal(wrapped.set_ups, 0);
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_HOST(set_up_leads_to_the_volume_s_plugin),
		WITH_HOST(ownership_is_that_of_what_it_wraps),
		WITH_HOST(is_shared_is_that_of_what_it_wraps),
		WITH_HOST(check_read_only_volumes_make_it_read_only),
		WITH_HOST(check_mistakes_are_named),
		WITH_HOST(set_up_of_another_claim_of_that_name_is_refused),
		WITH_HOST(set_up_without_objects_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
