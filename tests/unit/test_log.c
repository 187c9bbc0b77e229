// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

/* What one log_line() writes to standard error, NUL-terminated. */
static size_t capture(char *ret_text, size_t size, enum log_level level, const char *op,
		      const char *message)
{
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t len;

	assert_int_equal(pipe(fds), 0);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	log_line(level, op, "%s", message);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	close(fds[1]);
	len = read(fds[0], ret_text, size - 1);
	close(fds[0]);
	assert_true(len >= 0);
	ret_text[len] = '\0';
	return (size_t)len;
}

static void log_line_has_time_level_op_and_volume(void **state)
{
	char line[512];

	(void)state;
	log_setup(LOG_INFO, "data");
	capture(line, sizeof(line), LOG_WARNING, "open", "node=42 gone");
	assert_non_null(strstr(line, "Z warning op=open vol=data node=42 gone\n"));
	assert_int_equal(line[4], '-');
	assert_int_equal(line[10], 'T');
	log_setup(LOG_INFO, NULL);
	capture(line, sizeof(line), LOG_ERROR, "open", "gone");
	assert_non_null(strstr(line, "Z error op=open gone\n"));
}

static void log_line_above_the_level_is_silent(void **state)
{
	char line[512];

	(void)state;
	log_setup(LOG_WARNING, NULL);
	assert_int_equal(capture(line, sizeof(line), LOG_INFO, "x", "y"), 0);
	assert_true(capture(line, sizeof(line), LOG_ERROR, "x", "y") > 0);
}

static void log_line_too_long_is_one_line(void **state)
{
	char line[8192], message[5000], op[3000];

	(void)state;
	log_setup(LOG_INFO, NULL);
	memset(message, 'm', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	memset(op, 'o', sizeof(op) - 1);
	op[sizeof(op) - 1] = '\0';
	assert_int_equal(capture(line, sizeof(line), LOG_INFO, "x", message), 2047);
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	capture(line, sizeof(line), LOG_INFO, op, message);
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void log_line_keeps_errno(void **state)
{
	char line[512];

	(void)state;
	log_setup(LOG_INFO, NULL);
	errno = EXDEV;
	capture(line, sizeof(line), LOG_INFO, "x", "y");
	assert_int_equal(errno, EXDEV);
}

/* What one log_line() sends as a datagram of that form, NUL-terminated. */
static void capture_sent(enum log_form form, const char *volume, const char *message,
			 char *ret_text, size_t size)
{
	int fds[2];
	ssize_t len;

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	log_setup(LOG_INFO, volume);
	log_to(fds[0], form, "prog");
	log_line(LOG_WARNING, "open", "%s", message);
	log_to(STDERR_FILENO, LOG_FORM_LINE, "");
	len = recv(fds[1], ret_text, size - 1, MSG_DONTWAIT);
	assert_true(len > 0);
	ret_text[len] = '\0';
	close(fds[0]);
	close(fds[1]);
}

static void log_line_for_journald_is_fields(void **state)
{
	char text[512];

	(void)state;
	capture_sent(LOG_FORM_JOURNAL, "data", "gone", text, sizeof(text));
	assert_string_equal(text, "PRIORITY=4\nSYSLOG_IDENTIFIER=prog\nFSGROUPFS_OP=open\n"
				  "FSGROUPFS_VOLUME=data\nMESSAGE=op=open vol=data gone\n");
	/* No text makes a field. */
	capture_sent(LOG_FORM_JOURNAL, NULL, "a\n_UID=0\n", text, sizeof(text));
	assert_string_equal(text, "PRIORITY=4\nSYSLOG_IDENTIFIER=prog\nFSGROUPFS_OP=open\n"
				  "MESSAGE=op=open a?_UID=0?\n");
}

static void log_line_for_syslogd_has_its_priority(void **state)
{
	char text[512], wanted[512];

	(void)state;
	capture_sent(LOG_FORM_SYSLOG, "data", "gone", text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "<28>prog[%d]: op=open vol=data gone", (int)getpid());
	assert_string_equal(text, wanted);
}

static void log_line_nobody_reads_does_not_block(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
	log_setup(LOG_INFO, NULL);
	log_to(fds[0], LOG_FORM_JOURNAL, "prog");
	for (int i = 0; i < 10000; i++)
		log_line(LOG_INFO, "x", "y");
	close(fds[1]);
	log_line(LOG_INFO, "x", "y");
	log_to(STDERR_FILENO, LOG_FORM_LINE, "");
	close(fds[0]);
}

static void log_to_system_chosen_standard_error_stays(void **state)
{
	char line[512];

	(void)state;
	log_setup(LOG_INFO, NULL);
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_to_system("prog");
	capture(line, sizeof(line), LOG_ERROR, "open", "gone");
	assert_non_null(strstr(line, "Z error op=open gone\n"));
	unsetenv("JOURNAL_STREAM");
}

static void log_level_from_name_round_trip(void **state)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	enum log_level level = LOG_ERROR;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(log_level_from_name(names[i], &level), 0);
		assert_int_equal(level, i);
	}
	assert_int_equal(log_level_from_name("warn", &level), -EINVAL);
	assert_int_equal(log_level_from_name("", &level), -EINVAL);
	assert_int_equal(level, LOG_DEBUG);
}

