// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mountd/ctl/text.h"

#define CELL_BYTES_MAX 4096
#define GAP 2 /* between two columns */

struct row {
	char *texts[TABLE_COLUMNS_MAX]; /* of text_show() */
	size_t coloured;
	unsigned colour;
};

struct table {
	const struct table_column *columns;
	size_t column_count;
	struct row *rows;
	size_t row_count;
};

struct table *table_new(const struct table_column *columns)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	while (table->column_count < TABLE_COLUMNS_MAX && columns[table->column_count].title)
		table->column_count++;
	return table;
}

static void row_fini(struct row *row)
{
	for (size_t i = 0; i < TABLE_COLUMNS_MAX; i++)
		free(row->texts[i]);
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->row_count; i++)
		row_fini(&table->rows[i]);
	free(table->rows);
	free(table);
}

int table_add(struct table *table, const char *const *texts, size_t coloured, unsigned colour)
{
	struct row row = { .coloured = coloured, .colour = colour }, *rows;
	char shown[CELL_BYTES_MAX];

	for (size_t i = 0; i < table->column_count; i++) {
		row.texts[i] = strdup(text_show(texts[i] ? texts[i] : "-", shown, sizeof(shown)));
		if (!row.texts[i]) {
			row_fini(&row);
			return -ENOMEM;
		}
	}
	rows = reallocarray(table->rows, table->row_count + 1, sizeof(*rows));
	if (!rows) {
		row_fini(&row);
		return -ENOMEM;
	}
	table->rows = rows;
	rows[table->row_count++] = row;
	return 0;
}

/* The widest column that may be cut further, or -1. */
static int widest(const struct table *table, const size_t *widths)
{
	int found = -1;

	for (size_t i = 0; i < table->column_count; i++) {
		if (table->columns[i].least == 0 || widths[i] <= table->columns[i].least)
			continue;
		if (found < 0 || widths[i] > widths[found])
			found = (int)i;
	}
	return found;
}

static void find_widths(const struct table *table, size_t width, size_t *ret_widths)
{
	size_t sum = 0;
	int i;

	for (size_t c = 0; c < table->column_count; c++) {
		ret_widths[c] = text_width(table->columns[c].title);
		for (size_t r = 0; r < table->row_count; r++) {
			size_t own = text_width(table->rows[r].texts[c]);

			if (own > ret_widths[c])
				ret_widths[c] = own;
		}
		sum += ret_widths[c] + (c > 0 ? GAP : 0);
	}
	while (width > 0 && sum > width && (i = widest(table, ret_widths)) >= 0) {
		ret_widths[i]--;
		sum--;
	}
}

/* One line; what lies beyond @room (0: no limit) is not printed, and neither are spaces at the end. */
static void print_line(const char *const *texts, size_t count, const size_t *widths, size_t room,
		       size_t coloured, unsigned colour, FILE *out)
{
	size_t at = 0, gap = 0;

	for (size_t i = 0; i < count; i++) {
		char text[CELL_BYTES_MAX];
		size_t width = widths[i];

		if (room > 0 && at + gap >= room)
			break;
		if (room > 0 && at + gap + width > room)
			width = room - at - gap;
		snprintf(text, sizeof(text), "%s", texts[i]);
		text_fit(text, width);
		if (text[0]) {
			fprintf(out, "%*s", (int)gap, "");
			at += gap;
			gap = 0;
			if (colour && i == coloured)
				fprintf(out, "\033[%um%s\033[0m", colour, text);
			else
				fputs(text, out);
			at += text_width(text);
		}
		gap += widths[i] - text_width(text) + GAP;
	}
	putc('\n', out);
}

size_t table_print(const struct table *table, size_t width, size_t lines, bool with_colours,
		   FILE *out)
{
	const char *titles[TABLE_COLUMNS_MAX];
	size_t widths[TABLE_COLUMNS_MAX], shown = table->row_count, printed;

	for (size_t i = 0; i < table->column_count; i++)
		titles[i] = table->columns[i].title;
	find_widths(table, width, widths);
	/* The title, the rows, and the line that counts the others. */
	if (lines > 2 && shown + 1 > lines)
		shown = lines - 2;
	print_line(titles, table->column_count, widths, width, 0, with_colours ? 1 : 0, out);
	for (size_t r = 0; r < shown; r++) {
		const struct row *row = &table->rows[r];

		print_line((const char *const *)row->texts, table->column_count, widths, width,
			   row->coloured, with_colours ? row->colour : 0, out);
	}
	printed = shown + 1;
	if (shown < table->row_count) {
		fprintf(out, "... and %zu more\n", table->row_count - shown);
		printed++;
	}
	return printed;
}
