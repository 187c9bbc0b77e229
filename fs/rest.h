/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_REST_H
#define FS_REST_H

/*
 * rest: how files that were written become files like any other again, where others use the lower tree too.
 *
 * A file that was opened for writing in passthrough may be mapped long after its last close, and what is stored there
 * changes its times without a request: its attributes may not be cached. The kernel does not tell when the last mapping
 * goes; but it cannot forget an inode that is mapped. So it is asked to forget the file (FUSE_NOTIFY_PRUNE): if it does, it
 * is at rest (node_slot_release), and what the kernel asks next it may keep. Nothing of this is seen on the lower tree. Before
 * Linux 6.18 such files are not cached as long as the kernel knows them.
 *
 * Who has just asked for a file's attributes still has its name in use, and the kernel drops none that is: so it is
 * asked a moment later, by a thread of its own, for all that came together. And a second after the last close, for what nobody
 * has looked at: by then the kernel would look its name up again in any case. Thread-safe.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct overlay;

/* Files that wait, of each kind; what does not get a place is asked for with the next look. */
enum { REST_MAX = 4096 };

/* In the order in which they are due. */
struct rest_queue {
	unsigned first, count; /* a ring */
	struct {
		uint64_t id, due_ms;
	} files[REST_MAX];
};

struct rest {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with lock, on the monotonic clock */
	pthread_t thread;
	bool is_running; /* guarded by lock, like those below */
	bool is_stopping;
	struct rest_queue asked, closed;
};

void rest_init(struct rest *rest);

/* rest_start: begins the thread, if this kernel and this overlay have use for it; INIT is answered. 0 or -errno. */
int rest_start(struct overlay *ov);

/*
 * rest_ask: somebody looks at the node @id, which was written and is not open. rest_note_closed: it was closed. Neither blocks
 * for long.
 */
void rest_ask(struct rest *rest, uint64_t id);
void rest_note_closed(struct rest *rest, uint64_t id);

/* rest_stop: ends the thread, if there is one; it may be started again. Nothing is changed in the node table after it. */
void rest_stop(struct rest *rest);

#endif
