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
#include "plugins/base64.h"

static void assert_decodes(const char *text, const void *wanted, size_t wanted_len)
{
	AUTO_FREE unsigned char *bytes = NULL;
	size_t len = 99;

	assert_int_equal(base64_decode(text, &bytes, &len), 0);
	assert_int_equal(len, wanted_len);
	assert_memory_equal(bytes, wanted, wanted_len);
}

/* Source: RFC 4648, section 10. */
static void base64_decode_test_vectors(void **state)
{
	(void)state;
	assert_decodes("", "", 0);
	assert_decodes("Zg==", "f", 1);
	assert_decodes("Zm8=", "fo", 2);
	assert_decodes("Zm9v", "foo", 3);
	assert_decodes("Zm9vYg==", "foob", 4);
	assert_decodes("Zm9vYmE=", "fooba", 5);
	assert_decodes("Zm9vYmFy", "foobar", 6);
}

static void base64_decode_bytes_and_ends_of_lines(void **state)
{
	(void)state;
	assert_decodes("+/+/AP8=", "\xfb\xff\xbf\x00\xff", 5);
	assert_decodes("Zm9v\nYmFy\r\n", "foobar", 6);
	assert_decodes("Zm9vYg=\n=\n", "foob", 4);
}

static void base64_decode_bad_is_refused(void **state)
{
	static const char *const bad[] = { "Z",	       "Zg",	    "Zg=",	"Zm9vY", "=",
					   "====",     "Z===",	    "Zg==Zg==", "Zg=a",	 "Zm 9",
					   "Zm9v-_==", "Zm9vYg==x", "Zm9vYg===" };
	unsigned char *bytes = NULL;
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(base64_decode(bad[i], &bytes, &len), -EINVAL);
	assert_null(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base64_decode_test_vectors),
		cmocka_unit_test(base64_decode_bytes_and_ends_of_lines),
		cmocka_unit_test(base64_decode_bad_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
