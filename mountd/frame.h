/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FRAME_H
#define MOUNTD_FRAME_H

/*
 * frame: one frame of the local protocol on its way in, piece by piece, from a socket that does not block.
 *
 * Knows bytes and lengths. Does not know who sends them or what they mean. Memory grows with what has
 * arrived, not with what was announced, and is wiped before it is freed: it may hold a payload.
 * One thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mountd/proto.h"

struct frame {
	unsigned char header[PROTO_HEADER_BYTES];
	size_t header_have;
	uint32_t len; /* announced; 0: not known yet */
	char *text;   /* have bytes, room for room */
	size_t have, room;
	bool takes_fds; /* set by the caller; else descriptors that are sent are closed by the kernel */
	bool has_fds; /* fds[] are open */
	int fds[PROTO_FDS];
};

/*
 * frame_receive_header: what there is of the header.
 * Returns 1 (frame->len is known), 0 (the other end closed between two frames), -EAGAIN (more is to come),
 * -EMSGSIZE (proto_header_decode()), -ECONNRESET (closed within), or recv()'s error.
 */
int frame_receive_header(struct frame *frame, int fd);

/*
 * frame_receive_body: what there is of the text, at most @most bytes of it.
 * Returns 1 (all is there), -EAGAIN (more is to come, or is there already), -ECONNRESET, -ENOMEM, or
 * recv()'s error.
 */
int frame_receive_body(struct frame *frame, int fd, size_t most);

/* frame_reset: empty again, for the next one, its descriptors closed. Also of a frame that is all zero. */
void frame_reset(struct frame *frame);

#endif
