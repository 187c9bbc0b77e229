// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/dump.h"
#include "store/store.h"
#include "tests/unit/store_fixture.h"

static struct volume_record *make_volume(const char *id)
{
	return make_record(id, "gcePersistentDisk");
}

static struct device_record *make_device(const char *id, const char *staging_path)
{
	struct device_record *device = device_record_new();

	assert_non_null(device);
	device->id = strdup(id);
	device->staging_path = strdup(staging_path);
	device->identity = strdup("");
	device->arguments = strdup("{\"device\":\"/dev/x\"}");
	return device;
}

static int put(struct store *s, const char *id, const char *staging_path)
{
	AUTO(volume_record) *vol = make_volume(id);
	AUTO(device_record) *device = make_device(id, staging_path);

	return store_device_put(s, vol, device);
}

static void store_device_put_is_found_by_id_and_by_path(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(device_record) *by_id = NULL, *by_path = NULL;
	AUTO(volume_record) *vol = NULL;

	assert_int_equal(put(s, "d", "/staging"), 0);
	assert_int_equal(store_device_by_id(s, "d", &by_id), 0);
	assert_string_equal(by_id->staging_path, "/staging");
	assert_string_equal(by_id->identity, "");
	assert_string_equal(by_id->arguments, "{\"device\":\"/dev/x\"}");
	assert_int_equal(store_device_by_staging(s, "/staging", &by_path), 0);
	assert_string_equal(by_path->id, "d");
	assert_int_equal(store_volume_by_id(s, "d", &vol), 0);
	assert_null(vol->target);
	assert_int_equal(store_device_by_id(s, "other", &by_id), -ENOENT);
	assert_int_equal(store_device_by_staging(s, "/other", &by_path), -ENOENT);
}

static void store_device_put_again_replaces_both(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(volume_record) *vol = make_volume("d"), *read = NULL;
	AUTO(device_record) *device = make_device("d", "/staging"), *found = NULL;

	assert_int_equal(put(s, "d", "/staging"), 0);
	vol->state = VOLUME_STAGED;
	vol->mount_id = 77;
	free(device->identity);
	device->identity = strdup("type=ext4");
	assert_int_equal(store_device_put(s, vol, device), 0);
	assert_int_equal(store_volume_by_id(s, "d", &read), 0);
	assert_int_equal(read->state, VOLUME_STAGED);
	assert_int_equal(read->mount_id, 77);
	assert_int_equal(store_device_by_id(s, "d", &found), 0);
	assert_string_equal(found->identity, "type=ext4");
}

static void store_device_put_at_a_taken_path_changes_nothing(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(volume_record) *vol = NULL;
	AUTO(device_record) *device = NULL;

	assert_int_equal(put(s, "d", "/staging"), 0);
	assert_int_equal(put(s, "e", "/staging"), -EEXIST);
	assert_int_equal(store_volume_by_id(s, "e", &vol), -ENOENT);
	assert_int_equal(store_device_by_id(s, "e", &device), -ENOENT);
	assert_int_equal(put(s, "no/id", "/elsewhere"), -EINVAL);
}

static void store_volume_delete_takes_its_device_and_is_idempotent(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(volume_record) *vol = NULL;
	AUTO(device_record) *device = NULL;

	assert_int_equal(put(s, "d", "/staging"), 0);
	assert_int_equal(store_volume_delete(s, "d"), 0);
	assert_int_equal(store_volume_by_id(s, "d", &vol), -ENOENT);
	assert_int_equal(store_device_by_id(s, "d", &device), -ENOENT);
	assert_int_equal(store_volume_delete(s, "d"), 0);
	assert_int_equal(put(s, "e", "/staging"), 0);
}

static void store_volume_dump_has_the_device(void **state)
{
	struct store *s = ((struct fixture *)*state)->store;
	AUTO(device_record) *device = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *id = NULL;

	assert_int_equal(put(s, "d", "/staging"), 0);
	assert_int_equal(store_volume_dump(s, "d", &text), 0);
	assert_int_equal(store_volume_delete(s, "d"), 0);
	assert_int_equal(store_volume_restore(s, text, &id), 0);
	assert_int_equal(store_device_by_id(s, "d", &device), 0);
	assert_string_equal(device->staging_path, "/staging");
}

static void store_device_of_names_the_device_of_consumers_only(void **state)
{
	AUTO(volume_record) *vol = make_volume("c");

	(void)state;
	assert_null(store_device_of(vol));
	free(vol->source_identity);
	vol->source_identity = store_device_consumer("d.1");
	assert_string_equal(store_device_of(vol), "d.1");
	free(vol->source_identity);
	vol->source_identity = NULL;
	assert_null(store_device_of(vol));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, store_set_up, store_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(store_device_put_is_found_by_id_and_by_path),
		TEST(store_device_put_again_replaces_both),
		TEST(store_device_put_at_a_taken_path_changes_nothing),
		TEST(store_volume_delete_takes_its_device_and_is_idempotent),
		TEST(store_volume_dump_has_the_device),
		cmocka_unit_test(store_device_of_names_the_device_of_consumers_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
