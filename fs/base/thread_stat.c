// SPDX-License-Identifier: Apache-2.0
#include "fs/base/thread_stat.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/io.h"
#include "fs/base/parse.h"

enum {
	STAT_BYTES = 1024,
	SCHEDSTAT_BYTES = 80, /* three numbers */
	/* The fields' numbers, from 1. */
	STAT_STATE = 3,
	STAT_PROCESSOR = 39,
};

static int read_about(int proc_fd, pid_t thread, const char *name, char *ret_text, size_t size)
{
	char path[56];

	snprintf(path, sizeof(path), "%d/task/%d/%s", (int)thread, (int)thread, name);
	return io_read_text(proc_fd, path, ret_text, size);
}

int thread_stat_get(int proc_fd, pid_t thread, struct thread_stat *ret_stat)
{
	char text[STAT_BYTES];
	const char *field;
	uint32_t processor;
	int r = read_about(proc_fd, thread, "stat", text, sizeof(text));

	if (r < 0)
		return r;
	/* The name before them is the process's own choice, and may have anything in it. */
	field = strrchr(text, ')');
	if (!field || sscanf(field, ") %c", &ret_stat->state) != 1)
		return -EPROTO;
	for (int i = STAT_STATE - 1; field && i < STAT_PROCESSOR; i++)
		field = strchr(field + 1, ' ');
	if (!field || parse_next_u32(&field, &processor) < 0 || processor >= CPU_SETSIZE)
		return -EPROTO;
	ret_stat->processor = (int)processor;
	return 0;
}

int thread_stat_times(int proc_fd, pid_t thread, uint64_t *ret_ran_ns, uint64_t *ret_waited_ns)
{
	char text[SCHEDSTAT_BYTES];
	int r = read_about(proc_fd, thread, "schedstat", text, sizeof(text));

	if (r < 0)
		return r;
	return sscanf(text, "%" SCNu64 " %" SCNu64, ret_ran_ns, ret_waited_ns) == 2 ? 0 : -EPROTO;
}
