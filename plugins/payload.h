/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_PAYLOAD_H
#define PLUGINS_PAYLOAD_H

/*
 * payload: the files that a secret, configMap, downwardAPI or projected volume is to hold, collected from
 * its sources before anything is written.
 *
 * Knows which paths such a volume can have, and that no two sources may claim one. Does not know where
 * contents come from, nor the disk. Contents are wiped when they are freed and are in no error. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fs/base/cleanup.h"

/* Source: Kubernetes' limits for the values of one Secret or ConfigMap, and for a path in a volume. */
#define PAYLOAD_SOURCE_MAX (1U << 20)
#define PAYLOAD_MAX (16U << 20) /* bytes in all: no more comes in a request */
#define PAYLOAD_PATH_MAX 4095
#define PAYLOAD_NAME_MAX 255

struct payload_entry {
	char *path; /* relative, of plain names with single slashes */
	bool is_dir;
	mode_t mode; /* permission bits that the source asks for */
	unsigned char *bytes;
	size_t len;
	char *origin; /* which source it is from, for messages */
};

struct payload {
	struct payload_entry *entries; /* sealed: sorted, a directory before what is in it */
	size_t count, capacity;
	size_t bytes; /* of all contents */
};

struct payload *payload_new(void);
void payload_free(struct payload *p);
DEFINE_AUTO(payload)

/*
 * payload_add: one file.
 * @path:      relative; empty names and "." are dropped
 * @bytes:     copied
 * @origin:    such as "Secret ns/name", printable
 * @ret_error: @size bytes, one line on failure
 *
 * Returns 0, -ENOMEM, or -EINVAL: an absolute or empty path, a name "..", a first name that begins with
 * ".." (kept for the writer's own), a name or a path that is too long. -E2BIG: more than PAYLOAD_MAX bytes.
 */
int payload_add(struct payload *p, const char *path, const void *bytes, size_t len, mode_t mode,
		const char *origin, char *ret_error, size_t size);

/*
 * payload_seal: sorts the files and adds the directories that they are in. Once, before writing.
 * Returns 0, -ENOMEM, or -EINVAL: two files have one path, or one is where another needs a directory.
 */
int payload_seal(struct payload *p, char *ret_error, size_t size);

/* payload_find: the entry at @path of a sealed payload, or NULL. */
const struct payload_entry *payload_find(const struct payload *p, const char *path);

/* payload_key_is_valid: whether Kubernetes takes it as a key of a Secret or ConfigMap. */
bool payload_key_is_valid(const char *key);

#endif
