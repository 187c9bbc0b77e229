/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_OBJECT_FILE_H
#define MOUNTD_OBJECT_FILE_H

/*
 * object_file: Kubernetes objects as files hold them: one object or a kind List in a file, or a directory of such
 * files (those that begin with a dot and directories in it are left out).
 *
 * Used by fsgroupctl for --objects, and by the daemon for objects that a front end may only name. What is read
 * is payload: it is wiped, and no error quotes it. Pure but for the files it reads; any thread.
 */

#include <jansson.h>
#include <stdbool.h>

#define OBJECT_FILE_ERROR_MAX 512

/*
 * object_text_read: all that is left to read of @fd, as text; what fits no request is too much.
 * @ret_text: the caller's to free, and to wipe
 * Returns 0, -EFBIG, -EILSEQ (holds a NUL), -ENOMEM or read()'s errors.
 */
int object_text_read(int fd, char **ret_text);

/*
 * object_file_read: the objects in @fd: a directory, or what can be read to its end.
 * @path:      for messages
 * @follow:    whether symbolic links in the directory are followed
 * @ret_array: an array of objects, each with a kind; the caller's reference
 * @ret_error: OBJECT_FILE_ERROR_MAX bytes: the file, line and column, never the text
 * Returns 0 or -errno.
 */
int object_file_read(int fd, const char *path, bool follow, json_t **ret_array, char *ret_error);

/*
 * object_file_read_beneath: the same of what is at @rest ("": itself) beneath @prefix, from where on no link is
 * followed. Opens nothing but regular files and directories: others may put anything there.
 */
int object_file_read_beneath(const char *prefix, const char *rest, const char *path,
			     json_t **ret_array, char *ret_error);

#endif
