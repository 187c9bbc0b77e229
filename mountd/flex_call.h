/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLEX_CALL_H
#define MOUNTD_FLEX_CALL_H

/*
 * flex_call: the call-outs of the FlexVolume driver interface, as kubelet makes them. Knows their
 * arguments and answers. Does not know how an answer gets out (flex_main.c). One thread.
 */

#include <jansson.h>

/* flex_failure: the answer {"status": "Failure", "message": ...}; NULL: no memory. */
json_t *flex_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * flex_call: one call-out: @argv[0] is the command. Blocks for as long as the daemon takes.
 * Returns the answer, the caller's reference; NULL: no memory.
 */
json_t *flex_call(const char *root, int argc, char **argv);

#endif
