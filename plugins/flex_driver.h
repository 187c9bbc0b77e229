/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_FLEX_DRIVER_H
#define PLUGINS_FLEX_DRIVER_H

/*
 * flex_driver: an external FlexVolume driver: where it is, how it is called, what it answers.
 *
 * (Source: Kubernetes pkg/volume/flexvolume/driver-call.go and the call-outs seen from kubelet 1.20.)
 * Drivers are somebody else's programs that run as root: they are the administrator's, and must be owned by
 * root and writable by nobody else. What they print is bounded and parsed strictly. Knows no volume, but for the
 * builder that it says its errors to. No state, any thread; a call-out blocks for as long as the driver runs.
 */

#include "fs/base/cleanup.h"
#include "plugins/plugin.h"

/* Where kubelet has its drivers (--volume-plugin-dir), below the root directory. */
#define FLEX_DRIVER_DIR "usr/libexec/kubernetes/kubelet-plugins/volume/exec"

/* The longest output that is read. */
#define FLEX_OUTPUT_MAX 65536

/* flex_driver_name_is_valid: [a-z0-9.-]+/[A-Za-z0-9._-]+, neither part all dots. */
bool flex_driver_name_is_valid(const char *name);

struct flex_driver {
	char *path; /* <plugin directory>/<vendor>~<driver>/<driver> */
	char *version; /* changes with the file: what an earlier one answered to `init` does not count for it */
};

/*
 * flex_driver_dir: the plugin directory as mountd.conf has it; the caller's to free; NULL: no memory. A tear-down
 * reads no mountd.conf: what was set up from a directory is torn down from there.
 */
char *flex_driver_dir(struct volume_builder *b);

/*
 * flex_driver_open: the driver of that name beneath the plugin directory @dir; no symbolic link is followed
 * there. Returns 0, -ENOENT (there is none), -EPERM (others own it or may write it), -EACCES (not executable),
 * -EINVAL, with b->error.
 */
int flex_driver_open(struct volume_builder *b, const char *dir, const char *name,
		     struct flex_driver **ret_driver);
void flex_driver_free(struct flex_driver *driver);
DEFINE_AUTO(flex_driver)

/* What a driver has answered. */
struct flex_reply {
	char *device; /* NULL: none */
	bool attach; /* capabilities, as they are assumed where the answer does not name them: true */
	bool fs_group;
};

void flex_reply_free(struct flex_reply *reply);
DEFINE_AUTO(flex_reply)

/*
 * flex_reply_parse: the answer in the @len bytes @output of a driver that ended with @exit_status.
 * @ret_error: PLUGIN_ERROR_MAX bytes: on failure one line, quoted
 *
 * Returns 0 (Success), -EOPNOTSUPP (Not supported, with any exit status), -EIO (Failure or another
 * status, with the driver's message), -EBADMSG (not one JSON object; Success with another exit status than 0),
 * -ENOMEM.
 */
int flex_reply_parse(const char *output, size_t len, int exit_status, struct flex_reply **ret_reply,
		     char *ret_error);

/*
 * flex_driver_call: one call-out. @words: the command and its arguments, NULL at the end.
 * @timeout_ms: 0: as mountd.conf says (flexvolume-timeout)
 *
 * Errors of flex_reply_parse(), and -ETIMEDOUT: the driver and its process group were killed.
 */
int flex_driver_call(struct volume_builder *b, const struct flex_driver *driver,
		     const char *const *words, uint64_t timeout_ms, struct flex_reply **ret_reply);

#endif
