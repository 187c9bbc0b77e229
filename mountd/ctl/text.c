// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/text.h"

#include <langinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "fs/base/parse.h"

#define COLUMNS_DEFAULT 80
#define COLUMNS_MAX 10000

/* The character at @bytes and its length; 0: none that is valid UTF-8 (RFC 3629). */
static size_t decode(const unsigned char *bytes, uint32_t *ret_character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = bytes[0] < 0x80 ? 1 :
		     bytes[0] < 0xc0 ? 0 :
		     bytes[0] < 0xe0 ? 2 :
		     bytes[0] < 0xf0 ? 3 :
		     bytes[0] < 0xf8 ? 4 :
				       0;
	uint32_t character = len <= 1 ? bytes[0] : bytes[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (bytes[i] & 0x3fu);
	}
	if (len == 0 || character < least[len] || character > 0x10ffff ||
	    (character >= 0xd800 && character <= 0xdfff))
		return 0;
	*ret_character = character;
	return len;
}

static bool is_utf8_locale(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Columns of a character that may be shown as it is; 0: it may not. */
static size_t columns_of(uint32_t character)
{
	int width;

	if (character < 0x80)
		return character >= 0x20 && character != 0x7f;
	if (!is_utf8_locale())
		return 0;
	width = wcwidth((wchar_t)character);
	return width > 0 ? (size_t)width : 0;
}

char *text_show(const char *bytes, char *ret_text, size_t size)
{
	const unsigned char *at = (const unsigned char *)bytes;
	size_t used = 0, kept = 0; /* @kept: where "..." still fits behind */

	while (*at) {
		uint32_t character = 0;
		size_t len = decode(at, &character);
		bool plain = len > 0 && columns_of(character) > 0;
		size_t step = plain ? len : 1, need = plain ? len : 4;

		if (used + need >= size) {
			snprintf(ret_text + kept, size - kept, "...");
			return ret_text;
		}
		if (plain)
			memcpy(ret_text + used, at, len);
		else
			snprintf(ret_text + used, size - used, "\\x%02x", *at);
		used += need;
		at += step;
		if (used + 4 <= size)
			kept = used;
	}
	ret_text[used] = '\0';
	return ret_text;
}

size_t text_width(const char *shown)
{
	const unsigned char *at = (const unsigned char *)shown;
	size_t width = 0;

	while (*at) {
		uint32_t character = 0;
		size_t len = decode(at, &character);

		width += columns_of(character);
		at += len ? len : 1;
	}
	return width;
}

void text_fit(char *io_shown, size_t width)
{
	unsigned char *at = (unsigned char *)io_shown;
	size_t used = 0, dots = width < 3 ? width : 3;
	unsigned char *cut = at;

	if (text_width(io_shown) <= width)
		return;
	while (*at) {
		uint32_t character = 0;
		size_t len = decode(at, &character);
		size_t columns = columns_of(character);

		if (used + columns + dots > width)
			break;
		used += columns;
		at += len ? len : 1;
		cut = at;
	}
	/* What is cut away is wider than the dots, so they fit its bytes. */
	memcpy(cut, "...", dots);
	cut[dots] = '\0';
}

static size_t columns_of_environment(size_t otherwise)
{
	const char *text = getenv("COLUMNS");
	uint32_t columns = 0;

	if (!text || parse_u32(text, &columns) < 0 || columns == 0 || columns > COLUMNS_MAX)
		return otherwise;
	return columns;
}

struct text_terminal text_terminal(int fd)
{
	struct text_terminal terminal = { .is_terminal = isatty(fd) };
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	struct winsize size = { 0 };

	if (!terminal.is_terminal) {
		terminal.columns = columns_of_environment(0);
		return terminal;
	}
	if (ioctl(fd, TIOCGWINSZ, &size) < 0)
		size = (struct winsize){ 0 };
	terminal.columns = size.ws_col ? size.ws_col : columns_of_environment(COLUMNS_DEFAULT);
	terminal.lines = size.ws_row;
	terminal.has_colours = !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
	return terminal;
}
