/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_PACKET_H
#define FS_BASE_PACKET_H

/* packet: one packet of an AF_UNIX socket, and with it a descriptor. No state, any thread, async-signal-safe. */

#include <sys/types.h>

/*
 * packet_send: @len bytes, and @passed with them, which stays the caller's; -1: none. Never raises SIGPIPE.
 * 0 or -errno of sendmsg(2).
 */
int packet_send(int fd, const void *bytes, size_t len, int passed);

/*
 * packet_receive: the next packet into @ret_bytes; *ret_passed: the descriptor that came with it, the caller's and
 * closed on exec, or -1. @flags: MSG_DONTWAIT, or 0.
 * Returns its length (0 also at the end), or -errno of recvmsg(2), then with *ret_passed -1.
 */
ssize_t packet_receive(int fd, void *ret_bytes, size_t size, int flags, int *ret_passed);

#endif
