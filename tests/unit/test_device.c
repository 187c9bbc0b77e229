// SPDX-License-Identifier: Apache-2.0
#include <sys/sysmacros.h>

#include "plugins/device.h"
#include "tests/unit/fake_host.h"

/* A device that is nowhere: its number is no device's. */
static struct device *make_device(uint64_t size_bytes, const char *serial)
{
	struct device *device = calloc(1, sizeof(*device));

	assert_non_null(device);
	device->fd = -1;
	device->rdev = makedev(0, 12345);
	device->disk_seq = 7;
	device->size_bytes = size_bytes;
	snprintf(device->path, sizeof(device->path), "/dev/none");
	snprintf(device->serial, sizeof(device->serial), "%s", serial);
	return device;
}

static void device_compare_without_a_record_is_right(void **state)
{
	struct fake *f = *state;
	AUTO(device) *device = make_device(1 << 20, "s1");
	AUTO_FREE char *identity = device_identity(&f->b);

	assert_int_equal(device_compare(&f->b, device, "ext4", "u1"), 0);
	assert_string_equal(identity, "");
	assert_null(device_uuid(&f->b));
}

static void device_compare_each_difference_is_named(void **state)
{
	static const struct {
		uint64_t size;
		const char *serial, *type, *uuid, *word;
	} cases[] = {
		{ 1 << 20, "s1", "ext4", "u1", NULL },
		{ 1 << 19, "s1", "ext4", "u1", "size is 524288, not 1048576" },
		{ 2 << 20, "s1", "ext4", "u1", NULL },
		{ 2 << 20, "s1", "ext4", "u2", "UUID is \"u2\", not \"u1\"" },
		{ 2 << 20, "s2", "ext4", "u1", "serial number" },
		{ 1 << 20, "s2", "ext4", "u1", "serial number is \"s2\", not \"s1\"" },
		{ 1 << 20, "", "ext4", "u1", "serial number" },
		{ 1 << 20, "s1", "xfs", "u1", "type is \"xfs\", not \"ext4\"" },
		{ 1 << 20, "s1", "ext4", "u2", "UUID is \"u2\", not \"u1\"" },
		{ 1 << 20, "s1", "", "", "UUID is \"\"" },
	};
	struct fake *f = *state;
	AUTO(device) *recorded = make_device(1 << 20, "s1");

	assert_int_equal(device_record(&f->b, recorded, "ext4", "u1"), 0);
	assert_string_equal(device_uuid(&f->b), "u1");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO(device) *device = make_device(cases[i].size, cases[i].serial);
		int r = device_compare(&f->b, device, cases[i].type, cases[i].uuid);

		assert_int_equal(r, cases[i].word ? -ESTALE : 0);
		if (cases[i].word)
			assert_non_null(strstr(f->b.error, cases[i].word));
	}
}

/* It is recorded before it is formatted: what was not known then says nothing. */
static void device_compare_what_was_not_known_may_be_anything(void **state)
{
	struct fake *f = *state;
	AUTO(device) *device = make_device(1 << 20, ""), *larger = make_device(2 << 20, "");
	AUTO_FREE char *identity = NULL;

	assert_int_equal(device_record(&f->b, device, "", ""), 0);
	assert_int_equal(device_compare(&f->b, device, "ext4", "u1"), 0);
	assert_int_equal(device_compare(&f->b, larger, "ext4", "u1"), -ESTALE);
	assert_int_equal(device_record(&f->b, device, "ext4", "u1"), 0);
	assert_int_equal(device_compare(&f->b, device, "ext4", "u2"), -ESTALE);
	identity = device_identity(&f->b);
	assert_string_equal(identity, "uuid=u1;type=ext4;size=1048576;serial=");
}

static void device_reopen_what_is_gone_is_enodev(void **state)
{
	struct fake *f = *state;
	AUTO(device) *device = make_device(1 << 20, "s1"), *found = NULL;

	assert_int_equal(device_reopen(&f->b, &found), -ENODEV);
	assert_int_equal(device_record(&f->b, device, "ext4", "u1"), 0);
	assert_int_equal(device_reopen(&f->b, &found), -ENODEV);
	f->boot = "boot-2";
	assert_int_equal(device_reopen(&f->b, &found), -ENODEV);
	assert_null(found);
}

static void device_open_what_is_no_device_is_refused(void **state)
{
	struct fake *f = *state;
	AUTO(device) *device = NULL;

	assert_int_equal(device_open(&f->b, "/dev/null", 0, &device), -ENOTBLK);
	assert_int_equal(device_open(&f->b, f->dir, 0, &device), -ENOTBLK);
	assert_int_equal(device_open(&f->b, "/nonexistent", 0, &device), -ENOENT);
	f->allowed = "/srv/";
	assert_int_equal(device_open(&f->b, "/dev/null", 0, &device), -EACCES);
	assert_null(device);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(device_compare_without_a_record_is_right),
		TEST(device_compare_each_difference_is_named),
		TEST(device_compare_what_was_not_known_may_be_anything),
		TEST(device_reopen_what_is_gone_is_enodev),
		TEST(device_open_what_is_no_device_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
