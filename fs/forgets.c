// SPDX-License-Identifier: Apache-2.0
#include "fs/forgets.h"

#include "fs/base/lock.h"
#include "fs/stash.h"

void forgets_init(struct forgets *f)
{
	lock_init_brief(&f->lock);
	atomic_init(&f->count, 0);
	atomic_init(&f->since_ns, 0);
	atomic_init(&f->looked_ns, 0);
	atomic_init(&f->has_room, false);
	f->first = 0;
}

bool forgets_leave_room(const struct statvfs *st)
{
	/* Twice: others write meanwhile. Not every file system counts its inodes. */
	return (uint64_t)st->f_bavail * st->f_frsize > 2ULL * FORGETS_MAX * STASH_LARGE_BYTES &&
	       (st->f_files == 0 || st->f_favail > 2 * FORGETS_MAX);
}

bool forgets_have_room(struct forgets *f, int fd, uint64_t now_ns)
{
	uint64_t looked_ns = atomic_load(&f->looked_ns);
	struct statvfs st;

	if (looked_ns == 0 || now_ns - looked_ns > FORGETS_ROOM_NS) {
		atomic_store(&f->has_room, fstatvfs(fd, &st) == 0 && forgets_leave_room(&st));
		atomic_store(&f->looked_ns, now_ns);
	}
	return atomic_load(&f->has_room);
}

bool forgets_put(struct forgets *f, const struct request_forget *list, size_t count,
		 uint64_t now_ns)
{
	unsigned before;
	bool has_room;

	pthread_mutex_lock(&f->lock);
	before = atomic_load(&f->count);
	has_room = count <= FORGETS_MAX - before;
	if (has_room) {
		for (size_t i = 0; i < count; i++)
			f->ring[(f->first + before + i) % FORGETS_MAX] = list[i];
		if (before == 0)
			atomic_store(&f->since_ns, now_ns);
		atomic_store(&f->count, before + (unsigned)count);
	}
	pthread_mutex_unlock(&f->lock);
	return has_room;
}

size_t forgets_take(struct forgets *f, struct request_forget ret_list[FORGETS_BATCH])
{
	unsigned count, taken = 0;

	pthread_mutex_lock(&f->lock);
	count = atomic_load(&f->count);
	for (; taken < count && taken < FORGETS_BATCH; taken++)
		ret_list[taken] = f->ring[(f->first + taken) % FORGETS_MAX];
	f->first = (f->first + taken) % FORGETS_MAX;
	atomic_store(&f->count, count - taken);
	pthread_mutex_unlock(&f->lock);
	return taken;
}

bool forgets_are_due(const struct forgets *f, uint64_t now_ns)
{
	unsigned count = atomic_load(&f->count);
	uint64_t since_ns = atomic_load(&f->since_ns);

	return count > FORGETS_MAX - FORGETS_BATCH ||
	       (count > 0 && now_ns > since_ns && now_ns - since_ns > FORGETS_DUE_NS);
}
