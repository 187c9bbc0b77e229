/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_TABLE_H
#define MOUNTD_CTL_TABLE_H

/*
 * ctl_table: rows of texts in columns that fit a terminal: where the room is short, the columns that may be cut give way,
 * the widest first. Every text goes through text_show(). One thread.
 */

#include <stdbool.h>
#include <stdio.h>

#include "fs/base/cleanup.h"

#define TABLE_COLUMNS_MAX 8

struct table_column {
	const char *title;
	size_t least; /* columns below which it is not cut; 0: it is never cut */
};

struct table;

/* table_new: @columns (borrowed) ends with a title of NULL. NULL: no memory. */
struct table *table_new(const struct table_column *columns);
void table_free(struct table *table);
DEFINE_AUTO(table)

/*
 * table_add: a row of as many texts as there are columns; NULL stands for "-". @colour: the SGR number for the text of
 * @coloured (a column), or 0. 0 or -ENOMEM.
 */
int table_add(struct table *table, const char *const *texts, size_t coloured, unsigned colour);

/*
 * table_print: title and rows; a line is at most @width columns (0: no limit).
 * @lines: prints at most so many lines (0: all), the last of which then counts the rows that are not shown
 * Returns how many lines were printed.
 */
size_t table_print(const struct table *table, size_t width, size_t lines, bool with_colours,
		   FILE *out);

#endif
