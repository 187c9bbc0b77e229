/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_GATE_H
#define FS_GATE_H

/*
 * gate: what every request that opens a file must pass, so that the hand-off can hold them.
 *
 * open ──hold──> held ──release──> open            (the hand-off was refused: held requests are served)
 *                  └────swap────> swapped          (held requests are answered ESTALE: the kernel walks
 *                                                   again and lands on the native tree)
 *
 * Once swapped, an open can still come: from a descriptor or working directory on the old overlay, or
 * from a walk that was under way during the swap. The two look alike. So the first OPEN of a thread for
 * a node is answered ESTALE, and the one that the kernel then sends again, if it does, is served.
 *
 * Knows requests as bytes; does not know FUSE replies. Thread-safe.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gate_state { GATE_OPEN, GATE_HELD, GATE_SWAPPED };
enum gate_verdict { GATE_SERVE, GATE_PARKED, GATE_ANSWER_ESTALE };

struct gate_request {
	struct gate_request *next;
	uint64_t node;
	uint32_t pid;
	size_t len;
	unsigned char bytes[];
};

enum { GATE_RETRIES = 1024 };

/* Whom ESTALE was answered: plain data, so that it can outlive the server. */
struct gate_retries {
	struct {
		uint64_t node;
		uint32_t pid;
		uint32_t spare;
	} ring[GATE_RETRIES];
	uint32_t next;
	uint32_t spare;
};

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* no open is being served any more; the hold has ended */
	enum gate_state state;
	unsigned in_flight;	     /* served opens that are not yet finished */
	uint64_t steps;		     /* opens ever begun and ended */
	struct gate_request *parked; /* oldest first */
	struct gate_request **parked_tail;
	struct gate_retries *retries; /* borrowed; guarded by lock */
};

/* gate_init: open. @retries: zeroed at first; what an earlier gate has noted there goes on. */
void gate_init(struct gate *g, struct gate_retries *retries);

/*
 * gate_enter: a request that opens @node for thread @pid. GATE_SERVE: serve it, then gate_leave().
 * GATE_PARKED: a copy of @bytes is kept, do nothing. GATE_ANSWER_ESTALE: answer that.
 */
enum gate_verdict gate_enter(struct gate *g, uint64_t node, uint32_t pid, const void *bytes,
			     size_t len);
void gate_leave(struct gate *g);

/*
 * gate_wait: gate_enter() for a thread that cannot take another request before it has answered this one: where that
 * would park, it waits for the end of the hold, which must not need what that thread could serve. Never GATE_PARKED.
 */
enum gate_verdict gate_wait(struct gate *g, uint64_t node, uint32_t pid);

/* gate_hold: new opens are parked, or wait; waits until those being served are finished. */
void gate_hold(struct gate *g);

/*
 * gate_steps: a number that grows with each open that begins and with each that ends: while it stays, and no
 * file is open, none has been opened.
 */
uint64_t gate_steps(struct gate *g);

/*
 * gate_finish: ends the hold; to GATE_OPEN or GATE_SWAPPED. The parked requests go to the caller, who
 * serves or answers them, and frees each.
 */
struct gate_request *gate_finish(struct gate *g, bool swapped);

#endif
