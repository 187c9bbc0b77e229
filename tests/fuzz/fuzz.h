/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

/*
 * fuzz: what the fuzz targets share. A target is one file tests/fuzz/fuzz_NAME.c with
 * LLVMFuzzerTestOneInput(); its kept corpus is tests/fuzz/corpus/NAME. It needs no privilege, works below
 * TMPDIR only, and aborts where an invariant does not hold.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* fuzz_text: the input as a text; what follows a NUL is cut off. The caller's to free. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	REQUIRE(text);
	return text;
}

/* fuzz_is_line: what messages must be: one printable line. */
static inline int fuzz_is_line(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return 0;
	}
	return 1;
}

#endif
