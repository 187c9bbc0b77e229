/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_PROTO_H
#define MOUNTD_PROTO_H

/*
 * proto: framing of the local protocol (PROTOCOL.md): four bytes of length, little endian, then so
 * many bytes of one JSON object.
 *
 * Knows frames. Does not know requests, nor who is at the other end (peer.h). Used by the daemon and by its
 * clients. No state of its own; one thread a connection and direction. Never raises SIGPIPE.
 */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION 1		    /* what is spoken here; a request without one is of version 1 */
#define PROTO_FRAME_MAX (16U << 20) /* bytes of JSON in a frame */
#define PROTO_HEADER_BYTES 4

/* The exit statuses of interface.md; they travel in the replies. */
enum proto_exit {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_TIMEOUT = 3,
	EXIT_NO_VOLUME = 4,
};

/* proto_header_decode: the length of the frame. -EMSGSIZE: 0, or above PROTO_FRAME_MAX. */
int proto_header_decode(const unsigned char header[PROTO_HEADER_BYTES], uint32_t *ret_len);
void proto_header_encode(uint32_t len, unsigned char ret_header[PROTO_HEADER_BYTES]);

/*
 * proto_parse: the JSON object in @len bytes at @text.
 * Returns 0 or -EBADMSG: not JSON, no object, a name twice, or nested too deeply.
 */
int proto_parse(const char *text, size_t len, json_t **ret_object);

/*
 * proto_receive: the next frame, blocking.
 * Returns 1, 0 (the other end closed between two frames), -EMSGSIZE, -EBADMSG, -ECONNRESET (closed
 * within a frame), -ENOMEM, or recv()'s error.
 */
int proto_receive(int fd, json_t **ret_object);

/* The descriptors that a request may bring: both, in this order, with the first byte of its frame, or none. */
enum { PROTO_FD_PARENT, PROTO_FD_SPACE, PROTO_FDS };

/* proto_send_with: proto_send() with descriptors; NULL: without. They stay the caller's. */
int proto_send_with(int fd, const json_t *object, const int fds[PROTO_FDS]);

/* proto_send: one frame, blocking. -EMSGSIZE, -ENOMEM, or send()'s error. */
int proto_send(int fd, const json_t *object);

/*
 * proto_send_within: the same, at most @timeout_ms milliseconds (0: only what can be sent at once), also
 * where @fd blocks. -ETIMEDOUT: a part may have gone out, and nothing can follow it.
 */
int proto_send_within(int fd, const json_t *object, uint64_t timeout_ms);

/*
 * proto_keep_secret: for a process that holds payloads: no core dumps, and no ptrace by others of the
 * same uid. Returns 0 or -errno.
 */
int proto_keep_secret(void);

/* proto_wipe_json: before the first JSON value: what a value held is wiped when it is freed. */
void proto_wipe_json(void);

#endif
