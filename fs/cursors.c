// SPDX-License-Identifier: Apache-2.0
#include "fs/cursors.h"

#include <unistd.h>

#include "fs/base/cleanup.h"

void cursors_init(struct cursors *c)
{
	pthread_mutex_init(&c->lock, NULL);
}

void cursors_fini(struct cursors *c)
{
	cursors_drop(c, 0);
	pthread_mutex_destroy(&c->lock);
}

/* What was in the place is the caller's to close, or -1. Lock held. */
static int empty(struct cursors *c, struct cursor *place)
{
	int fd = place->dir != 0 ? place->fd : -1;

	c->count -= place->dir != 0;
	place->dir = 0;
	return fd;
}

int cursors_take(struct cursors *c, uint64_t dir, off_t next, int flags)
{
	struct cursor *found = NULL;
	int fd = -1;

	if (c->count == 0)
		return -1;
	pthread_mutex_lock(&c->lock);
	for (struct cursor *p = c->places; p < c->places + CURSORS_MAX; p++) {
		/* Of several that stand there, who was first asks first. */
		if (p->dir == dir && p->next == next && p->flags == flags &&
		    (!found || p->put < found->put))
			found = p;
	}
	if (found)
		fd = empty(c, found);
	pthread_mutex_unlock(&c->lock);
	return fd;
}

void cursors_put(struct cursors *c, uint64_t dir, off_t next, int flags, int fd)
{
	AUTO_FD int before = -1;
	struct cursor *place = c->places;

	pthread_mutex_lock(&c->lock);
	for (struct cursor *p = c->places; p < c->places + CURSORS_MAX && place->dir != 0; p++) {
		if (p->dir == 0 || p->put < place->put)
			place = p;
	}
	before = empty(c, place);
	*place = (struct cursor){
		.dir = dir, .next = next, .flags = flags, .fd = fd, .put = c->puts++
	};
	c->count++;
	pthread_mutex_unlock(&c->lock);
}

unsigned cursors_drop(struct cursors *c, uint64_t dir)
{
	int dropped[CURSORS_MAX];
	unsigned count = 0;

	if (c->count == 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	for (struct cursor *p = c->places; p < c->places + CURSORS_MAX; p++) {
		if (p->dir != 0 && (dir == 0 || p->dir == dir))
			dropped[count++] = empty(c, p);
	}
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < count; i++)
		close(dropped[i]);
	return count;
}
