/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_LOG_H
#define FS_BASE_LOG_H

/*
 * log: one structured line an event, on standard error, or to the machine's log, which has times and levels of its
 * own.
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

/* How a line is to look. */
enum log_form {
	LOG_FORM_LINE, /* as above */
	LOG_FORM_SYSLOG, /* a datagram for syslogd (RFC 3164 without time and host, as for /dev/log) */
	LOG_FORM_JOURNAL, /* a datagram of fields for journald (systemd's "Native Journal Protocol") */
};

/*
 * log_to_system: from now on to journald, or where there is none to syslogd, in place of a standard error that is
 * journald's already (then lines get fields) or /dev/null (then nobody would read them). Any other
 * standard error was chosen by somebody, and stays. Where there is neither, nothing changes.
 * @program: the name in the machine's log; borrowed for ever
 *
 * Nothing is waited for: what the machine's log has no room for is lost. Before there are threads.
 */
void log_to_system(const char *program);

/* log_to: from now on to @fd, which stays the caller's; for log_to_system() and tests. */
void log_to(int fd, enum log_form form, const char *program);

void log_line(enum log_level level, const char *op, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* log_in_handler: a warning that a signal handler may give: @text as it is, without time and names. */
void log_in_handler(const char *text);

/*
 * log_quote: @bytes made printable: control bytes, spaces within names, quotes, backslashes and what
 * is not valid UTF-8 become \xNN; a result that does not fit @size ends in "...".
 * Returns @ret_text.
 */
char *log_quote(const char *bytes, char *ret_text, size_t size);

#endif
