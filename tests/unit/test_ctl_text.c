// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/table.h"
#include "mountd/ctl/text.h"

static void assert_shown(const char *bytes, const char *wanted, size_t width)
{
	char shown[256];

	assert_string_equal(text_show(bytes, shown, sizeof(shown)), wanted);
	assert_int_equal(text_width(shown), width);
}

static void text_show_plain_stays(void **state)
{
	(void)state;
	assert_shown("", "", 0);
	assert_shown("/mnt/a b", "/mnt/a b", 8);
	assert_shown("h\xc3\xa4user", "h\xc3\xa4user", 6);
	assert_shown("\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac", 4);
}

static void text_show_hostile_is_escaped(void **state)
{
	(void)state;
	assert_shown("a\nb\033[2J", "a\\x0ab\\x1b[2J", 13);
	assert_shown("\\x0a", "\\x0a", 4);
	assert_shown("\x7f", "\\x7f", 4);
	/* Not UTF-8: a byte alone, an overlong form, a surrogate, beyond the last character. */
	assert_shown("\xff", "\\xff", 4);
	assert_shown("\xc0\xaf", "\\xc0\\xaf", 8);
	assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80", 12);
	assert_shown("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 16);
	assert_shown("\xe6\x97", "\\xe6\\x97", 8);
	/* Turns the direction of what follows; a C1 control. */
	assert_shown("\xe2\x80\xae", "\\xe2\\x80\\xae", 12);
	assert_shown("\xc2\x9b", "\\xc2\\x9b", 8);
}

static void text_show_too_long_ends_in_dots(void **state)
{
	char shown[8];

	(void)state;
	assert_string_equal(text_show("1234567", shown, sizeof(shown)), "1234567");
	assert_string_equal(text_show("12345678", shown, sizeof(shown)), "1234...");
	assert_string_equal(text_show("123\n5678", shown, sizeof(shown)), "123...");
}

static void text_show_other_locale_escapes_all_but_ascii(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C"));
	assert_shown("\xc3\xa4", "\\xc3\\xa4", 8);
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
}

static void assert_fits(const char *text, size_t width, const char *wanted)
{
	char shown[64];

	snprintf(shown, sizeof(shown), "%s", text);
	text_fit(shown, width);
	assert_string_equal(shown, wanted);
	assert_true(text_width(shown) <= width);
}

static void text_fit_cuts_whole_characters(void **state)
{
	(void)state;
	assert_fits("abcdef", 6, "abcdef");
	assert_fits("abcdef", 5, "ab...");
	assert_fits("abcdef", 2, "..");
	assert_fits("abcdef", 0, "");
	assert_fits("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 6,
		    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e");
	assert_fits("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 5, "\xe6\x97\xa5...");
	assert_fits("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 4, "...");
}

/* What table_print() writes, NUL-terminated. */
static size_t print(const struct table *table, size_t width, size_t lines, bool with_colours,
		    char *ret_text, size_t size)
{
	FILE *out = fmemopen(ret_text, size, "w");
	size_t printed;

	assert_non_null(out);
	printed = table_print(table, width, lines, with_colours, out);
	fclose(out);
	return printed;
}

static const struct table_column columns[] = {
	{ "ID", 4 }, { "STATE", 0 }, { "TARGET", 6 }, { NULL, 0 }
};

static struct table *sample(void)
{
	static const char *const first[] = { "one", "native", "/mnt/\xe6\x97\xa5/data" };
	static const char *const second[] = { "a-long-id", "failed", NULL };
	struct table *table = table_new(columns);

	assert_non_null(table);
	assert_int_equal(table_add(table, first, 1, 32), 0);
	assert_int_equal(table_add(table, second, 1, 31), 0);
	return table;
}

static void table_print_pads_by_width(void **state)
{
	AUTO(table) *table = sample();
	char text[1024];

	(void)state;
	assert_int_equal(print(table, 0, 0, false, text, sizeof(text)), 3);
	assert_string_equal(text, "ID         STATE   TARGET\n"
				  "one        native  /mnt/\xe6\x97\xa5/data\n"
				  "a-long-id  failed  -\n");
}

static void table_print_narrow_cuts_the_widest(void **state)
{
	AUTO(table) *table = sample();
	char text[1024];

	(void)state;
	print(table, 26, 0, false, text, sizeof(text));
	assert_string_equal(text, "ID        STATE   TARGET\n"
				  "one       native  /mnt/...\n"
				  "a-lon...  failed  -\n");
}

/* Narrower than the columns can be made: cut at the edge, and never wrapped. */
static void table_print_any_width_never_wraps(void **state)
{
	AUTO(table) *table = sample();
	char text[1024], *save = NULL;

	(void)state;
	for (size_t width = 1; width < 40; width++) {
		print(table, width, 0, false, text, sizeof(text));
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			assert_true(text_width(line) <= width);
	}
}

static void table_print_few_lines_counts_the_others(void **state)
{
	AUTO(table) *table = table_new(columns);
	static const char *const row[] = { "one", "native", "/mnt" };
	char text[1024];

	(void)state;
	assert_non_null(table);
	for (int i = 0; i < 10; i++)
		assert_int_equal(table_add(table, row, 1, 0), 0);
	assert_int_equal(print(table, 0, 5, false, text, sizeof(text)), 5);
	assert_non_null(strstr(text, "... and 7 more\n"));
	assert_int_equal(print(table, 0, 11, false, text, sizeof(text)), 11);
	assert_null(strstr(text, "more"));
}

static void table_print_colours_one_column(void **state)
{
	AUTO(table) *table = sample();
	char text[1024];

	(void)state;
	print(table, 0, 0, true, text, sizeof(text));
	assert_non_null(strstr(text, "one        \033[32mnative\033[0m  /mnt"));
	assert_non_null(strstr(text, "\033[31mfailed\033[0m"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_show_plain_stays),
		cmocka_unit_test(text_show_hostile_is_escaped),
		cmocka_unit_test(text_show_too_long_ends_in_dots),
		cmocka_unit_test(text_show_other_locale_escapes_all_but_ascii),
		cmocka_unit_test(text_fit_cuts_whole_characters),
		cmocka_unit_test(table_print_pads_by_width),
		cmocka_unit_test(table_print_narrow_cuts_the_widest),
		cmocka_unit_test(table_print_any_width_never_wraps),
		cmocka_unit_test(table_print_few_lines_counts_the_others),
		cmocka_unit_test(table_print_colours_one_column),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
