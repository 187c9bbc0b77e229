// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/mount8/options.h"
#include "mountd/proto.h"

/* The request that a list makes, as text; @ret_options is without its request. */
static char *request_of(const char *text, bool is_sloppy, struct mount8_options *ret_options)
{
	static char list[512];
	struct mount8_options o = { .request = json_object() };
	char why[WORDS_ERROR_MAX], *request;

	assert_true(strlen(text) < sizeof(list));
	strcpy(list, text);
	assert_int_equal(mount8_options_parse(list, is_sloppy, &o, why), EXIT_OK);
	request = json_dumps(o.request, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o.request);
	o.request = NULL;
	*ret_options = o;
	return request;
}

static void lists_become_requests(void **state)
{
	static const struct {
		const char *list, *request;
	} rows[] = {
		{ "", "{}" },
		{ ",,defaults,,", "{}" },
		{ "gid=4242", "{\"fsGroup\":4242}" },
		{ "fsgroup=1,gid=2", "{\"fsGroup\":2}" },
		{ "keep_private,persist", "{\"keepPrivate\":true,\"persist\":true}" },
		{ "keep-private,converge-rate=7", "{\"convergeRate\":7,\"keepPrivate\":true}" },
		{ "exclude=\"*.key,b\",exclude=c", "{\"excludes\":[\"*.key,b\",\"c\"]}" },
		{ "volume_id=\"a\"", "{\"volumeId\":\"a\"}" },
		{ "noauto,nofail,_netdev,x-a=b,X-mount.mkdir,comment=a b,async", "{}" },
		{ "ro,nosuid,noatime", "{}" },
		{ "policy=a=b", "{\"policy\":\"a=b\"}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mount8_options o;
		AUTO_FREE char *request = request_of(rows[i].list, false, &o);

		assert_string_equal(request, rows[i].request);
		assert_false(o.remount);
	}
}

static void texts_and_flags_are_kept(void **state)
{
	struct mount8_options o;
	AUTO_FREE char *request = NULL;

	(void)state;
	request = request_of("plugin=nfs,source=\"{a,b}\",spec=/s,objects=/o,root=/r,ro,nodev,sync,"
			     "context=\"u:r:t:s0:c1,c2\"",
			     false, &o);
	assert_string_equal(request, "{\"plugin\":\"nfs\"}");
	assert_string_equal(o.flags.context, "u:r:t:s0:c1,c2");
	assert_string_equal(o.plugin, "nfs");
	assert_string_equal(o.source, "{a,b}");
	assert_string_equal(o.spec, "/s");
	assert_string_equal(o.objects, "/o");
	assert_string_equal(o.root, "/r");
	assert_string_equal(o.without_effect, "sync");
	assert_true(o.flags.set == (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV));
}

/* mount(8) hands back what the kernel shows, which is nobody's wish, before and after the word. */
static void remount_leaves_the_kernels_options_out(void **state)
{
	struct mount8_options o;
	AUTO_FREE char *request = request_of(
		"rw,relatime,user_id=0,group_id=0,remount,seclabel,default_permissions,allow_other",
		false, &o);

	(void)state;
	assert_true(o.remount);
	assert_string_equal(request, "{}");
}

static void bad_options_are_refused_by_name(void **state)
{
	static const struct {
		const char *list, *word;
	} rows[] = {
		{ "user", "user" },
		{ "nosuid,users,gid=7", "users" },
		{ "owner", "owner" },
		{ "group", "gid=N" },
		{ "context", "context" },
		{ "context=", "context" },
		{ "context=container_file_t", "context" },
		{ "fscontext=u:r:t", "fscontext" },
		{ "defcontext=u:r:t", "defcontext" },
		{ "rootcontext=u:r:t", "rootcontext" },
		{ "loop=/dev/loop0", "loop" },
		{ "bind", "bind" },
		{ "uid=7", "uid" },
		{ "colour=red", "colour" },
		{ "user_id=0", "user_id" },
		{ "gid", "fsgroup" },
		{ "gid=", "fsgroup" },
		{ "gid=wheel", "wheel" },
		{ "gid=4294967295", "4294967295" },
		{ "persist=7", "persist" },
		{ "source", "source" },
		{ "root=", "root" },
		{ "handoff=perhaps", "perhaps" },
		{ "exclude=", "exclude" },
		{ "policy=\xff", "policy" },
		{ "a\nb", "a" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mount8_options o = { .request = json_object() };
		char list[128], why[WORDS_ERROR_MAX] = "";

		strcpy(list, rows[i].list);
		assert_int_not_equal(mount8_options_parse(list, false, &o, why), EXIT_OK);
		assert_non_null(strstr(why, rows[i].word));
		assert_null(strchr(why, '\n'));
		json_decref(o.request);
	}
}

static void sloppy_leaves_out_only_what_is_unknown(void **state)
{
	struct mount8_options o = { .request = json_object() };
	AUTO_FREE char *request = NULL;
	char list[] = "user", why[WORDS_ERROR_MAX];

	(void)state;
	assert_int_equal(mount8_options_parse(list, true, &o, why), EXIT_USAGE);
	json_decref(o.request);
	request = request_of("colour=red,gid=7,size=1", true, &o);
	assert_string_equal(request, "{\"fsGroup\":7}");
}

static void long_lists_are_refused(void **state)
{
	struct mount8_options o = { .request = json_object() };
	char list[2 * 400 + 1], why[WORDS_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < 400; i++)
		memcpy(list + 2 * i, "a,", 3);
	assert_int_equal(mount8_options_parse(list, true, &o, why), EXIT_USAGE);
	assert_non_null(strstr(why, "too many"));
	json_decref(o.request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_become_requests),
		cmocka_unit_test(texts_and_flags_are_kept),
		cmocka_unit_test(remount_leaves_the_kernels_options_out),
		cmocka_unit_test(bad_options_are_refused_by_name),
		cmocka_unit_test(sloppy_leaves_out_only_what_is_unknown),
		cmocka_unit_test(long_lists_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
