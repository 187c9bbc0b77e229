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

#include "fs/base/cleanup.h"
#include "plugins/downward.h"
#include "tests/unit/json_text.h"

/* The Pod of Kubernetes' documentation (Expose Pod Information to Containers Through Files), and more. */
static const char POD[] =
	"{'kind': 'Pod', 'metadata': {'name': 'kubernetes-downwardapi-volume-example', 'namespace': 'ns',"
	"  'uid': '19b145c3-c7e4-68f5', 'labels': {'zone': 'us-est-coast', 'cluster': 'test-cluster1',"
	"  'rack': 'rack-22'}, 'annotations': {'builder': 'john-doe', 'build': 'two',"
	"  'kubernetes.io/config.seen': '2015-08-24T13:47:23.432459138Z', 'a-b': '1', 'a': '2'}},"
	" 'spec': {'containers': [{'name': 'client-container', 'resources': {"
	"   'requests': {'memory': '32Mi', 'cpu': '125m'},"
	"   'limits': {'memory': '64Mi', 'cpu': '250m', 'hugepages-2Mi': '4Mi', 'ephemeral-storage': 0}}},"
	"  {'name': 'bare'}, {'name': 'bad', 'resources': {'limits': {'cpu': 'CANARY'}}}],"
	"  'initContainers': [{'name': 'init', 'resources': {'limits': {'cpu': 2}}}]}}";
static const char NODE[] =
	"{'kind': 'Node', 'status': {'allocatable': {'cpu': '3920m', 'memory': '12316484Ki'}}}";

struct world {
	json_t *pod, *node;
	char error[DOWNWARD_ERROR_MAX];
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->pod = json_text_load(POD);
	w->node = json_text_load(NODE);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	json_decref(w->pod);
	json_decref(w->node);
	free(w);
	return 0;
}

static void assert_field(struct world *w, const char *path, const char *wanted)
{
	AUTO_FREE char *text = NULL;

	assert_int_equal(downward_field(w->pod, path, &text, w->error), 0);
	assert_string_equal(text, wanted);
	assert_int_equal(downward_field_check(path, w->error), 0);
}

static void downward_field_documented_example(void **state)
{
	struct world *w = *state;

	assert_field(w, "metadata.labels",
		     "cluster=\"test-cluster1\"\nrack=\"rack-22\"\nzone=\"us-est-coast\"");
	assert_field(w, "metadata.annotations",
		     "a=\"2\"\na-b=\"1\"\nbuild=\"two\"\nbuilder=\"john-doe\"\n"
		     "kubernetes.io/config.seen=\"2015-08-24T13:47:23.432459138Z\"");
	assert_field(w, "metadata.name", "kubernetes-downwardapi-volume-example");
	assert_field(w, "metadata.namespace", "ns");
	assert_field(w, "metadata.uid", "19b145c3-c7e4-68f5");
	assert_field(w, "metadata.labels['zone']", "us-est-coast");
	assert_field(w, "metadata.annotations['kubernetes.io/config.seen']",
		     "2015-08-24T13:47:23.432459138Z");
	assert_field(w, "metadata.labels['none']", "");
	json_object_del(json_object_get(w->pod, "metadata"), "labels");
	json_object_del(json_object_get(w->pod, "metadata"), "namespace");
	assert_field(w, "metadata.labels", "");
	assert_field(w, "metadata.namespace", "default");
}

static void downward_field_bad_paths_are_refused(void **state)
{
	static const char *const bad[] = { "",
					   "metadata",
					   "metadata.",
					   "metadata.names",
					   "metadata.name['x']",
					   "metadata.labels['']",
					   "metadata.labels['x",
					   "metadata.labels[x]",
					   "metadata.labels['x']['y']",
					   "metadata.labels.x",
					   "spec.nodeName",
					   "status.podIP" };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(downward_field_check(bad[i], w->error), -EINVAL);
}

