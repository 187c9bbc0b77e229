// SPDX-License-Identifier: Apache-2.0
#include "plugins/device_content.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

/* What blkid_do_safeprobe() returns (source: libblkid's documentation of it). */
enum { SAFEPROBE_FOUND = 0, SAFEPROBE_NOTHING = 1, SAFEPROBE_AMBIVALENT = -2 };

static blkid_probe probe_new(int fd)
{
	blkid_probe probe = blkid_new_probe();

	if (!probe)
		return NULL;
	if (blkid_probe_set_device(probe, fd, 0, 0) == 0 &&
	    blkid_probe_enable_superblocks(probe, 1) == 0 &&
	    blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID |
							     BLKID_SUBLKS_USAGE |
							     BLKID_SUBLKS_BADCSUM) == 0 &&
	    blkid_probe_enable_partitions(probe, 1) == 0)
		return probe;
	blkid_free_probe(probe);
	return NULL;
}

/* A value of the probe, printable; "" where it has none. */
static void value_of(blkid_probe probe, const char *name, char *ret_text, size_t size)
{
	const char *value = NULL;

	ret_text[0] = '\0';
	if (blkid_probe_lookup_value(probe, name, &value, NULL) == 0 && value)
		log_quote(value, ret_text, size);
}

static void describe(blkid_probe probe, struct device_content *content)
{
	char usage[32], table[32], type[32];
	bool bad_checksum = blkid_probe_has_value(probe, "SBBADCSUM");

	value_of(probe, "USAGE", usage, sizeof(usage));
	value_of(probe, "PTTYPE", table, sizeof(table));
	value_of(probe, "TYPE", type, sizeof(type));
	value_of(probe, "UUID", content->uuid, sizeof(content->uuid));
	content->kind = CONTENT_OTHER;
	if (table[0] && type[0])
		snprintf(content->what, sizeof(content->what), "%s and a partition table (%s)",
			 type, table);
	else if (table[0])
		snprintf(content->what, sizeof(content->what), "a partition table (%s)", table);
	else if (!type[0])
		snprintf(content->what, sizeof(content->what), "a signature of no known type");
	else if (bad_checksum)
		snprintf(content->what, sizeof(content->what), "%s with a wrong checksum", type);
	else
		snprintf(content->what, sizeof(content->what), "%s", type);
	if (!table[0] && type[0] && !bad_checksum && strcmp(usage, "filesystem") == 0) {
		content->kind = CONTENT_FILE_SYSTEM;
		snprintf(content->fs_type, sizeof(content->fs_type), "%s", type);
	}
}

int device_content_read(int fd, struct device_content *ret_content)
{
	struct device_content content = { .kind = CONTENT_NONE, .what = "nothing known" };
	blkid_probe probe = probe_new(fd);
	int found;

	if (!probe)
		return -EIO; /* libblkid does not say which: no memory, or the size cannot be told */
	errno = 0;
	found = blkid_do_safeprobe(probe);
	if (found == SAFEPROBE_FOUND)
		describe(probe, &content);
	blkid_free_probe(probe);
	switch (found) {
	case SAFEPROBE_FOUND:
	case SAFEPROBE_NOTHING:
		*ret_content = content;
		return 0;
	case SAFEPROBE_AMBIVALENT:
		return -EMLINK;
	default:
		return -EIO;
	}
}

static int range_is_zero(int fd, uint64_t from, uint64_t to)
{
	static const char zeros[4096];
	char bytes[sizeof(zeros)];

	while (from < to) {
		size_t wanted = to - from < sizeof(bytes) ? (size_t)(to - from) : sizeof(bytes);
		ssize_t n = pread(fd, bytes, wanted, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (memcmp(bytes, zeros, (size_t)n) != 0)
			return -ENOTEMPTY;
		from += (uint64_t)n;
	}
	return 0;
}

int device_ends_are_zero(int fd, uint64_t size_bytes)
{
	uint64_t head = size_bytes < DEVICE_END_BYTES ? size_bytes : DEVICE_END_BYTES;
	uint64_t tail = size_bytes - head < head ? head : size_bytes - DEVICE_END_BYTES;
	int r = range_is_zero(fd, 0, head);

	return r < 0 ? r : range_is_zero(fd, tail, size_bytes);
}
