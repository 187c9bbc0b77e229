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

#include "plugins/objects.h"
#include "tests/unit/json_text.h"

static const char OBJECTS[] =
	"[{'kind': 'Secret', 'metadata': {'name': 's', 'namespace': 'a'}, 'data': {'k': 'in-a'}},"
	" {'kind': 'Secret', 'metadata': {'name': 's'}, 'data': {'k': 'in-default'}},"
	" {'kind': 'ConfigMap', 'metadata': {'name': 's', 'namespace': 'a'}},"
	" {'kind': 'ConfigMap', 'metadata': {'name': 'twice', 'namespace': 'a'}, 'data': {'k': 'canary1'}},"
	" {'kind': 'ConfigMap', 'metadata': {'name': 'twice', 'namespace': 'a'}, 'data': {'k': 'canary2'}},"
	" {'kind': 'ConfigMap', 'metadata': {'name': 'same', 'namespace': 'a'}, 'data': {'k': 'v'}},"
	" {'kind': 'ConfigMap', 'metadata': {'name': 'same', 'namespace': 'a'}, 'data': {'k': 'v'}},"
	" {'kind': 'PersistentVolume', 'metadata': {'name': 'pv'}},"
	" {'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'a'}},"
	" {'metadata': 7}, {'kind': 7, 'metadata': {'name': 's', 'namespace': 'a'}},"
	" {'kind': 'Secret', 'metadata': {'name': null, 'namespace': 'a'}}]";

static int set_up(void **state)
{
	struct volume_builder *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->objects = json_text_load(OBJECTS);
	b->pod_namespace = "a";
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct volume_builder *b = *state;

	json_decref(b->objects);
	free(b);
	return 0;
}

static const char *value_of(const json_t *object)
{
	return json_string_value(json_object_get(json_object_get(object, "data"), "k"));
}

static void objects_find_is_by_kind_namespace_and_name(void **state)
{
	struct volume_builder *b = *state;
	json_t *object = NULL;

	assert_int_equal(objects_find(b, "Secret", NULL, "s", &object), 0);
	assert_string_equal(value_of(object), "in-a");
	assert_int_equal(objects_find(b, "Secret", "default", "s", &object), 0);
	assert_string_equal(value_of(object), "in-default");
	assert_int_equal(objects_find(b, "ConfigMap", NULL, "s", &object), 0);
	assert_null(value_of(object));
	b->pod_namespace = NULL;
	assert_int_equal(objects_find(b, "Secret", NULL, "s", &object), 0);
	assert_string_equal(value_of(object), "in-default");
}

static void objects_find_absent_is_enoent(void **state)
{
	struct volume_builder *b = *state;
	json_t *object = NULL;

	assert_int_equal(objects_find(b, "Secret", NULL, "none", &object), -ENOENT);
	assert_string_equal(b->error, "Secret a/none: not among the objects");
	assert_int_equal(objects_find(b, "Secret", "b", "s", &object), -ENOENT);
	assert_null(object);
	json_decref(b->objects);
	b->objects = NULL;
	assert_int_equal(objects_find(b, "Secret", NULL, "s", &object), -ENOENT);
	assert_non_null(strstr(b->error, "no objects"));
	assert_int_equal(objects_find_pod(b, &object), -ENOENT);
	assert_null(object);
}

static void objects_find_cluster_wide_has_no_namespace(void **state)
{
	struct volume_builder *b = *state;
	json_t *object = NULL;

	assert_int_equal(objects_find(b, "PersistentVolume", "", "pv", &object), 0);
	assert_int_equal(objects_find(b, "PersistentVolume", NULL, "pv", &object), -ENOENT);
	assert_int_equal(objects_find(b, "Secret", "", "none", &object), -ENOENT);
	assert_string_equal(b->error, "Secret none: not among the objects");
}

static void objects_find_two_that_differ_are_refused_without_content(void **state)
{
	struct volume_builder *b = *state;
	json_t *object = NULL;

	assert_int_equal(objects_find(b, "ConfigMap", NULL, "twice", &object), -ENOTUNIQ);
	assert_null(object);
	assert_null(strstr(b->error, "canary"));
	assert_int_equal(objects_find(b, "ConfigMap", NULL, "same", &object), 0);
	assert_string_equal(value_of(object), "v");
}

static void objects_find_error_quotes_names(void **state)
{
	struct volume_builder *b = *state;
	json_t *object = NULL;

	assert_int_equal(objects_find(b, "Secret", NULL, "a\nb", &object), -ENOENT);
	assert_null(strchr(b->error, '\n'));
}

