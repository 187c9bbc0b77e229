// SPDX-License-Identifier: Apache-2.0
#include "fs/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

bool process_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size)
{
	char path[64];
	AUTO_FD int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret_text, size - 1);
	ret_text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

char process_state(pid_t pid, pid_t tid)
{
	char text[512], *end;

	if (!process_read(pid, tid, "stat", text, sizeof(text)))
		return '?';
	/* The name before the state may contain anything, also parentheses. */
	end = strrchr(text, ')');
	return end && end[1] == ' ' && end[2] ? end[2] : '?';
}

bool process_is_stopped(pid_t pid, pid_t tid)
{
	char state = process_state(pid, tid);

	return state == 'T' || state == 't';
}

static bool has_kill(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at && strtoull(at + strlen(name), NULL, 16) >> (SIGKILL - 1) & 1;
}

bool process_is_killed(pid_t pid)
{
	char text[4096];

	/* The first thread has often ended by then, while another still waits. */
	if (!process_read(pid, pid, "status", text, sizeof(text)))
		return false;
	return process_state(pid, pid) == 'Z' || has_kill(text, "\nSigPnd:\t") ||
	       has_kill(text, "\nShdPnd:\t");
}
