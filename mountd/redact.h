/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_REDACT_H
#define MOUNTD_REDACT_H

/* redact: a result with less in it, for who may not see all. A list of what is shown: what comes new is not. */

#include <jansson.h>

/*
 * redact: in the object @result, or in each object of the array @result, every value becomes null whose key is
 * not in @shown (NULL-terminated). Anything else in an array goes. NULL is left alone.
 */
void redact(json_t *result, const char *const *shown);

#endif