static void objects_find_pod_is_the_only_one(void **state)
{
	struct volume_builder *b = *state;
	json_t *pod = NULL, *second = json_text_load("{'kind': 'Pod', 'metadata': {'name': 'q'}}");

	assert_int_equal(objects_find_pod(b, &pod), 0);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(pod, "metadata"), "name")), "p");
	assert_int_equal(json_array_append(b->objects, pod), 0);
	assert_int_equal(objects_find_pod(b, &pod), 0);
	assert_int_equal(json_array_append_new(b->objects, second), 0);
	assert_int_equal(objects_find_pod(b, &pod), -ENOTUNIQ);
	assert_non_null(strstr(b->error, "--pod"));
}

static void objects_find_node_is_that_of_the_pod_or_the_only_one(void **state)
{
	struct volume_builder *b = *state;
	json_t *pod = json_text_load("{'spec': {'nodeName': 'n2'}}"), *bare = json_text_load("{}"),
	       *node = NULL;

	assert_int_equal(objects_find_node(b, bare, &node), -ENOENT);
	json_array_append_new(b->objects,
			      json_text_load("{'kind': 'Node', 'metadata': {'name': 'n1'}}"));
	assert_int_equal(objects_find_node(b, bare, &node), 0);
	assert_int_equal(objects_find_node(b, pod, &node), -ENOENT);
	json_array_append_new(b->objects,
			      json_text_load("{'kind': 'Node', 'metadata': {'name': 'n2'}}"));
	assert_int_equal(objects_find_node(b, pod, &node), 0);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(node, "metadata"), "name")),
		"n2");
	assert_int_equal(objects_find_node(b, bare, &node), -ENOTUNIQ);
	json_decref(pod);
	json_decref(bare);
}

static const char *token_for(struct volume_builder *b, const char *audience)
{
	static char text[64];
	json_t *request = NULL;
	int r = objects_find_token(b, audience, &request);

	assert_null(strstr(b->error, "CANARY"));
	if (r < 0)
		snprintf(text, sizeof(text), "%d", r);
	else
		snprintf(text, sizeof(text), "%s",
			 json_string_value(
				 json_object_get(json_object_get(request, "status"), "token")));
	return text;
}

static void objects_find_token_is_by_audience(void **state)
{
	struct volume_builder *b = *state;

	assert_string_equal(token_for(b, ""), "-2");
	json_array_append_new(
		b->objects,
		json_text_load("{'kind': 'TokenRequest', 'spec': {'audiences': ['api', 'x']},"
			       " 'status': {'token': 'CANARY-api'}}"));
	assert_string_equal(token_for(b, "api"), "CANARY-api");
	assert_string_equal(token_for(b, "x"), "CANARY-api");
	assert_string_equal(token_for(b, ""), "CANARY-api");
	assert_string_equal(token_for(b, "vault"), "-2");
	json_array_append_new(
		b->objects,
		json_text_load(
			"{'kind': 'TokenRequest', 'spec': {'audiences': ['vault']},"
			" 'metadata': {'namespace': 'a'}, 'status': {'token': 'CANARY-vault'}}"));
	json_array_append_new(
		b->objects,
		json_text_load(
			"{'kind': 'TokenRequest', 'spec': {'audiences': ['other']},"
			" 'metadata': {'namespace': 'b'}, 'status': {'token': 'CANARY-b'}}"));
	assert_string_equal(token_for(b, "vault"), "CANARY-vault");
	assert_string_equal(token_for(b, "other"), "-2");
	assert_string_equal(token_for(b, ""), "-2");
	json_array_append_new(b->objects,
			      json_text_load("{'kind': 'TokenRequest', 'spec': {'audiences': []},"
					     " 'status': {'token': 'CANARY-default'}}"));
	assert_string_equal(token_for(b, ""), "CANARY-default");
	json_array_append_new(
		b->objects, json_text_load("{'kind': 'TokenRequest', 'spec': {'audiences': ['x']},"
					   " 'status': {'token': 'CANARY-x'}}"));
	{
		char wanted[16];

		snprintf(wanted, sizeof(wanted), "%d", -ENOTUNIQ);
		assert_string_equal(token_for(b, "x"), wanted);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(objects_find_is_by_kind_namespace_and_name),
		TEST(objects_find_absent_is_enoent),
		TEST(objects_find_cluster_wide_has_no_namespace),
		TEST(objects_find_two_that_differ_are_refused_without_content),
		TEST(objects_find_error_quotes_names),
		TEST(objects_find_pod_is_the_only_one),
		TEST(objects_find_node_is_that_of_the_pod_or_the_only_one),
		TEST(objects_find_token_is_by_audience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
