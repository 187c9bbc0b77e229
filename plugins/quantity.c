// SPDX-License-Identifier: Apache-2.0
#include "plugins/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

/* In billionths: finer parts of a quantity are rounded up (source: Kubernetes resource.Quantity). */
typedef unsigned __int128 nano_t;

#define NANO ((nano_t)1000000000)
#define NANO_MAX ((nano_t)INT64_MAX * NANO)

enum { EXPONENT_MAX = 64 };

/* <digits>[.<digits>], at least one digit; *io_text goes to what follows. */
static int scan_decimal(const char **io_text, nano_t *ret_nano)
{
	const char *p = *io_text;
	nano_t value = 0, place = NANO;
	bool is_fraction = false, some = false, finer = false;

	for (;; p++) {
		if (*p == '.' && !is_fraction) {
			is_fraction = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			break;
		some = true;
		if (is_fraction) {
			place /= 10;
			finer |= place == 0 && *p != '0';
			value += place * (unsigned)(*p - '0');
			continue;
		}
		value = value * 10 + NANO * (unsigned)(*p - '0');
		if (value > NANO_MAX)
			return -ERANGE;
	}
	*io_text = p;
	*ret_nano = value + finer;
	return some ? 0 : -EINVAL;
}

/* What follows "e". */
static int scan_exponent(const char *text, int *ret_exponent)
{
	bool negative = *text == '-';
	uint32_t value = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (parse_u32(text, &value) < 0)
		return -EINVAL;
	/* Beyond that every quantity is out of range, or a billionth. */
	if (value > EXPONENT_MAX)
		value = EXPONENT_MAX;
	*ret_exponent = negative ? -(int)value : (int)value;
	return 0;
}

static int scan_suffix(const char *text, int *ret_exponent, unsigned *ret_shift)
{
	static const struct {
		const char *text;
		int exponent;
		unsigned shift;
	} suffixes[] = {
		{ "", 0, 0 },	 { "n", -9, 0 },  { "u", -6, 0 },  { "m", -3, 0 },
		{ "k", 3, 0 },	 { "M", 6, 0 },	  { "G", 9, 0 },   { "T", 12, 0 },
		{ "P", 15, 0 },	 { "E", 18, 0 },  { "Ki", 0, 10 }, { "Mi", 0, 20 },
		{ "Gi", 0, 30 }, { "Ti", 0, 40 }, { "Pi", 0, 50 }, { "Ei", 0, 60 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (strcmp(text, suffixes[i].text) != 0)
			continue;
		*ret_exponent = suffixes[i].exponent;
		*ret_shift = suffixes[i].shift;
		return 0;
	}
	*ret_shift = 0;
	return *text == 'e' || *text == 'E' ? scan_exponent(text + 1, ret_exponent) : -EINVAL;
}

static nano_t divide_up(nano_t value, nano_t by)
{
	return value / by + (value % by != 0);
}

int quantity_parse(const char *text, unsigned per_unit, uint64_t *ret_value)
{
	nano_t nano = 0;
	int exponent = 0, r = scan_decimal(&text, &nano);
	unsigned shift = 0;

	if (r == 0)
		r = scan_suffix(text, &exponent, &shift);
	if (r < 0)
		return r;
	for (; exponent < 0; exponent++)
		nano = divide_up(nano, 10);
	for (; exponent > 0 && nano <= NANO_MAX; exponent--)
		nano *= 10;
	if (nano > NANO_MAX >> shift)
		return -ERANGE;
	nano = divide_up((nano << shift) * per_unit, NANO);
	if (nano > INT64_MAX)
		return -ERANGE;
	*ret_value = (uint64_t)nano;
	return 0;
}

int quantity_of_json(const json_t *value, unsigned per_unit, uint64_t *ret_value)
{
	char text[64];

	if (json_is_string(value))
		return quantity_parse(json_string_value(value), per_unit, ret_value);
	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value) && json_real_value(value) < 1e18)
		snprintf(text, sizeof(text), "%.9f", json_real_value(value));
	else
		return -EINVAL;
	return quantity_parse(text, per_unit, ret_value);
}
