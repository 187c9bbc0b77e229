// SPDX-License-Identifier: Apache-2.0
#include "fs/shared.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum { HEADER_BYTES = 512 * 1024, GROW_SLOTS = 8192 };

_Static_assert(sizeof(struct shared_header) <= HEADER_BYTES, "the header outgrew its room");
_Static_assert(sizeof(struct node_slot) == 112, "node_slot is part of the layout");

static const size_t MAP_BYTES = HEADER_BYTES + (size_t)NODE_SLOTS_MAX * sizeof(struct node_slot);

/* How many slots there is memory for. */
static int read_capacity(int fd, uint32_t *ret_slots)
{
	off_t size = lseek(fd, 0, SEEK_END);

	if (size < HEADER_BYTES)
		return size < 0 ? -errno : -EPROTO;
	*ret_slots = (uint32_t)((size - HEADER_BYTES) / (off_t)sizeof(struct node_slot));
	return 0;
}

static int map(int fd, struct shared *ret_shared)
{
	uint32_t capacity = 0;
	char *memory;
	int r = read_capacity(fd, &capacity);

	if (r < 0)
		return r;
	/* Room for every slot there can be: memory is taken only as far as the memfd has grown. */
	memory = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	ret_shared->fd = fd;
	ret_shared->header = (struct shared_header *)memory;
	ret_shared->slots = (struct node_slot *)(memory + HEADER_BYTES);
	ret_shared->slot_capacity = capacity;
	return 0;
}

int shared_create(struct shared *ret_shared)
{
	AUTO_FD int fd = memfd_create("fsgroupfs", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, HEADER_BYTES) < 0)
		return -errno;
	r = map(fd, ret_shared);
	if (r < 0)
		return r;
	ret_shared->header->magic = SHARED_MAGIC;
	ret_shared->header->layout = SHARED_LAYOUT;
	take_fd(&fd);
	return 0;
}

int shared_attach(int fd, struct shared *ret_shared)
{
	struct shared s;
	int r = map(fd, &s);

	if (r < 0)
		return r;
	if (s.header->magic != SHARED_MAGIC ||
	    (s.header->layout != SHARED_LAYOUT && s.header->layout != SHARED_LAYOUT_ROOT_IS_1)) {
		munmap(s.header, MAP_BYTES);
		return -EPROTO;
	}
	*ret_shared = s;
	return 0;
}

void shared_fini(struct shared *s)
{
	if (s->header)
		munmap(s->header, MAP_BYTES);
	if (s->fd >= 0)
		close(s->fd);
	s->header = NULL;
	s->fd = -1;
}

int shared_refresh(struct shared *s)
{
	return read_capacity(s->fd, &s->slot_capacity);
}

void shared_touch(struct shared *s)
{
	uint32_t count = s->header->slot_count;

	/* Of the slots only: of the rest of the header most is never used, and would take memory. */
	if (count > 0 && count <= s->slot_capacity)
		(void)madvise(s->slots, count * sizeof(struct node_slot), MADV_POPULATE_WRITE);
}

int shared_grow(struct shared *s, uint32_t slots)
{
	uint32_t capacity = s->slot_capacity;

	if (slots > NODE_SLOTS_MAX)
		return -ENOSPC;
	if (slots <= capacity)
		return 0;
	while (capacity < slots)
		capacity += GROW_SLOTS;
	if (ftruncate(s->fd, HEADER_BYTES + (off_t)capacity * (off_t)sizeof(struct node_slot)) < 0)
		return -errno;
	s->slot_capacity = capacity;
	return 0;
}

static void begin_text(struct shared_header *h)
{
	/* A server that died inside left the counter odd: the next value is odd again. */
	atomic_store(&h->text_seq, atomic_load(&h->text_seq) | 1);
}

static void end_text(struct shared_header *h)
{
	atomic_fetch_add(&h->text_seq, 1);
}

void shared_set_reason(struct shared *s, const char *reason)
{
	begin_text(s->header);
	snprintf(s->header->reason, sizeof(s->header->reason), "%s", reason);
	end_text(s->header);
}

void shared_add_failure(struct shared *s, const char *path, int error, bool is_immutable)
{
	struct shared_header *h = s->header;
	size_t len = strlen(path);

	begin_text(h);
	if (h->failure_count < SHARED_FAILURES_MAX) {
		struct shared_failure *f = &h->failures[h->failure_count];

		f->error = error;
		f->is_immutable = is_immutable;
		if (len < sizeof(f->path))
			memcpy(f->path, path, len + 1);
		else
			snprintf(f->path, sizeof(f->path), "...%s",
				 path + len - (sizeof(f->path) - 4));
		h->failure_count++;
	}
	end_text(h);
}

void shared_clear_failures(struct shared *s)
{
	begin_text(s->header);
	s->header->failure_count = 0;
	end_text(s->header);
}

size_t shared_get_texts(const struct shared *s, char ret_reason[256],
			struct shared_failure *ret_failures)
{
	const struct shared_header *h = s->header;
	size_t count = 0;

	/* A server that hangs or died while writing must not hang its keeper: the last try is taken as it is. */
	for (int tries = 0; tries < 1000; tries++) {
		uint32_t seq = atomic_load(&h->text_seq);

		if (seq & 1 && tries < 999) {
			sched_yield();
			continue;
		}
		count = h->failure_count;
		if (count > SHARED_FAILURES_MAX)
			count = SHARED_FAILURES_MAX;
		memcpy(ret_reason, h->reason, sizeof(h->reason));
		memcpy(ret_failures, h->failures, count * sizeof(*ret_failures));
		if (atomic_load(&h->text_seq) == seq)
			break;
	}
	ret_reason[255] = '\0';
	for (size_t i = 0; i < count; i++)
		ret_failures[i].path[SHARED_PATH_MAX - 1] = '\0';
	return count;
}
