// SPDX-License-Identifier: Apache-2.0
#include "fs/base/parse.h"

#include <errno.h>
#include <string.h>

/* Reads the digits at *io_text; at least one must be there. */
static int scan_digits(const char **io_text, uint64_t *ret_value)
{
	const char *p = *io_text;
	uint64_t value = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	*io_text = p;
	*ret_value = value;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	int r = scan_digits(&text, &value);

	if (r < 0)
		return r;
	if (*text != '\0')
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_u32_up_to(const char *text, uint32_t most, uint32_t *ret_value)
{
	uint64_t value = 0;
	int r = parse_u64(text, &value);

	if (r < 0)
		return r;
	if (value > most)
		return -ERANGE;
	*ret_value = (uint32_t)value;
	return 0;
}

int parse_u32(const char *text, uint32_t *ret_value)
{
	return parse_u32_up_to(text, UINT32_MAX, ret_value);
}

int parse_next_u32(const char **io_text, uint32_t *ret_value)
{
	const char *p = *io_text + strspn(*io_text, " \t");
	const char *behind = p + strspn(p, "0123456789");
	uint64_t value = 0;
	int r = scan_digits(&p, &value);

	if (r == -EINVAL)
		return r;
	*io_text = behind;
	if (r < 0 || value > UINT32_MAX)
		return -ERANGE;
	*ret_value = (uint32_t)value;
	return 0;
}

int parse_gid(const char *text, gid_t *ret_gid)
{
	return parse_u32_up_to(text, GID_UNSET - 1, ret_gid);
}

static int scale(const char *text, const char *suffix, uint64_t factor, uint64_t value,
		 uint64_t *ret_value)
{
	if (strcmp(text, suffix) != 0)
		return -EINVAL;
	if (__builtin_mul_overflow(value, factor, &value))
		return -ERANGE;
	*ret_value = value;
	return 0;
}

int parse_cpu_latency(const char *text, int64_t *ret_us)
{
	uint32_t us = 0;
	int r = parse_u32_up_to(text, CPU_LATENCY_MAX_US, &us);

	if (r == 0)
		*ret_us = us;
	return r;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct {
		const char *suffix;
		uint64_t factor;
	} units[] = {
		{ "", 1 },
		{ "k", 1000ULL },
		{ "M", 1000000ULL },
		{ "G", 1000000000ULL },
		{ "T", 1000000000000ULL },
		{ "P", 1000000000000000ULL },
		{ "E", 1000000000000000000ULL },
		{ "Ki", 1ULL << 10 },
		{ "Mi", 1ULL << 20 },
		{ "Gi", 1ULL << 30 },
		{ "Ti", 1ULL << 40 },
		{ "Pi", 1ULL << 50 },
		{ "Ei", 1ULL << 60 },
	};
	uint64_t value = 0;
	int r = scan_digits(&text, &value);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		r = scale(text, units[i].suffix, units[i].factor, value, ret_bytes);
		if (r != -EINVAL)
			return r;
	}
	return -EINVAL;
}

int parse_duration(const char *text, uint64_t default_unit_ms, uint64_t *ret_ms)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
	uint64_t value = 0;
	int r = scan_digits(&text, &value);

	if (r < 0)
		return r;
	r = scale(text, "", default_unit_ms, value, ret_ms);
	for (size_t i = 0; r == -EINVAL && i < sizeof(units) / sizeof(units[0]); i++)
		r = scale(text, units[i].suffix, units[i].ms, value, ret_ms);
	return r;
}

int parse_bool(const char *text, bool *ret_value)
{
	static const char *const yes[] = { "yes", "true", "1" }, *const no[] = { "no", "false",
										 "0" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcmp(text, yes[i]) != 0 && strcmp(text, no[i]) != 0)
			continue;
		*ret_value = strcmp(text, yes[i]) == 0;
		return 0;
	}
	return -EINVAL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int parse_hex(const char *text, unsigned char *ret_bytes, size_t len)
{
	if (strlen(text) != 2 * len)
		return -EINVAL;
	for (size_t i = 0; i < 2 * len; i++) {
		if (hex_digit(text[i]) < 0)
			return -EINVAL;
	}
	for (size_t i = 0; i < len; i++)
		ret_bytes[i] =
			(unsigned char)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
	return 0;
}

void format_hex(const unsigned char *bytes, size_t len, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[2 * len] = '\0';
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool volume_id_is_valid(const char *id)
{
	if (!is_alnum(id[0]))
		return false;
	for (size_t i = 0; id[i] != '\0'; i++) {
		if (i >= VOLUME_ID_MAX)
			return false;
		if (!is_alnum(id[i]) && strchr("._-", id[i]) == NULL)
			return false;
	}
	return true;
}
