/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_PINS_H
#define FS_PINS_H

/*
 * pins: the descriptors that a keeper holds for its servers: of inodes without a link that the kernel
 * still knows, by slot of the node table. To the keeper they are numbers and descriptors: it does nothing
 * with them. Single-threaded.
 */

#include <stddef.h>
#include <stdint.h>

struct pins {
	struct pin {
		uint32_t slot; /* 0: an empty place */
		int fd;
	} * places; /* open addressing; a power of two long */
	size_t size, count;
};

/*
 * pins_set: @fd (taken over) is the slot's pin, in place of an earlier one; -1: it has none. Without
 * memory the pin is dropped: the inode then goes with the server, if the server dies.
 */
void pins_set(struct pins *p, uint32_t slot, int fd);

/* pins_send: all of them to the server at the other end of @channel_fd. 0 or -errno. */
int pins_send(const struct pins *p, int channel_fd);
void pins_fini(struct pins *p);

#endif
