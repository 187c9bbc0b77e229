// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"
#include "tests/unit/store_fixture.h"

static int set_up(void **state)
{
	AUTO(volume_record) *vol = make_record("v", "secret");
	struct fixture *f;

	store_set_up(state);
	f = *state;
	vol->target = strdup("/target");
	assert_int_equal(store_volume_insert(f->store, vol), 0);
	return 0;
}

static int record(struct store *s, const char *name, const char *metadata, const char *certifies)
{
	struct wrapped_record wrapped = {
		.volume_id = (char *)"v",
		.name = (char *)name,
		.plugin = (char *)"emptyDir",
		.source = (char *)"{\"object\":1}",
		.plugin_metadata = (char *)metadata,
		.certifies = (char *)certifies,
	};

	return store_wrapped_set(s, &wrapped);
}

static void store_wrapped_set_every_field_is_read_back(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(wrapped_record) *intent = NULL, *done = NULL, *none = NULL;

	assert_int_equal(record(s, "data", NULL, NULL), 0);
	assert_int_equal(store_wrapped_get(s, "v", "data", &intent), 0);
	assert_string_equal(intent->volume_id, "v");
	assert_string_equal(intent->name, "data");
	assert_string_equal(intent->plugin, "emptyDir");
	assert_string_equal(intent->source, "{\"object\":1}");
	assert_null(intent->plugin_metadata);
	assert_null(intent->certifies);
	assert_int_equal(record(s, "data", "{\"a\":1}", "handle"), 0);
	assert_int_equal(store_wrapped_get(s, "v", "data", &done), 0);
	assert_string_equal(done->plugin_metadata, "{\"a\":1}");
	assert_string_equal(done->certifies, "handle");
	assert_int_equal(store_wrapped_get(s, "v", "other", &none), -ENOENT);
	assert_null(none);
}

static void store_wrapped_set_bad_record_is_refused(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(wrapped_record) *none = NULL;
	struct wrapped_record wrapped = {
		.volume_id = (char *)"unknown",
		.name = (char *)"data",
		.plugin = (char *)"emptyDir",
		.source = (char *)"{}",
	};

	assert_int_equal(store_wrapped_set(s, &wrapped), -ENOENT);
	assert_int_equal(record(s, "", NULL, NULL), -EINVAL);
	assert_int_equal(record(s, "data", "no json", NULL), -EINVAL);
	assert_int_equal(store_wrapped_get(s, "v", "data", &none), -ENOENT);
}

static void store_wrapped_list_is_ordered_by_name(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	struct wrapped_record **list = NULL;

	assert_int_equal(store_wrapped_list(s, "v", &list), 0);
	assert_null(list);
	assert_int_equal(record(s, "data/inner", NULL, NULL), 0);
	assert_int_equal(record(s, "data", NULL, NULL), 0);
	assert_int_equal(store_wrapped_list(s, "v", &list), 2);
	assert_string_equal(list[0]->name, "data");
	assert_string_equal(list[1]->name, "data/inner");
	store_wrapped_list_free(list, 2);
}

static void store_wrapped_delete_is_idempotent(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(wrapped_record) *none = NULL, *kept = NULL;

	assert_int_equal(record(s, "a", NULL, "handle"), 0);
	assert_int_equal(record(s, "b", NULL, "handle"), 0);
	assert_int_equal(store_wrapped_delete(s, "v", "a"), 0);
	assert_int_equal(store_wrapped_delete(s, "v", "a"), 0);
	assert_int_equal(store_wrapped_get(s, "v", "a", &none), -ENOENT);
	assert_int_equal(store_wrapped_get(s, "v", "b", &kept), 0);
}

static void store_volume_delete_takes_wrapped_along(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(wrapped_record) *none = NULL;

	assert_int_equal(record(s, "data", NULL, "handle"), 0);
	assert_int_equal(store_volume_delete(s, "v"), 0);
	assert_int_equal(store_wrapped_get(s, "v", "data", &none), -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, store_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(store_wrapped_set_every_field_is_read_back),
		TEST(store_wrapped_set_bad_record_is_refused),
		TEST(store_wrapped_list_is_ordered_by_name),
		TEST(store_wrapped_delete_is_idempotent),
		TEST(store_volume_delete_takes_wrapped_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
