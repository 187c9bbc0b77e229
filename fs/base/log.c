// SPDX-License-Identifier: Apache-2.0
#include "fs/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define SYSLOG_SOCKET "/dev/log"
#define FACILITY_DAEMON (3 << 3) /* of syslog(3) */

static const struct {
	const char *name;
	int priority; /* of syslog(3), whose header has names that are ours */
} levels[] = {
	[LOG_ERROR] = { "error", 3 },
	[LOG_WARNING] = { "warning", 4 },
	[LOG_INFO] = { "info", 6 },
	[LOG_DEBUG] = { "debug", 7 },
};

/* Set once by main before threads start. */
static enum log_level log_max_level = LOG_INFO;
static const char *log_volume;
static int log_fd = STDERR_FILENO;
static enum log_form log_form = LOG_FORM_LINE;
static const char *log_program = "";

void log_setup(enum log_level level, const char *volume)
{
	log_max_level = level;
	log_volume = volume;
}

int log_level_from_name(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (strcmp(name, levels[i].name) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* A line under construction: what does not fit is cut off, and a newline still fits. */
struct line {
	char text[2048];
	size_t used;
};

static void __attribute__((format(printf, 2, 0)))
vput(struct line *line, const char *format, va_list args)
{
	size_t room = sizeof(line->text) - 1 - line->used;
	int n = vsnprintf(line->text + line->used, room, format, args);

	if (n > 0)
		line->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void __attribute__((format(printf, 2, 3))) put(struct line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vput(line, format, args);
	va_end(args);
}

static void put_time(struct line *line)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	line->used += strftime(line->text + line->used, sizeof(line->text) - line->used,
			       "%Y-%m-%dT%H:%M:%S", &tm);
	put(line, ".%03ldZ ", now.tv_nsec / 1000000);
}

/* What stands before the text, which all forms have. */
static void put_head(struct line *line, enum log_level level, const char *op)
{
	switch (log_form) {
	case LOG_FORM_LINE:
		put_time(line);
		put(line, "%s ", levels[level].name);
		break;
	case LOG_FORM_SYSLOG:
		put(line, "<%d>%s[%d]: ", FACILITY_DAEMON | levels[level].priority, log_program,
		    (int)getpid());
		break;
	case LOG_FORM_JOURNAL:
		put(line, "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nFSGROUPFS_OP=%s\n",
		    levels[level].priority, log_program, op);
		if (log_volume)
			put(line, "FSGROUPFS_VOLUME=%s\n", log_volume);
		put(line, "MESSAGE=");
		break;
	}
	put(line, "op=%s%s%s ", op, log_volume ? " vol=" : "", log_volume ? log_volume : "");
}

void log_line(enum log_level level, const char *op, const char *format, ...)
{
	int saved = errno;
	struct line line = { .used = 0 };
	va_list args;
	size_t text;
	ssize_t written;

	if (level > log_max_level)
		return;
	put_head(&line, level, op);
	text = line.used;
	va_start(args, format);
	vput(&line, format, args);
	va_end(args);
	/* One line, whatever was put into it: in the journal another would be another field. */
	for (; text < line.used; text++) {
		if ((unsigned char)line.text[text] < 0x20 || line.text[text] == 0x7f)
			line.text[text] = '?';
	}
	if (log_form != LOG_FORM_SYSLOG)
		line.text[line.used++] = '\n';
	/* A log that cannot be written must not stop the work. */
	written = write(log_fd, line.text, line.used);
	(void)written;
	errno = saved;
}

void log_in_handler(const char *text)
{
	static const char *const heads[] = {
		[LOG_FORM_LINE] = "",
		[LOG_FORM_SYSLOG] = "<28>", /* daemon, warning */
		[LOG_FORM_JOURNAL] = "PRIORITY=4\nMESSAGE=",
	};
	char line[128];
	size_t head = strlen(heads[log_form]), len = strlen(text);
	ssize_t written;

	if (len > sizeof(line) - head - 1)
		len = sizeof(line) - head - 1;
	memcpy(line, heads[log_form], head);
	memcpy(line + head, text, len);
	line[head + len] = '\n';
	written = write(log_fd, line, head + len + 1);
	(void)written;
}

/* ---- the machine's log ---- */

void log_to(int fd, enum log_form form, const char *program)
{
	log_fd = fd;
	log_form = form;
	log_program = program;
}

/* Whether standard error is the stream to journald that a service is started with (systemd.exec(5)). */
static bool is_journal_stream(const struct stat *st)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;

	return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && dev == st->st_dev &&
	       ino == st->st_ino;
}

static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static bool connect_to(const char *path, enum log_form form, const char *program)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return false;
	log_to(take_fd(&fd), form, program);
	return true;
}

void log_to_system(const char *program)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) < 0 || (!is_journal_stream(&st) && !is_null(&st)))
		return;
	if (!connect_to(JOURNAL_SOCKET, LOG_FORM_JOURNAL, program) && is_null(&st))
		connect_to(SYSLOG_SOCKET, LOG_FORM_SYSLOG, program);
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
