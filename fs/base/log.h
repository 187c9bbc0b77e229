/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_LOG_H
#define FS_BASE_LOG_H

/*
 * log: one structured line an event, on standard error.
 *
 *     2026-11-21T02:11:08.123Z error op=open vol=data node=42 open by handle: Stale file handle
 *
 * Only the edges log (the server loop, the request handler, main): store/, plugins/ and fs/base
 * return errors. Texts from users and from the tree are quoted by log_quote() before they get here.
 * The level and the volume's name are the process's, set once at start. Thread-safe: one write a line.
 */

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* log_setup: sets what is printed and the vol= of every line; @volume is borrowed for ever, or NULL. */
void log_setup(enum log_level level, const char *volume);

/* log_level_from_name: "error", "warning", "info" or "debug"; -EINVAL for anything else. */
int log_level_from_name(const char *name, enum log_level *ret_level);

void log_line(enum log_level level, const char *op, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * log_quote: @bytes made printable: control bytes, spaces within names, quotes, backslashes and what
 * is not valid UTF-8 become \xNN; a result that does not fit @size ends in "...".
 * Returns @ret_text.
 */
char *log_quote(const char *bytes, char *ret_text, size_t size);

#endif
