// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mountd/spec.h"

static struct spec *parsed(const char *plugin, const char *source, const char *text)
{
	struct spec *spec = NULL;
	char why[SPEC_ERROR_MAX];

	assert_int_equal(spec_parse(plugin, source, text, &spec, why), 0);
	return spec;
}

/* The message of a spec that is refused. */
static const char *refused(const char *plugin, const char *source, const char *text)
{
	static char why[SPEC_ERROR_MAX];
	struct spec *spec = NULL;

	assert_int_equal(spec_parse(plugin, source, text, &spec, why), -EINVAL);
	assert_null(spec);
	assert_null(strchr(why, '\n'));
	return why;
}

static void spec_parse_plugin_and_path_make_a_source(void **state)
{
	AUTO(spec) *spec = parsed("local", "/srv/data", NULL);

	(void)state;
	assert_string_equal(spec->plugin, "local");
	assert_string_equal(spec->kind, "VolumeSource");
	assert_string_equal(json_string_value(json_object_get(spec->source, "path")), "/srv/data");
	assert_false(spec->read_only);
}

static void spec_parse_source_object_is_taken(void **state)
{
	AUTO(spec) *spec = parsed("emptyDir", "{\"medium\":\"Memory\"}", NULL);

	(void)state;
	assert_string_equal(json_string_value(json_object_get(spec->source, "medium")), "Memory");
}

static void spec_parse_forms_are_told_apart(void **state)
{
	AUTO(spec) *volume = parsed(NULL, NULL, "{\"name\":\"a\",\"emptyDir\":{}}");
	AUTO(spec) *bare = parsed(NULL, NULL, "{\"hostPath\":{\"path\":\"/x\"}}");
	AUTO(spec) *pv = parsed(
		NULL, NULL,
		"{\"kind\":\"PersistentVolume\",\"spec\":{\"capacity\":{},\"nodeAffinity\":{},"
		"\"local\":{\"path\":\"/x\",\"readOnly\":true}}}");

	(void)state;
	assert_string_equal(volume->kind, "Volume");
	assert_string_equal(volume->plugin, "emptyDir");
	assert_string_equal(bare->kind, "VolumeSource");
	assert_string_equal(bare->plugin, "hostPath");
	assert_string_equal(pv->kind, "PersistentVolume");
	assert_string_equal(pv->plugin, "local");
	assert_true(pv->read_only);
}

static void spec_parse_mount_options_are_joined(void **state)
{
	AUTO(spec) *pv =
		parsed(NULL, NULL,
		       "{\"kind\":\"PersistentVolume\",\"spec\":{\"mountOptions\":[\"ro\",\"a=b\"],"
		       "\"volumeMode\":\"Filesystem\",\"cinder\":{\"volumeID\":\"x\"}}}");
	AUTO(spec) *none = parsed(NULL, NULL,
				  "{\"kind\":\"PersistentVolume\",\"spec\":{\"mountOptions\":[],"
				  "\"cinder\":{\"volumeID\":\"x\"}}}");
	/* Of a Volume it is a field like any other. */
	AUTO(spec) *volume = parsed(NULL, NULL,
				    "{\"name\":\"v\",\"mountOptions\":[\"ro\"],"
				    "\"cinder\":{\"volumeID\":\"x\"}}");

	(void)state;
	assert_string_equal(pv->mount_options, "ro,a=b");
	assert_null(none->mount_options);
	assert_null(volume->mount_options);
}

static void spec_parse_what_a_persistent_volume_must_not_say(void **state)
{
	(void)state;
	assert_non_null(
		strstr(refused(NULL, NULL,
			       "{\"kind\":\"PersistentVolume\",\"spec\":"
			       "{\"volumeMode\":\"Block\",\"cinder\":{\"volumeID\":\"x\"}}}"),
		       "volumeMode Block"));
	assert_non_null(
		strstr(refused(NULL, NULL,
			       "{\"kind\":\"PersistentVolume\",\"spec\":"
			       "{\"mountOptions\":\"ro\",\"cinder\":{\"volumeID\":\"x\"}}}"),
		       "mountOptions"));
	assert_non_null(strstr(refused(NULL, NULL,
				       "{\"kind\":\"PersistentVolume\",\"spec\":"
				       "{\"mountOptions\":[7],\"cinder\":{\"volumeID\":\"x\"}}}"),
			       "mountOptions"));
}

static void spec_parse_unknown_fields_are_kept(void **state)
{
	AUTO(spec) *spec = parsed(
		NULL, NULL, "{\"name\":\"a\",\"later\":7,\"local\":{\"path\":\"/x\",\"new\":1}}");
	AUTO(spec) *pv = parsed(
		NULL, NULL,
		"{\"kind\":\"PersistentVolume\",\"spec\":{\"later\":{},\"local\":{\"path\":\"/x\"}}}");

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(spec->object, "later")), 7);
	assert_int_equal(json_integer_value(json_object_get(spec->source, "new")), 1);
	assert_non_null(json_object_get(json_object_get(pv->object, "spec"), "later"));
}

