// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fake_host.h"

struct case_ {
	const char *plugin, *source, *word;
};

static void check_refused_sources_name_the_field(void **state)
{
	static const struct case_ cases[] = {
		{ "gcePersistentDisk", "{}", "pdName: missing" },
		{ "gcePersistentDisk", "{\"pdName\":\"\"}", "pdName: missing" },
		{ "gcePersistentDisk", "{\"pdName\":7}", "pdName: not a string" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"partition\":\"1\"}", "partition" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"partition\":-1}", "partition" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"partition\":256}", "partition" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"fsType\":\"../ext4\"}", "fsType" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"fsType\":\"ext4 -F\"}", "fsType" },
		{ "gcePersistentDisk",
		  "{\"pdName\":\"a\",\"fsType\":\"0123456789012345678901234567890123456789\"}",
		  "fsType" },
		{ "awsElasticBlockStore", "{\"pdName\":\"a\"}", "volumeID: missing" },
		{ "azureDisk", "{\"diskName\":\"a\"}", "diskURI: missing" },
		{ "cinder", "{}", "volumeID: missing" },
		{ "iscsi", "{\"targetPortal\":\"p\",\"iqn\":\"q\"}", "lun: missing" },
		{ "iscsi", "{\"targetPortal\":\"p\",\"iqn\":\"q\",\"lun\":\"0\"}", "lun" },
		{ "fc", "{\"lun\":0}", "targetWWNs: missing" },
		{ "fc", "{\"wwids\":[]}", "targetWWNs: missing" },
		{ "fc", "{\"wwids\":[1]}", "wwids: not an array of strings" },
		{ "fc", "{\"wwids\":\"a\"}", "wwids: not an array of strings" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		f->b.error[0] = '\0';
		assert_int_equal(plugin_find(cases[i].plugin)->check(&f->b), -EINVAL);
		assert_non_null(strstr(f->b.error, cases[i].word));
	}
}

static void check_accepted_sources(void **state)
{
	static const struct case_ cases[] = {
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"partition\":0,\"fsType\":\"ext4\"}" },
		{ "gcePersistentDisk", "{\"pdName\":\"a\",\"partition\":255,\"unknown\":[]}" },
		{ "awsElasticBlockStore", "{\"volumeID\":\"aws://a/b\"}" },
		{ "azureDisk", "{\"diskName\":\"a\",\"diskURI\":\"b\",\"fsType\":null}" },
		{ "cinder", "{\"volumeID\":\"a\",\"partition\":\"not a field of it\"}" },
		{ "iscsi", "{\"targetPortal\":\"p\",\"iqn\":\"q\",\"lun\":0}" },
		{ "fc", "{\"targetWWNs\":[\"a\"],\"lun\":2}" },
		{ "fc", "{\"wwids\":[\"a\",\"b\"]}" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_source(f, cases[i].source);
		assert_int_equal(plugin_find(cases[i].plugin)->check(&f->b), 0);
	}
}

static bool same_identity(struct fake *f, const char *plugin, const char *a, const char *b)
{
	AUTO_FREE char *first = NULL;
	AUTO_FREE char *second = NULL;

	fake_source(f, a);
	first = plugin_find(plugin)->identity(&f->b);
	fake_source(f, b);
	second = plugin_find(plugin)->identity(&f->b);
	assert_non_null(first);
	assert_non_null(second);
	return strcmp(first, second) == 0;
}

static void identity_is_what_names_the_device(void **state)
{
	struct fake *f = *state;

	assert_true(same_identity(f, "gcePersistentDisk", "{\"pdName\":\"a\"}",
				  "{\"partition\":0,\"fsType\":\"xfs\",\"pdName\":\"a\"}"));
	assert_false(same_identity(f, "gcePersistentDisk", "{\"pdName\":\"a\"}",
				   "{\"pdName\":\"a\",\"partition\":1}"));
	assert_false(same_identity(f, "cinder", "{\"volumeID\":\"a\"}", "{\"volumeID\":\"b\"}"));
	assert_false(same_identity(f, "iscsi", "{\"targetPortal\":\"p\",\"iqn\":\"q\",\"lun\":0}",
				   "{\"targetPortal\":\"p\",\"iqn\":\"q\",\"lun\":1}"));
	assert_false(same_identity(f, "fc", "{\"targetWWNs\":[\"a\"],\"lun\":1}",
				   "{\"targetWWNs\":[\"a\"],\"lun\":2}"));
	assert_false(same_identity(f, "fc", "{\"targetWWNs\":[\"a\"]}", "{\"wwids\":[\"a\"]}"));
}

static int not_staged(struct volume_builder *b, int *ret_fd)
{
	(void)ret_fd;
	snprintf(b->error, sizeof(b->error), "is not staged");
	return -ENOENT;
}

static void set_up_without_a_staged_device_is_enoent(void **state)
{
	const struct volume_plugin *plugin = plugin_find("gcePersistentDisk");
	struct fake *f = *state;
	struct host host = *f->b.host;
	enum ownership_outcome outcome;
	AUTO_FD int lower = -1;

	host.open_staged = not_staged;
	f->b.host = &host;
	fake_source(f, "{\"pdName\":\"a\"}");
	assert_false(plugin->is_set_up(&f->b));
	assert_int_equal(plugin->set_up(&f->b, 1234, &lower, &outcome), -ENOENT);
	assert_string_equal(f->b.error, "is not staged");
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(plugin->tear_down(&f->b), 0);
}

static char staged_path[PATH_MAX];

static int open_staged(struct volume_builder *b, int *ret_fd)
{
	(void)b;
	*ret_fd = open(staged_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static void set_up_binds_what_is_staged_once(void **state)
{
	const struct volume_plugin *plugin = plugin_find("iscsi");
	struct fake *f = *state;
	struct host host = *f->b.host;
	enum ownership_outcome outcome;

	host.open_staged = open_staged;
	f->b.host = &host;
	snprintf(staged_path, sizeof(staged_path), "%s/staged", f->dir);
	assert_int_equal(mkdir(staged_path, 0755), 0);
	for (int i = 0; i < 2; i++) {
		AUTO_FD int lower = -1;

		assert_int_equal(plugin->set_up(&f->b, i == 0 ? 1234 : GID_UNSET, &lower, &outcome),
				 0);
		assert_int_equal(outcome, i == 0 ? OWNERSHIP_PRESENT : OWNERSHIP_DONE);
		assert_true(lower >= 0);
		assert_int_equal(f->mounts, 1);
		assert_true(plugin->is_set_up(&f->b));
	}
	f->boot = "boot-2";
	assert_false(plugin->is_set_up(&f->b));
	f->boot = "boot-1";
	f->busy = true;
	assert_int_equal(plugin->tear_down(&f->b), -EBUSY);
	f->busy = false;
	assert_int_equal(plugin->tear_down(&f->b), 0);
	assert_int_equal(f->unmounts, 1);
}

/* Nothing was mounted: unstaging has nothing to wait for. */
static void unmount_device_that_was_never_mounted_is_done(void **state)
{
	const struct volume_plugin *plugin = plugin_find("cinder");
	struct fake *f = *state;
	const struct device_place place = { .dir_fd = f->b.dir_fd, .name = "device", .path = "x" };

	assert_int_equal(plugin->unmount_device(&f->b, &place), 0);
	assert_null(plugin->device_unfinished(&f->b));
}

/* A device that cannot be: what is at the path is told, and nothing is mounted or recorded. */
static void mount_device_of_what_is_no_device_is_refused(void **state)
{
	const struct volume_plugin *plugin = plugin_find("cinder");
	struct fake *f = *state;
	const struct device_place place = { .dir_fd = f->b.dir_fd, .name = "device", .path = "x" };
	struct device_request request = { .path = "/dev/null", .format = true };

	fake_source(f, "{\"volumeID\":\"a\",\"fsType\":\"xfs\"}");
	assert_int_equal(plugin->mount_device(&f->b, &request, &place), -ENOTBLK);
	assert_non_null(strstr(f->b.error, "/dev/null: not a block device"));
	request.path = "/nonexistent";
	assert_int_equal(plugin->mount_device(&f->b, &request, &place), -ENOENT);
	request.fs_type = "ext4";
	assert_int_equal(plugin->mount_device(&f->b, &request, &place), -EINVAL);
	assert_non_null(strstr(f->b.error, "two conflicting file systems"));
	assert_int_equal(json_object_size(f->b.metadata), 0);
	assert_int_equal(f->mounts, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_refused_sources_name_the_field),
		TEST(check_accepted_sources),
		TEST(identity_is_what_names_the_device),
		TEST(set_up_without_a_staged_device_is_enoent),
		TEST(set_up_binds_what_is_staged_once),
		TEST(unmount_device_that_was_never_mounted_is_done),
		TEST(mount_device_of_what_is_no_device_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
