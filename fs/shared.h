/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_SHARED_H
#define FS_SHARED_H

/*
 * shared: the memory that a keeper and its server share, and that outlives the server.
 *
 * One memfd: a header (INIT as received and answered, controls, progress, failures, the ledger of
 * requests) and the slots of the node table. The keeper holds the descriptor; it reads controls and progress and never follows
 * what the server wrote beyond fixed-size fields. The server grows the slot area. Everything in here
 * is plain data of fixed size: no pointers, no locks (those are the server process's own).
 *
 * Scalars are read and written with the C11 atomics of their declaration; texts by one writer (named
 * at the field) under a sequence counter.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/brake.h"
#include "fs/gate.h"
#include "fs/halfway.h"
#include "fs/ledger.h"
#include "fs/stats.h"

#define SHARED_MAGIC 0x46534746u /* "FSGF" */

/*
 * Of all in here, and of what keeper and server say to each other (channel.h): a program with another
 * number cannot take over from this one, and says so before this one's server has stopped.
 *
 * SHARED_LAYOUT_ROOT_IS_1 is the same but for one id: the root of the volume is the kernel's node 1, not the
 * one below it (node.h). So are overlays that an older program began, and those on older kernels.
 */
#define SHARED_LAYOUT 6
#define SHARED_LAYOUT_ROOT_IS_1 5

#define SHARED_INIT_MAX 512	/* bytes of an INIT request or reply; the kernel's is 104 */
#define SHARED_FAILURES_MAX 100 /* interface.md: at most 100 are listed */
#define SHARED_PATH_MAX 496	/* of a failure; longer paths are cut at the front */
#define NODE_HANDLE_MAX 56	/* longer handles: the inode is pinned by a descriptor instead */
#define NODE_SLOTS_MAX (1u << 27)

/* What the overlay is doing; the names are those of interface.md. */
enum overlay_state {
	OVERLAY_STARTING,
	OVERLAY_PRESENTED,
	OVERLAY_CONVERGING,
	OVERLAY_CONVERGED,
	OVERLAY_NATIVE,
	OVERLAY_VIRTUAL,
};

/* Whether another server can take over from one that died. */
enum failover_state {
	FAILOVER_UNKNOWN, /* INIT is not answered yet */
	FAILOVER_READY,
	FAILOVER_NO_HANDLE, /* file handles cannot be opened here (user namespaces) */
	FAILOVER_NO_RESEND, /* the kernel cannot send requests again (before 6.9) */
	FAILOVER_NO_CLONE,  /* the keeper cannot give another server the lower tree (before 6.15) */
	FAILOVER_NO_RING,   /* what came over io_uring cannot be sent again (up to 6.18 at least) */
};

enum node_flags {
	NODE_USED = 1 << 0,
	NODE_SETTLED =
		1
		<< 1, /* made or changed by a user in this run; the slot stays until the run ends */
	NODE_MARKED = 1 << 2, /* carries the run's mark on the inode, to be removed after the run */
	NODE_WRITTEN =
		1
		<< 3, /* was opened for writing in passthrough: its attributes are not cached until it rests */
	NODE_PASSTHROUGH = 1 << 4, /* its opens go through backing_id */
	NODE_DIRECTORY = 1 << 5,
	NODE_KEYED = 1 << 6,	/* handle holds what tells it apart without one (tree.c) */
	NODE_UNLINKED = 1 << 7, /* the last link is gone; pinned until the kernel forgets it */
	NODE_WRITER = 1 << 8,	/* was opened for writing, in passthrough or not */
	NODE_HELD = 1 << 9,	/* the keeper holds a descriptor of it, for the next server */
	NODE_REGULAR = 1 << 10, /* a regular file, as NODE_DIRECTORY says of a directory */
	NODE_LISTED = 1 << 11,	/* the kernel may keep a listing of the directory */
	NODE_KEPT = 1 << 12, /* the kernel was asked to forget it: its id is to stay for a while */
};

/* One inode that the kernel knows, or that a run must remember. 112 bytes. */
struct node_slot {
	uint32_t generation; /* of the slot; node id = generation << 32 | index */
	uint32_t flags;
	uint64_t nlookup;
	uint64_t ino;	  /* on the lower tree; selects the inode lock */
	uint64_t exclude; /* pattern positions that can still match below (exclude.h) */
	uint32_t nopen;
	int32_t backing_id; /* of the kernel, > 0 while NODE_PASSTHROUGH */
	uint32_t next_free;
	int32_t handle_type;
	uint32_t handle_len;
	uint32_t asker; /* node_set_asker() */
	unsigned char handle[NODE_HANDLE_MAX];
};

/*
 * A change of one slot together with what the ledger says of it: while it is armed, what stood there
 * before, to be put back by a successor. One, because the table has one lock.
 */
