/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_FILE_H
#define MOUNTD_CTL_FILE_H

/*
 * ctl_file: what fsgroupctl reads for the daemon: a spec's text, Kubernetes objects. A request holds at
 * most PROTO_FRAME_MAX bytes. One thread.
 */

#include "mountd/ctl/call.h"

/*
 * ctl_file_read: a whole file as text, without a NUL; "-" is standard input. A spec or an object may hold
 * secrets: from here on this process dumps no core.
 * @dir_fd:   for a relative @path; AT_FDCWD
 * @ret_text: the caller's to free, and to wipe when it is payload
 * Returns 0, -EFBIG (it fits no request), -EILSEQ (holds a NUL), -EISDIR, -EINVAL (neither a file nor a
 * pipe), -ENOMEM or open()'s and read()'s errors.
 */
int ctl_file_read(int dir_fd, const char *path, char **ret_text);

/*
 * ctl_objects_load: the Kubernetes objects of --objects: a file with one object or a kind List, "-", or
 * a directory of such files (those that begin with a dot and directories in it are left out).
 * @subject:   the volume, for messages
 * @ret_array: an array of objects, the caller's reference
 *
 * Prints why it fails: the file, line and column, never the text. Returns the exit status.
 */
int ctl_objects_load(const struct ctl *ctl, const char *subject, const char *path,
		     json_t **ret_array);

#endif
