// SPDX-License-Identifier: Apache-2.0
#include "fs/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = { "error", "warning", "info", "debug" };

/* Set once by main before threads start. */
static enum log_level log_max_level = LOG_INFO;
static const char *log_volume;

void log_setup(enum log_level level, const char *volume)
{
	log_max_level = level;
	log_volume = volume;
}

int log_level_from_name(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_line(enum log_level level, const char *op, const char *format, ...)
{
	int saved = errno;
	char line[2048];
	struct timespec now;
	struct tm tm;
	va_list args;
	size_t used;
	ssize_t written;
	int n;

	if (level > log_max_level)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	used = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n = snprintf(line + used, sizeof(line) - used, ".%03ldZ %s op=%s%s%s ",
		     now.tv_nsec / 1000000, level_names[level], op, log_volume ? " vol=" : "",
		     log_volume ? log_volume : "");
	used += n > 0 ? (size_t)n : 0;
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	va_start(args, format);
	n = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	va_end(args);
	used += n > 0 ? (size_t)n : 0;
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	/* A log that cannot be written must not stop the work. */
	written = write(STDERR_FILENO, line, used);
	(void)written;
	errno = saved;
}

/* Length of the valid UTF-8 sequence at @s, 0 when there is none (source: RFC 3629, section 4). */
static size_t utf8_len(const unsigned char *s)
{
	size_t len = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 :
		     s[0] >= 0xe0 && s[0] <= 0xef ? 3 :
		     s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 :
						    0;

	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

char *log_quote(const char *bytes, char *ret_text, size_t size)
{
	static const char cut[] = "...";
	const unsigned char *s = (const unsigned char *)bytes;
	size_t used = 0, cut_at = 0; /* the last place where the cut still fits */

	if (size == 0)
		return ret_text;
	while (*s != '\0') {
		char piece[8];
		size_t len = 1, take = 1;

		if (*s >= 0x80 && (take = utf8_len(s)) > 1) {
			memcpy(piece, s, take);
			len = take;
		} else if (*s > 0x20 && *s < 0x7f && *s != '\\' && *s != '"') {
			piece[0] = (char)*s;
			take = 1;
		} else {
			len = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", *s);
			take = 1;
		}
		if (used + sizeof(cut) <= size)
			cut_at = used;
		if (used + len + 1 > size) {
			used = cut_at;
			if (used + sizeof(cut) <= size) {
				memcpy(ret_text + used, cut, sizeof(cut) - 1);
				used += sizeof(cut) - 1;
			}
			break;
		}
		memcpy(ret_text + used, piece, len);
		used += len;
		s += take;
	}
	ret_text[used] = '\0';
	return ret_text;
}
