/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_PROGRAM_H
#define TESTS_DIFFERENTIAL_PROGRAM_H

/*
 * program: a few bytes of executable that write the six user and group ids (real, effective, saved) they
 * run with, as 32-bit numbers, to descriptor 1. So small that a random write to it does no harm.
 */

#include <stddef.h>

enum { PROGRAM_BYTES_MAX = 512, PROGRAM_OUTPUT_BYTES = 24 };

/* program_image: the file's bytes. Returns their number, 0 where the machine is none that we know. */
size_t program_image(unsigned char ret[PROGRAM_BYTES_MAX]);

#endif
