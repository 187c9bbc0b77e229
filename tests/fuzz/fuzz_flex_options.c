// SPDX-License-Identifier: Apache-2.0
/*
 * A call-out's options: what they make of a request is never what only the driver or the daemon may say, no secret is
 * in it, and each driver and purpose agrees on whether they are right. The first byte chooses the driver.
 */
#include "mountd/flex/answer.h"
#include "mountd/flex/options.h"
#include "tests/fuzz/fuzz.h"

static const char *const never[] = { "command", "frontEnd", "target",	   "staging",  "volumeId",
				     "volume",	"staged",   "conflict",	   "settleMs", "objects",
				     "persist", "handoff",  "mountOptions" };

/* The result of one purpose; what it makes is looked at. */
static int apply(const char *text, enum flex_driver driver, enum flex_purpose purpose)
{
	json_t *request = json_object();
	char error[FLEX_MESSAGE_MAX] = "";
	const char *key;
	json_t *value;
	int r = flex_options_apply(text, driver, purpose, request, error);

	REQUIRE(r == 0 || (error[0] && fuzz_is_line(error)));
	json_object_foreach(request, key, value) {
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			REQUIRE(strcmp(key, never[i]) != 0);
		REQUIRE(!strstr(key, "secret"));
	}
	if (r == 0 && purpose == FLEX_MOUNT && json_object_get(request, "objectsPath"))
		REQUIRE(json_object_get(request, "pod"));
	if (r == 0 && purpose == FLEX_LOOK && driver == FLEX_DEVICE)
		REQUIRE(*json_string_value(json_object_get(request, "device")) == '/');
	json_decref(request);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = NULL;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (*data == 'd') {
		int r = apply(text, FLEX_DEVICE, FLEX_MOUNT);

		REQUIRE(apply(text, FLEX_DEVICE, FLEX_STAGE) == r);
		REQUIRE(apply(text, FLEX_DEVICE, FLEX_LOOK) == r);
	} else {
		(void)apply(text, FLEX_VOLUME, FLEX_MOUNT);
	}
	return 0;
}
