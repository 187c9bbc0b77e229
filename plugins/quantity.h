/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_QUANTITY_H
#define PLUGINS_QUANTITY_H

/*
 * quantity: Kubernetes' resource.Quantity, as in "250m", "1.5Gi", "12e6": what a Pod's resources and a
 * Node's allocatable are written in. (For a plain size in bytes parse_size() is enough.) Pure, any thread.
 */

#include <jansson.h>
#include <stdint.h>

/*
 * quantity_parse: @text times @per_unit, rounded up to an integer.
 * @per_unit: 1, or 1000 for thousandths
 *
 * Returns 0, -EINVAL (not of the form <digits>[.<digits>] and one of "n u m k M G T P E Ki Mi Gi Ti Pi Ei"
 * or e<exponent>; or negative), -ERANGE (above INT64_MAX).
 */
int quantity_parse(const char *text, unsigned per_unit, uint64_t *ret_value);

/* quantity_of_json: the same of a JSON string or number. */
int quantity_of_json(const json_t *value, unsigned per_unit, uint64_t *ret_value);

#endif