static void spec_parse_conflicting_sources_are_refused(void **state)
{
	(void)state;
	assert_string_equal(refused(NULL, NULL, "{\"name\":\"a\",\"local\":{},\"emptyDir\":{}}"),
			    "two conflicting sources: local and emptyDir");
	assert_non_null(strstr(refused("local", NULL, "{\"emptyDir\":{}}"), "conflicting"));
	assert_non_null(strstr(refused("local", "/x", "{\"local\":{}}"), "conflicting"));
	assert_non_null(strstr(refused(NULL, NULL, "{\"local\":{},\"frob\":{}}"), "conflicting"));
}

static void spec_parse_unknown_names_are_refused(void **state)
{
	(void)state;
	assert_string_equal(refused("frob", NULL, NULL), "unknown plugin frob");
	assert_string_equal(refused(NULL, NULL, "{\"frob\":{}}"), "unknown source frob");
	assert_non_null(strstr(refused(NULL, NULL, "{\"kind\":\"Pod\"}"), "Pod"));
	assert_non_null(strstr(refused(NULL, NULL, "{\"name\":\"a\"}"), "no volume source"));
	assert_non_null(strstr(refused("local", NULL, NULL), "needs a source"));
	assert_non_null(strstr(refused(NULL, NULL, NULL), "neither"));
	assert_non_null(strstr(refused(NULL, NULL, "{\"local\":\"/x\"}"), "not an object"));
}

static void spec_parse_invalid_json_gives_place_and_not_text(void **state)
{
	const char *why = refused(NULL, NULL, "{\"name\":\n  hunter2}");

	(void)state;
	assert_non_null(strstr(why, "line 2 column"));
	assert_null(strstr(why, "hunter2"));
	assert_non_null(strstr(refused(NULL, NULL, "[]"), "not a JSON object"));
	assert_non_null(strstr(refused(NULL, NULL, "{\"a\":1,\"a\":2}"), "line 1"));
}

static void spec_parse_names_in_messages_are_quoted(void **state)
{
	(void)state;
	assert_null(strchr(refused("fr\nob\033[2J", NULL, NULL), '\033'));
}

static void spec_record_secrets_are_dropped(void **state)
{
	AUTO(spec) *spec =
		parsed(NULL, NULL,
		       "{\"flexVolume\":{\"driver\":\"d\",\"options\":"
		       "{\"kubernetes.io/secret/password\":\"hunter2\",\"size\":\"1\"}}}");
	AUTO_FREE char *record = spec_record(spec);

	(void)state;
	assert_non_null(record);
	assert_null(strstr(record, "hunter2"));
	assert_null(strstr(record, "kubernetes.io/secret"));
	assert_non_null(strstr(record, "\"size\":\"1\""));
}

static void spec_restore_round_trip(void **state)
{
	AUTO(spec) *spec = parsed(NULL, NULL,
				  "{\"name\":\"a\",\"local\":{\"path\":\"/x\",\"readOnly\":true}}");
	AUTO_FREE char *record = spec_record(spec);
	AUTO(spec) *again = NULL;

	(void)state;
	assert_int_equal(spec_restore("local", record, &again), 0);
	assert_string_equal(again->kind, "Volume");
	assert_true(again->read_only);
	assert_true(json_equal(again->object, spec->object));
}

static void spec_restore_newer_or_damaged_is_refused(void **state)
{
	struct spec *spec = NULL;

	(void)state;
	assert_int_equal(
		spec_restore("local", "{\"schemaVersion\":99,\"object\":{\"local\":{}}}", &spec),
		-ENOTSUP);
	assert_int_equal(spec_restore("local", "{\"object\":{\"local\":{}}}", &spec), -EINVAL);
	assert_int_equal(spec_restore("local", "{", &spec), -EINVAL);
	assert_int_equal(
		spec_restore("local", "{\"schemaVersion\":1,\"object\":{\"emptyDir\":{}}}", &spec),
		-EINVAL);
	assert_null(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_parse_plugin_and_path_make_a_source),
		cmocka_unit_test(spec_parse_source_object_is_taken),
		cmocka_unit_test(spec_parse_forms_are_told_apart),
		cmocka_unit_test(spec_parse_mount_options_are_joined),
		cmocka_unit_test(spec_parse_what_a_persistent_volume_must_not_say),
		cmocka_unit_test(spec_parse_unknown_fields_are_kept),
		cmocka_unit_test(spec_parse_conflicting_sources_are_refused),
		cmocka_unit_test(spec_parse_unknown_names_are_refused),
		cmocka_unit_test(spec_parse_invalid_json_gives_place_and_not_text),
		cmocka_unit_test(spec_parse_names_in_messages_are_quoted),
		cmocka_unit_test(spec_record_secrets_are_dropped),
		cmocka_unit_test(spec_restore_round_trip),
		cmocka_unit_test(spec_restore_newer_or_damaged_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
