// SPDX-License-Identifier: Apache-2.0
#include "fs/process_status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"

char *process_status_read(int proc_fd, pid_t pid)
{
	enum {
		STATUS_BYTES = 1 << 20
	}; /* 65,536 groups (NGROUPS_MAX) of at most 11 characters, and the rest */
	AUTO_FREE char *status = malloc(STATUS_BYTES);
	char path[32];

	if (!status || pid <= 0)
		return NULL;
	snprintf(path, sizeof(path), "%d/status", (int)pid);
	if (io_read_text(proc_fd, path, status, STATUS_BYTES) < 0)
		return NULL;
	return take_ptr(&status);
}

const char *process_status_find(const char *status, const char *key)
{
	size_t len = strlen(key);

	while (strncmp(status, key, len) != 0 || status[len] != ':') {
		status += strcspn(status, "\n");
		if (*status++ == '\0')
			return NULL;
	}
	return status + len + 1;
}

/* The next number of the line; false at its end. What is too large is no id. */
static bool take_number(const char **io_line, uint32_t *ret_number)
{
	int r = parse_next_u32(io_line, ret_number);

	if (r == -ERANGE)
		*ret_number = UINT32_MAX;
	return r != -EINVAL;
}

bool process_status_has(const char *line, uint32_t id)
{
	uint32_t number;

	while (take_number(&line, &number)) {
		if (number == id)
			return true;
	}
	return false;
}

uint32_t process_status_number(const char *line, unsigned index)
{
	uint32_t number = UINT32_MAX;

	for (unsigned i = 0; i <= index; i++) {
		if (!take_number(&line, &number))
			return UINT32_MAX;
	}
	return number;
}
