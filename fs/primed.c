// SPDX-License-Identifier: Apache-2.0
#include "fs/primed.h"

void primed_init(struct primed *p, double seconds)
{
	pthread_mutex_init(&p->lock, NULL);
	p->kept_ms = (uint64_t)(seconds * 1000 / 2);
}

/* Cookies of a file system may be hashes, or count by twos, or by blocks. */
static struct primed_part *place(struct primed *p, uint64_t dir, off_t offset)
{
	uint64_t hash = (dir ^ (uint64_t)offset * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;

	return &p->parts[(hash >> 32) % PRIMED_MAX];
}

void primed_note(struct primed *p, uint64_t dir, off_t offset, uint64_t now_ms)
{
	pthread_mutex_lock(&p->lock);
	*place(p, dir, offset) = (struct primed_part){
		.dir = dir, .offset = offset, .told_ms = now_ms, .forgets = atomic_load(&p->forgets)
	};
	pthread_mutex_unlock(&p->lock);
}

static bool is_of(const struct primed_part *part, uint64_t dir, off_t offset)
{
	return part->dir == dir && part->offset == offset;
}

uint64_t primed_age_ms(struct primed *p, uint64_t dir, uint64_t now_ms)
{
	const struct primed_part *part = place(p, dir, 0);
	uint64_t age;

	pthread_mutex_lock(&p->lock);
	age = is_of(part, dir, 0) ? now_ms - part->told_ms : UINT64_MAX;
	pthread_mutex_unlock(&p->lock);
	return age;
}

bool primed_is_told(struct primed *p, uint64_t dir, off_t offset, uint64_t now_ms)
{
	const struct primed_part *part = place(p, dir, offset);
	bool is_told;

	pthread_mutex_lock(&p->lock);
	is_told = is_of(part, dir, offset) && now_ms - part->told_ms < p->kept_ms &&
		  atomic_load(&p->forgets) - part->forgets < PRIMED_FORGETS_MAX;
	pthread_mutex_unlock(&p->lock);
	return is_told;
}
