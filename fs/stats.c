// SPDX-License-Identifier: Apache-2.0
#include "fs/stats.h"

#include <linux/fuse.h>
#include <stdio.h>

#include "fs/request.h"

static __thread _Atomic uint64_t *row;

/* By opcode; what has no name is shown by its number. */
static const char *const names[STATS_OPCODES] = {
	[FUSE_LOOKUP] = "LOOKUP",
	[FUSE_FORGET] = "FORGET",
	[FUSE_GETATTR] = "GETATTR",
	[FUSE_SETATTR] = "SETATTR",
	[FUSE_READLINK] = "READLINK",
	[FUSE_SYMLINK] = "SYMLINK",
	[FUSE_MKNOD] = "MKNOD",
	[FUSE_MKDIR] = "MKDIR",
	[FUSE_UNLINK] = "UNLINK",
	[FUSE_RMDIR] = "RMDIR",
	[FUSE_RENAME] = "RENAME",
	[FUSE_LINK] = "LINK",
	[FUSE_OPEN] = "OPEN",
	[FUSE_READ] = "READ",
	[FUSE_WRITE] = "WRITE",
	[FUSE_STATFS] = "STATFS",
	[FUSE_RELEASE] = "RELEASE",
	[FUSE_FSYNC] = "FSYNC",
	[FUSE_SETXATTR] = "SETXATTR",
	[FUSE_GETXATTR] = "GETXATTR",
	[FUSE_LISTXATTR] = "LISTXATTR",
	[FUSE_REMOVEXATTR] = "REMOVEXATTR",
	[FUSE_FLUSH] = "FLUSH",
	[FUSE_INIT] = "INIT",
	[FUSE_OPENDIR] = "OPENDIR",
	[FUSE_READDIR] = "READDIR",
	[FUSE_RELEASEDIR] = "RELEASEDIR",
	[FUSE_FSYNCDIR] = "FSYNCDIR",
	[FUSE_GETLK] = "GETLK",
	[FUSE_SETLK] = "SETLK",
	[FUSE_SETLKW] = "SETLKW",
	[FUSE_ACCESS] = "ACCESS",
	[FUSE_CREATE] = "CREATE",
	[FUSE_INTERRUPT] = "INTERRUPT",
	[FUSE_BMAP] = "BMAP",
	[FUSE_DESTROY] = "DESTROY",
	[FUSE_IOCTL] = "IOCTL",
	[FUSE_POLL] = "POLL",
	[FUSE_BATCH_FORGET] = "BATCH_FORGET",
	[FUSE_FALLOCATE] = "FALLOCATE",
	[FUSE_READDIRPLUS] = "READDIRPLUS",
	[FUSE_RENAME2] = "RENAME2",
	[FUSE_LSEEK] = "LSEEK",
	[FUSE_COPY_FILE_RANGE] = "COPY_FILE_RANGE",
	[OPCODE_TMPFILE] = "TMPFILE",
	[OPCODE_STATX] = "STATX",
};

void stats_join(struct stats *stats, unsigned index)
{
	row = stats->rows[index];
}

void stats_note(uint32_t opcode)
{
	_Atomic uint64_t *count;

	if (!row)
		return;
	count = &row[opcode < STATS_OPCODES ? opcode : STATS_OPCODES - 1];
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

uint64_t stats_count(const struct stats *stats, uint32_t opcode)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < STATS_ROWS; i++)
		sum += atomic_load_explicit(&stats->rows[i][opcode], memory_order_relaxed);
	return sum;
}

const char *stats_name(uint32_t opcode)
{
	return opcode < STATS_OPCODES ? names[opcode] : NULL;
}

const char *stats_format(const struct stats *stats, char ret_text[STATS_TEXT_MAX])
{
	size_t len = 0;

	ret_text[0] = '\0';
	for (uint32_t opcode = STATS_IN_TURN + 1; opcode < STATS_OPCODES; opcode++) {
		unsigned long long count = stats_count(stats, opcode);
		const char *between = len > 0 ? " " : "";

		if (count == 0)
			continue;
		if (names[opcode])
			len += (size_t)snprintf(ret_text + len, STATS_TEXT_MAX - len, "%s%s:%llu",
						between, names[opcode], count);
		else
			len += (size_t)snprintf(ret_text + len, STATS_TEXT_MAX - len, "%sOP%u:%llu",
						between, opcode, count);
		if (len >= STATS_TEXT_MAX)
			break;
	}
	return ret_text;
}
