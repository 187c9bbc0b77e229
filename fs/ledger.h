/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_LEDGER_H
#define FS_LEDGER_H

/*
 * ledger: what the server is doing for each request, in shared memory: so that one which a successor gets
 * again has its effect once.
 *
 * A thread has one record, of the request that it serves; it says how far the change of the tree is
 * (phase), what it is about (objects by node id, the name that is made), and what it counted in the node
 * table. The table's changes and the record's counts change together (node.c's undo area). When the
 * answer is with the kernel the record is free: an answered request never comes again.
 *
 * A successor finds the records of the dead and keeps them aside ("left"). When the kernel sends such a
 * request again, the thread that serves it takes the record over: the counts are taken back, and the
 * handler, told by ledger_is_repeat() and ledger_phase(), looks at the tree before it changes it again.
 *
 * Functions without a struct shared work on the calling thread's record, and do nothing in a thread
 * that has none. A dead process's stores are there up to some instruction: the compiler's order is the
 * only one that matters, and signal fences keep it.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct shared;

enum {
	LEDGER_THREADS_MAX = 65, /* the session's and the main thread */
	/*
	 * Only requests that were read and not answered come again, before any other; so what two
	 * generations of threads can leave is enough, and the oldest are overwritten.
	 */
	LEDGER_LEFT_MAX = 192,
	LEDGER_LOOKUPS_MAX = 128, /* entries of one READDIRPLUS reply */
	LEDGER_NAME_MAX = 256,
};

enum ledger_phase {
	LEDGER_BEGUN,	/* the tree is as it was */
	LEDGER_STARTED, /* the call that changes the tree may have been made */
	LEDGER_DONE,	/* it was made, with success */
};

struct ledger_record {
	_Atomic uint64_t unique; /* without the bit of a repetition; 0: the record is free */
	uint32_t opcode;
	_Atomic uint32_t phase;	 /* enum ledger_phase */
	uint32_t lookup_count;	 /* lookups[] in use: slots whose nlookup rose by one for it */
	uint32_t opened;	 /* slot whose nopen it changed; 0: none */
	int32_t closing_id;	 /* backing id that is in no slot any more and must be closed */
	uint32_t server;	 /* which server left it: how many were before its successor */
	uint64_t object, victim; /* node ids; 0: not known to the kernel */
	uint64_t object_ino, victim_ino;
	struct timespec began; /* of the coarse clock that file systems stamp with */
	uint32_t uid;  /* creations: of the caller; changes of ownership: as shown before, */
	uint32_t gid;  /* so is this */
	uint32_t mode; /* and this; creations: the type; once DONE the mode as made */
	char name
		[LEDGER_NAME_MAX]; /* creations, in the directory @object; the new file is @object_ino once DONE */
	uint32_t lookups[LEDGER_LOOKUPS_MAX];
};

/* For a watchdog, which need not touch the records: close together. */
struct ledger_busy {
	_Atomic int64_t since_ms; /* monotonic: the thread serves a request; 0: none */
	uint32_t tid;
	uint32_t spare;
};

struct ledger {
	_Atomic uint64_t answered; /* requests, by all servers */
	struct ledger_busy busy[LEDGER_THREADS_MAX];
	struct ledger_record active[LEDGER_THREADS_MAX];
	struct ledger_record left[LEDGER_LEFT_MAX];
};

/* ledger_attach: puts aside what an earlier server left. Before any thread serves. */
void ledger_attach(struct shared *shared);

/* ledger_left: the record of a dead server at @i, NULL when there is none. */
struct ledger_record *ledger_left(struct shared *shared, size_t i);

/* ledger_join: the calling thread uses active record @index from now on. */
void ledger_join(struct shared *shared, unsigned index);

/*
 * ledger_begin: this thread serves the request. When it is one that a dead server had begun, its record
 * is taken over, with its counts; the caller takes those back (node_take_back).
 * @is_resent: the kernel says that it sends it again
 */
void ledger_begin(uint64_t unique, uint32_t opcode, bool is_resent);

/* ledger_end: it is answered. */
void ledger_end(void);

/* ledger_current: this thread's record while it serves a request, else NULL. */
struct ledger_record *ledger_current(void);

/* ledger_is_repeat: whether a dead server had begun it. */
bool ledger_is_repeat(void);

/* ledger_phase: how far the tree was changed when it was begun again; LEDGER_BEGUN for a new one. */
enum ledger_phase ledger_phase(void);

/*
 * ledger_start: the tree is about to be changed. @object, @victim: what the request is about, as node id
 * and inode number, by which a successor tells whether it was done; 0: unknown or none.
 */
void ledger_start(uint64_t object, uint64_t object_ino, uint64_t victim, uint64_t victim_ino);

/* ledger_start_creation: a file of type @mode is about to be made as @name in the directory @dir for @uid. */
void ledger_start_creation(uint64_t dir, const char *name, mode_t mode, uid_t uid);

/*
 * ledger_start_change: the ownership of @object is about to be changed.
 * @io_shown: as it is shown now; of a request that comes again: as it was before a dead server began
 */
void ledger_start_change(uint64_t object, uint64_t object_ino, struct stat *io_shown);

/* ledger_done: the tree is changed. ledger_made: what ledger_start_creation said is made, as *@st. */
void ledger_done(void);
void ledger_made(const struct stat *st);

/* ledger_failed: the tree is not changed after all. */
void ledger_failed(void);

/* ledger_has_room: whether one more lookup can be counted for this request. */
bool ledger_has_room(void);

/* Where a test can have the server killed, once: `-o debug_kill=OPERATION.POINT`. */
enum ledger_point {
	POINT_NONE,
	POINT_BEGUN,	/* read, nothing done */
	POINT_STARTED,	/* the record says that the tree may change */
	POINT_CHANGING, /* of several calls that change it the first is made */
	POINT_CHANGED,	/* the tree is changed, the record does not say so yet */
	POINT_DONE,	/* it does */
	POINT_COUNTING, /* in the middle of a change of the node table */
	POINT_COUNTED,	/* after it */
	POINT_REPLIED,	/* answered, the record not yet free */
};

/* ledger_parse_kill: "unlink.started" and the like. 0 or -EINVAL. */
int ledger_parse_kill(const char *text, uint32_t *ret_opcode, uint32_t *ret_point);

/* ledger_pass: the current request passes @point. */
void ledger_pass(enum ledger_point point);

#endif
