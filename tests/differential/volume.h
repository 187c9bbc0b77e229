/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_VOLUME_H
#define TESTS_DIFFERENTIAL_VOLUME_H

/*
 * volume: one random tree twice: A, changed eagerly, and B, a block copy taken before (of tmpfs: made
 * from the same seed), pending behind the overlay.
 *
 * Everything lies in one scratch directory that is a tmpfs of its own; the caller's mount and process
 * namespaces end with it, so that nothing can be left behind.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/differential/killer.h"

enum { VOLUME_GID = 4242 };

struct volume_config {
	const char *type;    /* ext4, xfs, btrfs, tmpfs */
	const char *program; /* fsgroupfs */
	const char *scratch;
	const char *atime; /* mount option */
	bool converges;	   /* while the steps run; else only at their end */
	bool is_exclusive;
	unsigned
		kill_ms; /* the server is killed after at most as long, again and again; 0: it is not */
	bool is_durable; /* the run has an id: files that users change are marked */
};

struct volume {
	const struct volume_config *config;
	int eager_fd, overlay_fd; /* roots, O_RDONLY */
	int lower_fd;
	int control_fd;
	struct killer killer;
};

/* volume_open: on failure what was done is undone. @ret->lower_fd shows the tree as it was made. */
int volume_open(const struct volume_config *config, uint64_t seed, struct volume *ret);
void volume_close(struct volume *v);

/* volume_send: one request to the overlay's keeper. Returns 0 or -errno. */
int volume_send(struct volume *v, const char *request);

/* volume_spare: the server is killed no more; how often it was. */
unsigned volume_spare(struct volume *v);

/* volume_converge: lets it finish, and waits. -EIO: it says that some files failed. */
int volume_converge(struct volume *v, char *ret_reason, size_t size);

#endif
