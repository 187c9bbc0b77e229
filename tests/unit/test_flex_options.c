// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mountd/flex/answer.h"
#include "mountd/flex/options.h"

#define KUBELET                                                                                    \
	"\"kubernetes.io/fsType\": \"ext4\", \"kubernetes.io/readwrite\": \"ro\","                 \
	"\"kubernetes.io/pvOrVolumeName\": \"v\", \"kubernetes.io/mounterArgs.FsGroup\": \"42\","  \
	"\"kubernetes.io/pod.name\": \"p\", \"kubernetes.io/pod.namespace\": \"n\","               \
	"\"kubernetes.io/pod.uid\": \"u\", \"kubernetes.io/serviceAccount.name\": \"\""
#define DISK "\"plugin\": \"fc\", \"source\": \"{}\", \"device\": \"/dev/x\""

/* What the options make of an empty request, as a canonical text. */
static void assert_makes(const char *options, enum flex_driver driver, enum flex_purpose purpose,
			 const char *wanted)
{
	json_t *request = json_object();
	char why[FLEX_MESSAGE_MAX] = "", *text;

	assert_int_equal(flex_options_apply(options, driver, purpose, request, why), 0);
	text = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, wanted);
	free(text);
	json_decref(request);
}

static void assert_refused(const char *options, enum flex_driver driver, enum flex_purpose purpose,
			   const char *words)
{
	json_t *request = json_object();
	char why[FLEX_MESSAGE_MAX] = "";

	assert_int_equal(flex_options_apply(options, driver, purpose, request, why), -EINVAL);
	if (!strstr(why, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why);
	json_decref(request);
}

static void flex_options_apply_each_purpose_has_its_own(void **state)
{
	(void)state;
	assert_makes(
		"{" KUBELET ", " DISK ", \"format\": \"true\", \"policy\": \"Always\"}",
		FLEX_DEVICE, FLEX_STAGE,
		"{\"format\":true,\"fsType\":\"ext4\",\"plugin\":\"fc\",\"readOnly\":true,\"source\":\"{}\"}");
	assert_makes(
		"{" KUBELET ", " DISK ", \"format\": \"true\", \"policy\": \"Always\"}",
		FLEX_DEVICE, FLEX_MOUNT,
		"{\"fsGroup\":42,\"plugin\":\"fc\",\"policy\":\"Always\",\"readOnly\":true,\"source\":\"{}\"}");
	assert_makes("{" KUBELET ", " DISK "}", FLEX_DEVICE, FLEX_LOOK,
		     "{\"device\":\"/dev/x\",\"name\":\"v\"}");
	assert_makes(
		"{" KUBELET ", \"plugin\": \"secret\", \"objects\": \"/o\"}", FLEX_VOLUME,
		FLEX_MOUNT,
		"{\"fsGroup\":42,\"objectsPath\":\"/o\",\"plugin\":\"secret\",\"pod\":\"n/p\",\"readOnly\":true}");
}

/* kubelet sends the same options to each call: what is wrong for one is refused by the first. */
static void flex_options_apply_is_as_strict_for_each_purpose(void **state)
{
	static const struct {
		const char *options, *words;
	} cases[] = {
		{ DISK ", \"format\": \"perhaps\"", "format" },
		{ DISK ", \"convergeRate\": \"-1\"", "convergeRate" },
		{ DISK ", \"policy\": \"Always\", \"fsGroupNoRecurse\": \"true\"", "contradict" },
		{ DISK
		  ", \"kubernetes.io/fsGroup\": \"1\", \"kubernetes.io/mounterArgs.FsGroup\": \"2\"",
		  "different groups" },
		{ DISK ", \"kubernetes.io/readwrite\": \"wr\"", "readwrite" },
		{ DISK ", \"kubernetes.io/evil\": \"\"", "reserved" },
		{ DISK ", \"K8S.io/evil\": \"\"", "reserved" },
		{ DISK ", \"mountOptions\": \"errors=panic\"", "unknown" },
		{ DISK ", \"staging\": \"/x\"", "unknown" },
		{ DISK ", \"objects\": \"/x\"", "unknown" },
		{ DISK ", \"kubernetes.io/secret/a\": \"?\"", "not base64" },
		{ "\"plugin\": \"fc\"", "device is missing" },
		{ "\"device\": \"/dev/x\"", "plugin or volume is missing" },
		{ DISK ", \"volume\": \"{}\"", "source and volume" },
		{ "\"plugin\": \"fc\", \"device\": \"x\"", "not an absolute path" },
		{ "\"plugin\": \"f\\u0000c\"", "not JSON" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "{%s}", cases[i].options);
		assert_refused(text, FLEX_DEVICE, FLEX_MOUNT, cases[i].words);
		assert_refused(text, FLEX_DEVICE, FLEX_STAGE, cases[i].words);
		assert_refused(text, FLEX_DEVICE, FLEX_LOOK, cases[i].words);
	}
}

static void flex_options_apply_volume_has_no_device(void **state)
{
	(void)state;
	assert_refused("{" DISK "}", FLEX_VOLUME, FLEX_MOUNT, "option device: unknown");
	assert_refused("{\"plugin\": \"emptyDir\", \"format\": \"true\"}", FLEX_VOLUME, FLEX_MOUNT,
		       "option format: unknown");
	assert_refused("{\"plugin\": \"secret\", \"objects\": \"o\"}", FLEX_VOLUME, FLEX_MOUNT,
		       "not an absolute path");
	assert_refused("{\"plugin\": \"secret\", \"objects\": \"/o\"}", FLEX_VOLUME, FLEX_MOUNT,
		       "has not said which pod");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flex_options_apply_each_purpose_has_its_own),
		cmocka_unit_test(flex_options_apply_is_as_strict_for_each_purpose),
		cmocka_unit_test(flex_options_apply_volume_has_no_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
