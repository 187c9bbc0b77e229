/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_WAITS_H
#define FS_WAITS_H

/*
 * waits: whether those who visit a tree wait for its file system: for a disk, or for a server at the other end of a
 * network or of /dev/fuse. While they wait so do their processors, and more of them get further; where all is in the
 * cache more of them are in each other's way.
 *
 * Each thread counts its visits, and tells after some of them; a few of its own make no difference to the others.
 */

#include <stdatomic.h>
#include <stdbool.h>

/* What a thread has visited since it was last looked at. Its own; needs no lock. */
struct visits {
	long entries;	       /* the caller counts */
	bool has_rested;       /* it slept because it was told to: then it has no time to gain */
	long blocks, switches; /* of the thread, when it began */
};

/* All zero: nobody waits. */
struct waits {
	atomic_uint level;
};

/*
 * visits_begin: the calling thread has visited nothing.
 * visits_end: whether it has waited in what it visited since: a block was read, or it slept more often than it visited.
 * What is in the cache makes a thread sleep now and then too, for a lock or the journal. Begins anew.
 */
void visits_begin(struct visits *ret);
bool visits_end(struct visits *io_visits);

/*
 * waits_note: somebody has waited, or has not, in what he visited. Returns whether waiting has begun with this.
 * waits_are_on: whether it goes on: there is more than one of the former to a few of the latter, for a block that the
 * cache has lost may be met anywhere. Any thread.
 */
bool waits_note(struct waits *w, bool waited);
bool waits_are_on(const struct waits *w);

#endif
