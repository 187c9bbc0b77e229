/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_TEXT_H
#define MOUNTD_CTL_TEXT_H

/*
 * ctl_text: texts of others, as a terminal may have them: printable, of a known width, cut where there is no room.
 *
 * Knows UTF-8 and how wide a terminal draws it (wcwidth of the process's locale). Pure but for the locale and
 * for text_terminal(); one thread.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * text_show: @bytes made fit for a terminal: control characters, what is not valid UTF-8, what has no width or turns
 * the direction of writing become \xNN, byte by byte; the rest stays, and so do escapes that are there already. Outside a UTF-8
 * locale that holds for all that is not ASCII. A result that does not fit @size ends in "...".
 * Returns @ret_text.
 */
char *text_show(const char *bytes, char *ret_text, size_t size);

/* text_width: columns that a text of text_show() takes. */
size_t text_width(const char *shown);

/* text_fit: @io_shown, of text_show(), cut to @width columns; the last ones say so with "...". */
void text_fit(char *io_shown, size_t width);

/* What standard output is. */
struct text_terminal {
	bool is_terminal;
	bool has_colours; /* a terminal, TERM is not "dumb", and NO_COLOR is not set */
	size_t columns;	  /* 0: no limit */
	size_t lines;	  /* 0: not known */
};

/*
 * text_terminal: looks at @fd. Of a terminal the width is its own, else COLUMNS, else 80; of anything else COLUMNS,
 * else there is no limit.
 */
struct text_terminal text_terminal(int fd);

#endif
