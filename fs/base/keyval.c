// SPDX-License-Identifier: Apache-2.0
#include "fs/base/keyval.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void keyval_begin(struct keyval_writer *w, char *text, const char *verb)
{
	int n = snprintf(text, KEYVAL_MAX, "%s\n", verb);

	w->text = text;
	w->len = (size_t)n;
	w->overflow = n < 0 || n >= KEYVAL_MAX;
}

void keyval_add(struct keyval_writer *w, const char *key, const char *format, ...)
{
	size_t room = KEYVAL_MAX - w->len;
	va_list args;
	int n, m;

	if (w->overflow)
		return;
	n = snprintf(w->text + w->len, room, "%s=", key);
	if (n < 0 || (size_t)n >= room) {
		w->text[w->len] = '\0';
		w->overflow = 1;
		return;
	}
	va_start(args, format);
	m = vsnprintf(w->text + w->len + n, room - (size_t)n, format, args);
	va_end(args);
	if (m < 0 || (size_t)(n + m) + 1 >= room) {
		w->text[w->len] = '\0';
		w->overflow = 1;
		return;
	}
	w->len += (size_t)(n + m);
	w->text[w->len++] = '\n';
	w->text[w->len] = '\0';
}

int keyval_get(const char *message, const char *key, char *ret_value, size_t size)
{
	size_t key_len = strlen(key);
	const char *line = strchr(message, '\n');

	while (line && line[1] != '\0') {
		const char *end;

		line++;
		end = strchr(line, '\n');
		if (!end)
			end = line + strlen(line);
		if (strncmp(line, key, key_len) == 0 && line[key_len] == '=') {
			const char *value = line + key_len + 1;
			size_t len = (size_t)(end - value);

			if (len >= size)
				return -ENOBUFS;
			memcpy(ret_value, value, len);
			ret_value[len] = '\0';
			return (int)len;
		}
		line = *end ? end : NULL;
	}
	return -ENOENT;
}

int keyval_verb_is(const char *message, const char *verb)
{
	size_t len = strlen(verb);

	return strncmp(message, verb, len) == 0 && (message[len] == '\n' || message[len] == '\0');
}
