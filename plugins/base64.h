/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_BASE64_H
#define PLUGINS_BASE64_H

/* base64: the values of Secrets and of binaryData (RFC 4648, section 4). No state, any thread. */

#include <stddef.h>

/*
 * base64_decode: the bytes of @text, padded, without foreign characters but ends of lines.
 * @ret_bytes: the caller's to wipe and to free
 * Returns 0, -EINVAL, -ENOMEM.
 */
int base64_decode(const char *text, unsigned char **ret_bytes, size_t *ret_len);

#endif
