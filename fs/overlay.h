/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OVERLAY_H
#define FS_OVERLAY_H

/*
 * overlay: everything one overlay server has; the struct that all of it hangs off.
 *
 * Made by server_main() in one thread before any other runs; after that the members are constant, or
 * guarded as their own headers say.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "fs/brake.h"
#include "fs/caller.h"
#include "fs/converge.h"
#include "fs/cpu_latency.h"
#include "fs/cursors.h"
#include "fs/descriptors.h"
#include "fs/gate.h"
#include "fs/node.h"
#include "fs/options.h"
#include "fs/primed.h"
#include "fs/rest.h"
#include "fs/run.h"
#include "fs/shared.h"
#include "fs/stash.h"
#include "fs/tree.h"

struct fuse_session;
struct server_threads;

/* When the lower mount changes a directory's access time. */
enum overlay_atime { ATIME_NEVER, ATIME_RELATIVE, ATIME_ALWAYS };

struct overlay {
	const struct overlay_options *options;
	struct shared shared;
	struct tree tree;
	struct node_table *nodes;
	struct run run;
	struct converger *converger; /* NULL: nothing is ever written (virtual, none) */
	struct brake brake;
	struct gate gate;
	struct rest rest;
	struct descriptors descriptors;
	struct primed primed;
	struct cursors cursors;
	struct cpu_latency cpu_latency;
	struct fuse_session *session;
	struct server_threads *threads; /* of session.c */
	int device_fd;			/* of /dev/fuse */
	unsigned ring_queues; /* ring_queues(): requests come over io_uring; 0: by the device */
	int channel_fd;	      /* to the keeper: channel.h */
	struct stash stash;
	int proc_fd;			    /* of /proc, for callers' status */
	double entry_timeout, attr_timeout; /* seconds */
	enum overlay_atime atime;
	bool is_exclusive;	      /* nobody but us changes the lower tree */
	_Atomic bool has_passthrough; /* until the kernel first refuses a backing file */
};

/* overlay_invalidate: the kernel's cached attributes and ACL of a node are dropped. Never blocks on the tree. */
void overlay_invalidate(struct overlay *ov, uint64_t node_id);

/*
 * overlay_invalidate_listing: what the kernel keeps of a directory's entries is dropped, and its attributes: one of
 * its times was changed without a change of its entries, or its ".." leads elsewhere.
 */
void overlay_invalidate_listing(struct overlay *ov, uint64_t node_id);

/*
 * overlay_ask_to_forget: the kernel lets go of @nodes, @count ids, as far as nobody uses them, and says so (FORGET). May take as long
 * as it writes what is stored through mappings: not for threads that serve requests. Returns whether it may be asked again;
 * else that is logged, unless the connection has ended. Not before request_can_prune().
 */
bool overlay_ask_to_forget(struct overlay *ov, const uint64_t *nodes, unsigned count);

/* overlay_note_idle: no file is open any more: the main thread may want to try the hand-off. */
void overlay_note_idle(struct overlay *ov);

/*
 * overlay_make_room: a request found no descriptor, or no room on the disk, which is @error (an errno). Whether there may be some
 * soon, because files are let go of that the kernel has forgotten: then the request is begun again when the caller has left it
 * without an answer: at once, a few times at the most, or when there are descriptors (descriptors.h). May take some ms; over
 * io_uring longer.
 */
bool overlay_make_room(struct overlay *ov, int error);

/* overlay_invalidate_names: the kernel asks again for every name it has cached. */
void overlay_invalidate_names(struct overlay *ov);

#endif
