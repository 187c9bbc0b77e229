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

enum volume_userns {
	USERNS_NONE,
	USERNS_MAPPED, /* the two trees are made outside of it, and mounted with its ids */
	USERNS_OWN,    /* tmpfs: they are its own */
};

/*
 * A directory for one volume after another. Two of them take turns: while a volume is used in one, a process closes the
 * last one of the other, and makes the trees of the next there and starts its overlay.
 */
struct volume_place {
	char scratch[160];
	int made_fd;   /* says when that is done; -1: nobody does it */
	uint64_t seed; /* of the next */
};

struct volume_config {
	const char *type;	    /* ext4, xfs, btrfs, tmpfs */
	const char *program;	    /* fsgroupfs */
	const char *scratch;	    /* that of the place, if there is one */
	struct volume_place *place; /* NULL: each volume is made when it is opened */
	const char *atime;	    /* mount option */
	const char *transport;	    /* "dev" or "io_uring": how the overlay's requests come */
	bool converges;		    /* while the steps run; else only at their end */
	bool is_exclusive;
	bool refreshes; /* the tree below is changed behind the overlay's back (refresh.h); not exclusive */
	unsigned
		kill_ms; /* the server is killed after at most as long, again and again; 0: it is not */
	bool is_durable;	   /* the run has an id: files that users change are marked */
	enum volume_userns userns; /* overlay, workers and caller are in one */
	int outside_fd;		   /* USERNS_MAPPED: to ask for the trees (outside.h) */
	bool is_idmapped; /* both trees are seen through idmapped mounts, from the user namespace of these */
};

struct volume {
	const struct volume_config *config;
	int eager_fd, overlay_fd; /* roots as the workers have them, O_RDONLY */
	int settled_fd, lower_fd; /* of A and B without a map: what is on disk */
	int user_space_fd;	  /* -1: the workers are in ours */
	int control_fd;
	struct killer killer;
};

/* Nothing is open of it. */
#define VOLUME_CLOSED(config_)                                                                     \
	{                                                                                          \
		.config = (config_), .eager_fd = -1, .overlay_fd = -1, .settled_fd = -1,           \
		.lower_fd = -1, .user_space_fd = -1, .control_fd = -1, .killer.control_fd = -1,    \
	}

/* volume_tmpfs_data: options of a tmpfs whose root belongs to those in the user namespace, if it is mounted outside. */
const char *volume_tmpfs_data(bool is_for_inside);

/*
 * volume_make: the part of volume_open() that is done outside: the two trees, A changed. @userns_fd: whose they are to
 * be, or -1.
 */
int volume_make(const struct volume_config *config, uint64_t seed, int userns_fd);

/* volume_open: on failure what was done is undone. @ret->lower_fd shows the tree as it was made. */
int volume_open(const struct volume_config *config, uint64_t seed, struct volume *ret);
void volume_close(struct volume *v);

/*
 * volume_leave: as volume_close(), which is done by a process of its own; then it makes the trees and starts the overlay for
 * the volume_open() of @next_seed, at the place of the volume. @v->config alone need be set.
 */
void volume_leave(struct volume *v, uint64_t next_seed);

/* volume_discard: what volume_leave() has begun at the place, if it has: it is waited for, and closed. */
void volume_discard(const struct volume_config *config);

/*
 * volume_enter: in a worker that is root still: into the user namespace, with a mount namespace of its own in which there
 * are the idmapped mounts alone, like a container's. 0 or -errno.
 */
int volume_enter(const struct volume *v);

/* volume_send: one request to the overlay's keeper. Returns 0 or -errno. */
int volume_send(struct volume *v, const char *request);

/* volume_spare: the server is killed no more; how often it was. */
unsigned volume_spare(struct volume *v);

/* volume_converge: lets it finish, and waits. -EIO: it says that some files failed. */
int volume_converge(struct volume *v, char *ret_reason, size_t size);

#endif
