/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_EXPLAIN_H
#define FS_EXPLAIN_H

/*
 * explain: why one file is shown as it is, for people. Whoever asks has made a socket pair (SOCK_SEQPACKET), written
 * the path, relative to the volume, into his end as one packet, and sent the other end through the keeper. What comes
 * back is one message of fs/base/keyval.h:
 *
 *     explained   type, ino, uid, gid, mode (octal), shown_gid, shown_mode, reason, and where there are such: pattern,
 *                 failed (errno), acl (1)
 *     error       errno, at: the part of the path that could be followed no further
 *
 * reason: pending, virtual, unmanaged, excluded, over, created, changed, settled, rootOnly, right.
 *
 * The path is walked from the volume's root by descriptor and one name, no link is followed, nothing is opened. It is
 * done by a thread of its own: a lower tree that does not answer holds up who asked, and nobody else.
 */

#include <pthread.h>

#include "fs/overlay.h"

enum {
	EXPLAIN_THREADS_MAX = 4
}; /* whoever comes when there are so many gets no answer, but an end */

struct explainer {
	struct overlay *ov;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned running; /* guarded by lock */
};

void explainer_init(struct explainer *explainer, struct overlay *ov);

/* explainer_answer: answers what was asked on @fd, which is taken over. Never blocks. */
void explainer_answer(struct explainer *explainer, int fd);

/* explainer_wait: until no answer is under way. None may be begun any more. */
void explainer_wait(struct explainer *explainer);

#endif
