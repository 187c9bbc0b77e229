/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_KEYVAL_H
#define FS_BASE_KEYVAL_H

/*
 * keyval: the text that a keeper and mountd send each other, one message a datagram:
 *
 *     verb\n
 *     key=value\n
 *     key=value\n
 *
 * Values are escaped with log_quote()'s \xNN form where they come from outside, so that a newline in a
 * file's name cannot forge a line. Bounded: a message is at most KEYVAL_MAX bytes. No state, any thread.
 */

#include <stdarg.h>
#include <stddef.h>

#define KEYVAL_MAX 65536

struct keyval_writer {
	char *text; /* caller's memory, KEYVAL_MAX bytes */
	size_t len;
	int overflow; /* set when something did not fit: the message must not be sent */
};

void keyval_begin(struct keyval_writer *w, char *text, const char *verb);
void keyval_add(struct keyval_writer *w, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * keyval_get: copies the value of @key in @message to @ret_value (NUL-terminated).
 * Returns its length, -ENOENT (no such key), -ENOBUFS (longer than @size - 1).
 */
int keyval_get(const char *message, const char *key, char *ret_value, size_t size);

/* keyval_verb_is: whether the message's first line is @verb. */
int keyval_verb_is(const char *message, const char *verb);

#endif
