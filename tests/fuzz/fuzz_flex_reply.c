// SPDX-License-Identifier: Apache-2.0
/* What a FlexVolume driver prints: its first byte here is its exit status. */
#include <errno.h>

#include "plugins/flex_driver.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(flex_reply) *reply = NULL;
	char error[PLUGIN_ERROR_MAX] = "";
	int status = size > 0 ? data[0] % 4 : 0, r;

	if (size > 0) {
		data++;
		size--;
	}
	r = flex_reply_parse((const char *)data, size, status, &reply, error);
	REQUIRE(r == 0 || r == -EOPNOTSUPP || r == -EIO || r == -EBADMSG);
	if (r == 0)
		REQUIRE(status == 0 && reply);
	else
		REQUIRE(!reply && fuzz_is_line(error));
	return 0;
}
