/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CHANNEL_H
#define FS_CHANNEL_H

/*
 * channel: what a keeper and its server say to each other: fixed-size messages over one
 * SOCK_SEQPACKET pair. Everything that must outlive the server stands in the shared memory instead.
 *
 *   server                        keeper
 *   PREPARED(version) ──────────>            sandboxed, tree probed, epoch found; a successor: it would answer
 *                                            INIT as it was answered, and has changed nothing yet
 *            <─────────────────── MOUNTED    the overlay's file system is made: INIT is waiting
 *   SERVING ────────────────────>            the first server: INIT is answered, and so is what is asked
 *            <─────────────────── ATTACHED   and the overlay is at its target: the run may begin
 *   READY ──────────────────────>            it serves
 *   FAILED(error, text) ────────>            instead of PREPARED or READY
 *   CHANGED ────────────────────>            state, reason or counters are worth a look
 *            <─────────────────── CONTROLS   paused or rate changed
 *            <─────────────────── CONVERGE   walk now (again, where files failed)
 *            <─────────────────── FINISHED   the finished run is durably on record
 *            <─────────────────── TRY        try the hand-off
 *   PIN(slot, descriptor) ──────>            hold this for the next server; without descriptor: no more
 *            <─────────────────── PIN          before MOUNTED: what the last server had held
 *   STASH(cell, descriptor) ────>            after READY: pins may lie in there, too: stash.h
 *            <─────────────────── STASHED(cell)  it is looked into when the server is dead
 *   SURVEY ─────────────────────>            does anybody else use the overlay?
 *            <─────────────────── SURVEYED   or REFUSED(text)
 *            <─────────────────── EXPLAIN(descriptor)  answer what is asked there: explain.h
 *   SWAP(error) ────────────────>            opens are held, none is open: swap if nobody else uses it;
 *                                            error 0: none was opened since SURVEY was sent
 *            <─────────────────── SWAPPED    or REFUSED(text)
 *            <─────────────────── DRAIN(n)   another server waits, for the n-th time: answer what was read, and stop
 *   DRAINED(n, error) ──────────>            nothing is served; with an error: it goes on, not now
 *            <─────────────────── LEAVE      the other one serves: exit; after it MOUNTED goes to the other
 *            <─────────────────── GO_ON(n)   there is no other one: serve on. It may cross DRAINED(n), which is void then
 *
 * Keeper and server may be of different versions: messages are only added, and only what both must know raises
 * SHARED_LAYOUT.
 */

#include <stdint.h>

enum channel_kind {
	CHANNEL_PREPARED = 1,
	CHANNEL_MOUNTED,
	CHANNEL_READY,
	CHANNEL_FAILED,
	CHANNEL_CHANGED,
	CHANNEL_CONTROLS,
	CHANNEL_CONVERGE,
	CHANNEL_FINISHED,
	CHANNEL_TRY,
	CHANNEL_SWAP,
	CHANNEL_SWAPPED,
	CHANNEL_REFUSED,
	CHANNEL_SURVEY,
	CHANNEL_SURVEYED,
	CHANNEL_PIN,
	CHANNEL_DRAIN,
	CHANNEL_DRAINED,
	CHANNEL_LEAVE,
	CHANNEL_GO_ON,
	CHANNEL_EXPLAIN,
	CHANNEL_STASH,
	CHANNEL_STASHED,
	CHANNEL_SERVING,
	CHANNEL_ATTACHED,
};

/* server: its exit status after LEAVE. */
enum { CHANNEL_EXIT_DRAINED = 10 };

struct channel_message {
	uint32_t kind;
	int32_t error; /* errno, positive */
	uint32_t slot; /* of a pin; a cell of the stash; n */
	char text[244];
};

/* channel_send: 0 or -errno; @text may be NULL. Blocks while the peer's queue is full. */
int channel_send(int fd, enum channel_kind kind, int error, const char *text);

/* channel_send_pin: @pin, or with -1 its end. Like channel_send. */
int channel_send_pin(int fd, uint32_t slot, int pin);

/* channel_send_stash: @end is that of the stash's @cell; channel_send_stashed: the answer. Like channel_send. */
int channel_send_stash(int fd, uint32_t cell, int end);
int channel_send_stashed(int fd, uint32_t cell);

/* channel_send_drain: DRAIN, DRAINED or GO_ON with its number. Like channel_send. */
int channel_send_drain(int fd, enum channel_kind kind, uint32_t number, int error);

/* channel_send_fd: with a descriptor. Like channel_send. */
int channel_send_fd(int fd, enum channel_kind kind, int descriptor);

/*
 * channel_receive_pin: like channel_receive; *ret_pin is the descriptor that came with the message, which
 * is the caller's, or -1.
 */
int channel_receive_pin(int fd, struct channel_message *ret_message, int *ret_pin);

/* channel_receive: blocks. 1, 0 at the peer's end, -EPROTO for another size, or -errno. */
int channel_receive(int fd, struct channel_message *ret_message);

#endif