struct table_undo {
	_Atomic uint32_t armed;
	uint32_t slot;
	uint32_t record; /* of ledger.active, + 1; 0: none */
	uint32_t lookup_count, opened;
	int32_t closing_id;
	struct node_slot before;
};

struct shared_failure {
	int32_t error;		    /* errno, positive */
	uint32_t is_immutable;	    /* the file has the immutable or append-only attribute */
	char path[SHARED_PATH_MAX]; /* relative to the volume; bytes of the tree, not quoted */
	uint32_t spare[2];
};

struct shared_header {
	uint32_t magic, layout;

	/* Written once by the first server, before it answers INIT. */
	uint32_t init_request_len, init_reply_len;
	unsigned char init_request[SHARED_INIT_MAX], init_reply[SHARED_INIT_MAX];

	/* Controls: written by the keeper. */
	_Atomic uint32_t restarts;	 /* servers that followed a dead one */
	_Atomic uint32_t upgrades;	 /* servers that followed a live one */
	_Atomic uint32_t converge_asked; /* "converge now", until a server has heard it */
	_Atomic uint32_t swapped; /* the overlay is off its target: the native tree is there */
	uint32_t kill_opcode, kill_point; /* ledger_pass(), before the first server only */
	_Atomic uint32_t paused;
	_Atomic uint64_t converge_rate; /* files a second, 0: no limit */
	_Atomic uint32_t unbraked;	/* "now": users' answers may take longer */

	/* Progress: written by the server. */
	_Atomic uint32_t state; /* enum overlay_state */
	_Atomic uint32_t
		data_path_cached;      /* 1: file data goes through the page cache of the overlay */
	_Atomic uint32_t walk_done;    /* the walk reached the root */
	_Atomic uint32_t run_over;     /* every file is shown as it is on disk */
	_Atomic uint32_t run_recorded; /* and the finished run is durably on record */
	_Atomic uint32_t failover;     /* enum failover_state */
	_Atomic uint32_t kill_done;
	_Atomic uint64_t seen, changed, correct, excluded, failed, total, rate;

	/*
	 * What a server that gives way leaves for the next one. drained: it has answered all that it has read, and
	 * changes nothing any more; true until the next server begins.
	 */
	_Atomic uint32_t drained;
	_Atomic uint64_t retry_delay_ms, retry_due_ns; /* retry.h, after the last walk */
	struct brake_histogram brake_resting[BRAKE_KINDS];
	struct gate_retries gate_retries;

	_Atomic uint32_t text_seq; /* odd while the server writes reason or failures */
	char reason[256];
	uint32_t failure_count;
	struct shared_failure failures[SHARED_FAILURES_MAX];
	char epoch
		[40]; /* "seconds.nanoseconds", "none": no birth times here; empty: not looked for */

	/* The node table: owned by the server. */
	uint32_t slot_count;  /* slots in use or free, from index 0 */
	uint32_t free_head;   /* 0: none */
	int32_t backing_last; /* the highest backing id that ever stood in a slot */
	struct table_undo undo;
	struct ledger ledger;
	struct halfway_record halfway[HALFWAY_MAX];

	struct stats stats; /* each row by its thread of the server */
};

struct shared {
	int fd;
	struct shared_header *header;
	struct node_slot *
		slots; /* an array of NODE_SLOTS_MAX, of which slot_capacity are backed by memory */
	uint32_t slot_capacity;
};

/* shared_create: a new memfd with an empty header. 0 or -errno. */
int shared_create(struct shared *ret_shared);

/*
 * shared_attach: maps @fd, which is taken over on success.
 * Returns 0, -EPROTO (another layout), or -errno.
 */
int shared_attach(int fd, struct shared *ret_shared);
void shared_fini(struct shared *s);

/*
 * shared_refresh: as large as it is by now; another process has grown it. 0 or -errno. shared_touch: asks
 * for the slots to be in the page tables, so that the first looks at them do not wait for it.
 */
int shared_refresh(struct shared *s);
void shared_touch(struct shared *s);

/* shared_servers: how many servers there have been before the present one. */
static inline uint32_t shared_servers(const struct shared *s)
{
	return atomic_load(&s->header->restarts) + atomic_load(&s->header->upgrades);
}

/* shared_grow: backs at least @slots slots with memory. 0, -ENOSPC (NODE_SLOTS_MAX) or -errno. */
int shared_grow(struct shared *s, uint32_t slots);

/* shared_set_reason, shared_add_failure: by the server only, one thread at a time. */
void shared_set_reason(struct shared *s, const char *reason);
void shared_add_failure(struct shared *s, const char *path, int error, bool is_immutable);
void shared_clear_failures(struct shared *s);

/*
 * shared_get_texts: a consistent copy of reason and failures.
 * @ret_failures: SHARED_FAILURES_MAX elements. Every text is NUL-terminated whatever the server wrote.
 * Returns how many failures there are.
 */
size_t shared_get_texts(const struct shared *s, char ret_reason[256],
			struct shared_failure *ret_failures);

#endif