/* Values: what Go's strconv.Quote gives. */
static void downward_quote_is_that_of_go(void **state)
{
	static const struct {
		const char *text, *quoted;
	} cases[] = {
		{ "", "\"\"" },
		{ "plain text", "\"plain text\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "\a\b\f\n\r\t\v", "\"\\a\\b\\f\\n\\r\\t\\v\"" },
		{ "\x01\x1f\x7f", "\"\\x01\\x1f\\x7f\"" },
		{ "h\u00e9llo \u65e5\u672c \U0001f600", "\"h\u00e9llo \u65e5\u672c \U0001f600\"" },
		{ "\u00a0\u200b\ufeff\u2028", "\"\\u00a0\\u200b\\ufeff\\u2028\"" },
		{ "\xc2\x85\u00ad", "\"\\u0085\\u00ad\"" },
		{ "\ufffd", "\"\ufffd\"" },
		{ "\U000e0001\U0010ffff", "\"\\U000e0001\\U0010ffff\"" },
		{ "'", "\"'\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *quoted = downward_quote(cases[i].text);

		assert_string_equal(quoted, cases[i].quoted);
	}
}

static const char *resource(struct world *w, const json_t *node, const char *container,
			    const char *name, const char *divisor)
{
	static char text[64];
	json_t *value = divisor ? json_string(divisor) : NULL;
	const struct downward_resource want = { container, name, value };
	AUTO_FREE char *got = NULL;
	int r = downward_resource(w->pod, node, &want, &got, w->error);

	json_decref(value);
	assert_null(strstr(w->error, "CANARY"));
	if (r < 0)
		snprintf(text, sizeof(text), "%d", r);
	else
		snprintf(text, sizeof(text), "%s", got);
	return text;
}

static void downward_resource_is_divided_and_rounded_up(void **state)
{
	static const char c[] = "client-container";
	struct world *w = *state;

	assert_string_equal(resource(w, NULL, c, "limits.cpu", NULL), "1");
	assert_string_equal(resource(w, NULL, c, "limits.cpu", "1m"), "250");
	assert_string_equal(resource(w, NULL, c, "requests.cpu", "1m"), "125");
	assert_string_equal(resource(w, NULL, c, "limits.memory", NULL), "67108864");
	assert_string_equal(resource(w, NULL, c, "limits.memory", "1Mi"), "64");
	assert_string_equal(resource(w, NULL, c, "requests.memory", "1M"), "34");
	assert_string_equal(resource(w, NULL, c, "requests.memory", "0"), "33554432");
	assert_string_equal(resource(w, NULL, c, "limits.hugepages-2Mi", "1Mi"), "4");
	assert_string_equal(resource(w, NULL, "init", "limits.cpu", "1m"), "2000");
}

static void downward_resource_missing_limit_is_the_nodes(void **state)
{
	struct world *w = *state;
	const struct downward_resource bare = { "bare", "limits.cpu", NULL };
	const struct downward_resource set = { "client-container", "limits.cpu", NULL };
	const struct downward_resource request = { "bare", "requests.cpu", NULL };

	assert_string_equal(resource(w, w->node, "bare", "limits.cpu", NULL), "4");
	assert_string_equal(resource(w, w->node, "bare", "limits.cpu", "1m"), "3920");
	assert_string_equal(resource(w, w->node, "bare", "limits.memory", NULL), "12612079616");
	assert_string_equal(resource(w, w->node, "bare", "limits.ephemeral-storage", NULL), "0");
	assert_string_equal(resource(w, NULL, "bare", "limits.memory", NULL), "-2");
	assert_non_null(strstr(w->error, "no Node"));
	assert_string_equal(resource(w, NULL, "client-container", "limits.ephemeral-storage", NULL),
			    "-2");
	assert_string_equal(resource(w, NULL, "bare", "limits.hugepages-1Gi", NULL), "0");
	assert_true(downward_needs_node(w->pod, &bare));
	assert_false(downward_needs_node(w->pod, &set));
	assert_false(downward_needs_node(w->pod, &request));
}

static void downward_resource_missing_request_is_the_limit_or_0(void **state)
{
	struct world *w = *state;

	assert_string_equal(resource(w, NULL, "client-container", "requests.hugepages-2Mi", NULL),
			    "4194304");
	assert_string_equal(resource(w, NULL, "bare", "requests.cpu", NULL), "0");
	assert_string_equal(resource(w, w->node, "bare", "requests.memory", NULL), "0");
}

static void downward_resource_bad_is_refused(void **state)
{
	struct world *w = *state;

	assert_string_equal(resource(w, NULL, "none", "limits.cpu", NULL), "-2");
	assert_string_equal(resource(w, NULL, "bad", "limits.cpu", NULL), "-22");
	assert_string_equal(resource(w, NULL, "bare", "limits.gpu", NULL), "-22");
	assert_string_equal(resource(w, NULL, "bare", "limits.hugepages-", NULL), "-22");
	assert_string_equal(resource(w, NULL, "bare", "cpu", NULL), "-22");
	assert_string_equal(resource(w, NULL, "bare", "requests.cpu", "2"), "-22");
	assert_string_equal(resource(w, NULL, "bare", "requests.cpu", "1k"), "-22");
	assert_string_equal(resource(w, NULL, "bare", "requests.memory", "1m"), "-22");
	assert_string_equal(resource(w, NULL, "bare", "requests.memory", "CANARY"), "-22");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(downward_field_documented_example),
		TEST(downward_field_bad_paths_are_refused),
		TEST(downward_quote_is_that_of_go),
		TEST(downward_resource_is_divided_and_rounded_up),
		TEST(downward_resource_missing_limit_is_the_nodes),
		TEST(downward_resource_missing_request_is_the_limit_or_0),
		TEST(downward_resource_bad_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
