// SPDX-License-Identifier: Apache-2.0
#include "fs/journal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_MAGIC 0x4c4a5346u /* "FSJL" */

struct record {
	uint32_t magic;
	uint32_t is_handle;
	int32_t type;
	uint32_t len;
	uint64_t ino;
	unsigned char bytes[NODE_HANDLE_MAX];
	uint64_t checksum; /* of all that stands before */
};

/* FNV-1a, 64 bit: against torn writes, not against forgers: the file is ours alone. */
static uint64_t checksum_of(const struct record *rec)
{
	const unsigned char *p = (const unsigned char *)rec;
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < offsetof(struct record, checksum); i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}

int journal_append(int fd, const struct tree_key *key, uint64_t ino)
{
	off_t end = lseek(fd, 0, SEEK_END);
	struct record rec;
	ssize_t n;
	int r;

	if (end < 0)
		return -errno;
	memset(&rec, 0, sizeof(rec));
	rec.magic = JOURNAL_MAGIC;
	rec.is_handle = key->is_handle;
	rec.type = key->type;
	rec.len = key->len;
	rec.ino = ino;
	memcpy(rec.bytes, key->bytes, sizeof(rec.bytes));
	rec.checksum = checksum_of(&rec);

	n = write(fd, &rec, sizeof(rec));
	if (n == (ssize_t)sizeof(rec) && fdatasync(fd) == 0)
		return 0;
	r = n < 0 || n == (ssize_t)sizeof(rec) ? -errno : -ENOSPC;
	if (ftruncate(fd, end) < 0)
		return -EIO;
	return r;
}

int journal_read(int fd, int (*add)(void *context, const struct tree_key *key, uint64_t ino),
		 void *context)
{
	off_t at = 0;

	for (;;) {
		struct tree_key key;
		struct record rec;
		ssize_t n = pread(fd, &rec, sizeof(rec), at);
		int r;

		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		if (n < (ssize_t)sizeof(rec))
			return ftruncate(fd, at) < 0 ? -errno : 0;
		if (rec.magic != JOURNAL_MAGIC || rec.checksum != checksum_of(&rec) ||
		    rec.len > NODE_HANDLE_MAX) {
			/* A torn last record may also be whole in length, with holes inside. */
			if (lseek(fd, 0, SEEK_END) == at + (off_t)sizeof(rec))
				return ftruncate(fd, at) < 0 ? -errno : 0;
			return -EUCLEAN;
		}
		memset(&key, 0, sizeof(key));
		key.is_handle = rec.is_handle != 0;
		key.type = rec.type;
		key.len = rec.len;
		memcpy(key.bytes, rec.bytes, sizeof(key.bytes));
		r = add(context, &key, rec.ino);
		if (r < 0)
			return r;
		at += (off_t)sizeof(rec);
	}
}
