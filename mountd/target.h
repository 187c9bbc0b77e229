/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_TARGET_H
#define MOUNTD_TARGET_H

/*
 * target: the path at which a consumer sees a volume.
 *
 * A live overlay may be mounted there, whose server may be down: the last component is never followed,
 * opened for reading or stat-ed in a way that asks a server. All work goes by the descriptor of the
 * parent directory and one name. No state, any thread.
 */

#include "fs/base/cleanup.h"

#define TARGET_ID_SIZE 33 /* 32 hex digits and a NUL */
#define TARGET_ERROR_MAX 512

struct target {
	char *given;	/* absolute, without trailing slashes */
	char *resolved; /* with its parent resolved */
	char *name;	/* the last component; borrowed from given */
	int parent_fd;	/* O_PATH */
};

/* What stands at a target. */
enum target_kind { TARGET_ABSENT, TARGET_DIRECTORY, TARGET_FILE, TARGET_OTHER, TARGET_MOUNT };

/*
 * target_open: @path (absolute) taken apart, its parent pinned.
 * Returns 0, -EINVAL (not absolute, or the last component is missing, "." or ".."), -ENOENT, -ENOTDIR,
 * -EACCES, -ENOMEM; *ret_error (TARGET_ERROR_MAX bytes) says which.
 */
int target_open(const char *path, struct target **ret_target, char *ret_error);
void target_free(struct target *target);
DEFINE_AUTO(target)

/* target_look: what is there; -errno when the parent cannot be searched. */
int target_look(const struct target *target, enum target_kind *ret_kind);

/* target_id: the default volume id: the first 32 hex digits of the SHA-256 of the target as given. */
void target_id(const char *given, char ret_id[TARGET_ID_SIZE]);

#endif
