/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_STATS_H
#define FS_STATS_H

/*
 * stats: how many requests of each opcode the servers of an overlay were sent, in shared memory: a count
 * outlives the server, and the keeper shows it.
 *
 * Beside them, how many of all these a thread found that looked for them (turn.h).
 *
 * A thread counts in a row of its own, without atomic arithmetic. What is read meanwhile may be a request
 * behind.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STATS_IN_TURN = 0,     /* none of the kernel's */
	STATS_OPCODES = 64,    /* the kernel's are below; what is not counts as the last */
	STATS_ROWS = 65,       /* one a thread: as many as the ledger has records */
	STATS_TEXT_MAX = 2048, /* of stats_format() */
};

struct stats {
	_Atomic uint64_t rows[STATS_ROWS][STATS_OPCODES];
};

/* stats_join: the calling thread counts in row @index from now on; no other thread does. */
void stats_join(struct stats *stats, unsigned index);

/*
 * stats_note: one request more, or one of all that was found in a turn (STATS_IN_TURN). Nothing in a thread that has not
 * joined.
 */
void stats_note(uint32_t opcode);

uint64_t stats_count(const struct stats *stats, uint32_t opcode);

/* stats_name: "LOOKUP"; NULL: it has none here. */
const char *stats_name(uint32_t opcode);

/* stats_format: "LOOKUP:12 GETATTR:3", in the order of the opcodes, without those that never came. */
const char *stats_format(const struct stats *stats, char ret_text[STATS_TEXT_MAX]);

#endif
