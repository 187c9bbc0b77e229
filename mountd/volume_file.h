/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_VOLUME_FILE_H
#define MOUNTD_VOLUME_FILE_H

/*
 * volume_file: volume.json in each volume's state directory: a copy of its record, from which a lost or
 * damaged store is made again. Written after each change of the record (fsync and rename, 0600); what was
 * written last is there at any moment, whole. It says what the record says, so no payloads.
 *
 * Knows the files and their checksum. Does not know what a record means. Thread-safe; writes of one volume
 * one after the other, so that the last one tells the newest.
 */

#include "fs/base/cleanup.h"
#include "store/store.h"

#define VOLUME_FILE "volume.json"
#define VOLUME_FILE_MAX (1 << 20)

struct volume_files;

/* volume_files_new: for the directories in @volumes_fd (borrowed, like @store, which it watches from now on). */
int volume_files_new(int volumes_fd, struct store *store, struct volume_files **ret_files);
void volume_files_free(struct volume_files *files);

/* volume_file_remove: before a volume's directory is. 0 also when there is none. */
int volume_file_remove(struct volume_files *files, const char *volume_id);

/*
 * volume_file_read: the record's text (store/dump.h) in the directory @name; the caller's to free.
 * -ENOENT: there is none; -EUCLEAN: it is damaged; -EINVAL: it is no regular file; -EFBIG; ...
 */
int volume_file_read(struct volume_files *files, const char *name, char **ret_text);

/*
 * volume_file_parse: the record's text in @content, a file of @len bytes.
 * -EUCLEAN: it is not of the form, or its checksum is another.
 */
int volume_file_parse(const char *content, size_t len, char **ret_text);

/* volume_files_each: calls @fn with each name in the volumes' directory, in no order. -errno. */
int volume_files_each(struct volume_files *files, void (*fn)(void *arg, const char *name),
		      void *arg);

#endif
