// SPDX-License-Identifier: Apache-2.0
#include "fs/pins.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/base/cleanup.h"
#include "fs/channel.h"

enum { FIRST_SIZE = 16 };

static size_t home_of(const struct pins *p, uint32_t slot)
{
	return (size_t)(slot * 2654435769u) >> 7 & (p->size - 1);
}

/* Where the slot stands, or the empty place where it belongs. */
static size_t place_of(const struct pins *p, uint32_t slot)
{
	size_t at = home_of(p, slot);

	while (p->places[at].slot != 0 && p->places[at].slot != slot)
		at = (at + 1) & (p->size - 1);
	return at;
}

static int grow(struct pins *p)
{
	struct pins bigger = { .size = p->size ? 2 * p->size : FIRST_SIZE, .count = p->count };

	if (p->size > 0 && 2 * (p->count + 1) <= p->size)
		return 0;
	bigger.places = calloc(bigger.size, sizeof(*bigger.places));
	if (!bigger.places)
		return -ENOMEM;
	for (size_t i = 0; i < p->size; i++) {
		if (p->places[i].slot != 0)
			bigger.places[place_of(&bigger, p->places[i].slot)] = p->places[i];
	}
	free(p->places);
	*p = bigger;
	return 0;
}

/* Backward-shift deletion, as in the node table's index. */
static void take_out(struct pins *p, size_t hole)
{
	size_t mask = p->size - 1;

	cleanup_fd(&p->places[hole].fd);
	for (size_t at = (hole + 1) & mask; p->places[at].slot != 0; at = (at + 1) & mask) {
		size_t home = home_of(p, p->places[at].slot);

		if (((at - home) & mask) >= ((at - hole) & mask)) {
			p->places[hole] = p->places[at];
			hole = at;
		}
	}
	p->places[hole].slot = 0;
	p->count--;
}

void pins_set(struct pins *p, uint32_t slot, int fd)
{
	AUTO_FD int pin = fd;
	size_t at;

	if (slot == 0 || (pin >= 0 && grow(p) < 0) || p->size == 0)
		return;
	at = place_of(p, slot);
	if (p->places[at].slot != 0)
		take_out(p, at);
	if (pin < 0)
		return;
	at = place_of(p, slot);
	p->places[at].slot = slot;
	p->places[at].fd = take_fd(&pin);
	p->count++;
}

int pins_send(const struct pins *p, int channel_fd)
{
	for (size_t i = 0; i < p->size; i++) {
		int r = p->places[i].slot == 0 ?
				0 :
				channel_send_pin(channel_fd, p->places[i].slot, p->places[i].fd);

		if (r < 0)
			return r;
	}
	return 0;
}

void pins_fini(struct pins *p)
{
	for (size_t i = 0; i < p->size; i++) {
		if (p->places[i].slot != 0)
			cleanup_fd(&p->places[i].fd);
	}
	free(p->places);
	*p = (struct pins){ .places = NULL };
}
