// SPDX-License-Identifier: Apache-2.0
#include "plugins/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, unsigned char **ret_bytes, size_t *ret_len)
{
	size_t size = strlen(text) / 4 * 3 + 3, used = 0;
	AUTO_FREE unsigned char *bytes = malloc(size);
	unsigned group = 0, count = 0, padding = 0;

	if (!bytes)
		return -ENOMEM;
	for (; *text; text++) {
		int value = value_of(*text);

		if (*text == '\n' || *text == '\r')
			continue;
		padding += *text == '=';
		if ((value < 0 && *text != '=') || (value >= 0 && padding) || padding > 2 ||
		    (*text == '=' && count < 2))
			goto bad;
		group = group << 6 | (value < 0 ? 0 : (unsigned)value);
		if (++count < 4)
			continue;
		bytes[used++] = (unsigned char)(group >> 16);
		bytes[used++] = (unsigned char)(group >> 8);
		bytes[used++] = (unsigned char)group;
		if (padding && !text[1 + strspn(text + 1, "\r\n")])
			used -= padding;
		else if (padding)
			goto bad;
		group = count = 0;
	}
	if (count != 0)
		goto bad;
	*ret_bytes = take_ptr(&bytes);
	*ret_len = used;
	return 0;
bad:
	explicit_bzero(bytes, size);
	return -EINVAL;
}