static void log_quote_special_bytes_are_escaped(void **state)
{
	static const struct {
		const char *bytes, *quoted;
	} cases[] = {
		{ "", "" },
		{ "plain.txt", "plain.txt" },
		{ "a b", "a\\x20b" },
		{ "a\nvol=x", "a\\x0avol=x" },
		{ "\x1b[31m\x7f", "\\x1b[31m\\x7f" },
		{ "say \"hi\\\"", "say\\x20\\x22hi\\x5c\\x22" },
		{ "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		  "gr\xc3\xbc\xc3\x9f\\x20\xe2\x82\xac\\x20\xf0\x9f\x98\x80" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc3", "\\xc3" },				/* cut short */
		{ "\xc0\xaf", "\\xc0\\xaf" },			/* overlong */
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },		/* overlong */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },		/* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* beyond U+10FFFF */
		{ "\x80", "\\x80" },
	};
	char quoted[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(log_quote(cases[i].bytes, quoted, sizeof(quoted)),
				    cases[i].quoted);
}

static void log_quote_exact_fit_is_whole(void **state)
{
	char quoted[9];

	(void)state;
	assert_string_equal(log_quote("12345678", quoted, sizeof(quoted)), "12345678");
	assert_string_equal(log_quote("123456789", quoted, sizeof(quoted)), "12345...");
	assert_string_equal(log_quote("1234567\n", quoted, sizeof(quoted)), "12345...");
	assert_string_equal(log_quote("1234\nxyz", quoted, sizeof(quoted)), "1234...");
}

static void log_quote_never_writes_beyond_size(void **state)
{
	(void)state;
	for (size_t size = 0; size < 40; size++) {
		char *quoted = malloc(size + 1); /* what lies behind is the sanitizer's to watch */

		assert_non_null(quoted);
		memset(quoted, '#', size + 1);
		log_quote("a\n\xc3\xbc\"bcdefgh", quoted, size);
		assert_int_equal(quoted[size], '#');
		if (size > 0)
			assert_true(strnlen(quoted, size) < size);
		free(quoted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_line_has_time_level_op_and_volume),
		cmocka_unit_test(log_line_above_the_level_is_silent),
		cmocka_unit_test(log_line_too_long_is_one_line),
		cmocka_unit_test(log_line_keeps_errno),
		cmocka_unit_test(log_line_for_journald_is_fields),
		cmocka_unit_test(log_line_for_syslogd_has_its_priority),
		cmocka_unit_test(log_line_nobody_reads_does_not_block),
		cmocka_unit_test(log_to_system_chosen_standard_error_stays),
		cmocka_unit_test(log_level_from_name_round_trip),
		cmocka_unit_test(log_quote_special_bytes_are_escaped),
		cmocka_unit_test(log_quote_exact_fit_is_whole),
		cmocka_unit_test(log_quote_never_writes_beyond_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
