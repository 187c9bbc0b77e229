// SPDX-License-Identifier: Apache-2.0
#include "fs/stash.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/lock.h"
#include "fs/base/packet.h"
#include "fs/channel.h"

_Static_assert(STASH_CELLS == 4, "STASH_ENDS_NONE names them");

/* ---- the server's ---- */

int stash_open(int channel_fd, struct stash *ret_stash)
{
	int pair[2];

	*ret_stash = (struct stash){ .channel_fd = channel_fd };
	for (int i = 0; i < STASH_CELLS; i++) {
		struct stash_cell *c = &ret_stash->cells[i];

		/* Nobody ever waits at it. */
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
			return -errno;
		lock_init_brief(&c->lock);
		c->put_fd = pair[0];
		c->take_fd = pair[1];
	}
	return 0;
}

int stash_offer(const struct stash *s)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < STASH_CELLS; i++)
		r = channel_send_stash(s->channel_fd, i, s->cells[i].take_fd);
	return r;
}

void stash_note_shared(struct stash *s, uint32_t cell)
{
	if (cell < STASH_CELLS)
		atomic_store(&s->cells[cell].is_shared, true);
}

static uint32_t oldest(const struct stash_cell *c)
{
	return c->slots[c->first];
}

static bool has(const struct stash_cell *c, uint32_t slot)
{
	for (unsigned i = 0; i < c->count; i++) {
		if (c->slots[(c->first + i) % STASH_CELL_MAX] == slot)
			return true;
	}
	return false;
}

static void put(struct stash_cell *c, uint32_t slot)
{
	c->slots[(c->first + c->count++) % STASH_CELL_MAX] = slot;
}

/* Takes the oldest out. Its descriptor is not asked for, so the kernel closes it. */
static int drop_oldest(struct stash_cell *c)
{
	uint32_t slot;

	if (recv(c->take_fd, &slot, sizeof(slot), 0) < 0)
		return -errno;
	c->first = (c->first + 1) % STASH_CELL_MAX;
	c->count--;
	return 0;
}

/* First the keeper has it, then it is taken out: at no moment does nobody. */
static int pass_on_oldest(struct stash *s, struct stash_cell *c)
{
	AUTO_FD int fd = -1;
	uint32_t slot;
	ssize_t n = packet_receive(c->take_fd, &slot, sizeof(slot), MSG_PEEK, &fd);
	int r;

	if (n < 0)
		return (int)n;
	r = channel_send_pin(s->channel_fd, oldest(c), fd);
	return r < 0 ? r : drop_oldest(c);
}

/* The keeper has emptied it: all that lay in it is with him. Others are not laid there any more. */
static void give_up(struct stash_cell *c)
{
	atomic_store(&c->is_shared, false);
	c->count = 0;
}

/* Lock held. False: the keeper is to be told. */
static bool lay_in(struct stash *s, struct stash_cell *c, uint32_t slot, int fd)
{
	if (atomic_load(&c->is_shared) && c->count == STASH_CELL_MAX && pass_on_oldest(s, c) < 0)
		give_up(c);
	if (!atomic_load(&c->is_shared) || packet_send(c->put_fd, &slot, sizeof(slot), fd) < 0)
		return false;
	put(c, slot);
	return true;
}

int stash_hold(struct stash *s, uint32_t slot, int fd)
{
	struct stash_cell *c = &s->cells[slot % STASH_CELLS];
	bool lies_there;

	pthread_mutex_lock(&c->lock);
	lies_there = lay_in(s, c, slot, fd);
	pthread_mutex_unlock(&c->lock);
	return lies_there ? 0 : channel_send_pin(s->channel_fd, slot, fd);
}

static bool is_large(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_blocks > STASH_LARGE_BYTES / 512;
}

/* Lock held. False: the keeper is to be told, because he has it. */
static bool take_out(struct stash *s, struct stash_cell *c, uint32_t slot, bool is_keepers)
{
	int r = 0;

	if (!has(c, slot))
		return false;
	while (r == 0 && oldest(c) != slot)
		r = pass_on_oldest(s, c);
	if (r == 0)
		r = is_keepers ? pass_on_oldest(s, c) : drop_oldest(c);
	if (r < 0)
		give_up(c);
	return r == 0 && !is_keepers;
}

int stash_let_go(struct stash *s, uint32_t slot, int *io_fd)
{
	struct stash_cell *c = &s->cells[slot % STASH_CELLS];
	bool is_keepers = is_large(*io_fd), is_gone;

	pthread_mutex_lock(&c->lock);
	is_gone = take_out(s, c, slot, is_keepers);
	pthread_mutex_unlock(&c->lock);
	if (is_gone)
		return 0;
	cleanup_fd(io_fd);
	return channel_send_pin(s->channel_fd, slot, -1);
}

/* ---- the keeper's ---- */

static void empty_cell(int *io_fd, struct pins *io_pins)
{
	uint32_t slot;
	int fd = -1;

	while (*io_fd >= 0 && packet_receive(*io_fd, &slot, sizeof(slot), MSG_DONTWAIT, &fd) ==
				      (ssize_t)sizeof(slot)) {
		if (fd >= 0)
			pins_set(io_pins, slot, take_fd(&fd));
	}
	cleanup_fd(&fd);
	cleanup_fd(io_fd);
}

int stash_keep(struct stash_ends *e, uint32_t cell, int fd)
{
	AUTO_FD int end = fd;

	if (cell >= STASH_CELLS || end < 0)
		return -EINVAL;
	cleanup_fd(&e->fds[cell]);
	e->fds[cell] = take_fd(&end);
	return 0;
}

void stash_empty(struct stash_ends *e, struct pins *io_pins)
{
	for (int i = 0; i < STASH_CELLS; i++)
		empty_cell(&e->fds[i], io_pins);
}
