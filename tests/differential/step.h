/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_STEP_H
#define TESTS_DIFFERENTIAL_STEP_H

/*
 * step: one system call (or a few that belong together) that one worker makes on both sides, and what
 * came of it. Steps name paths, not objects: a sequence with steps left out still means something.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/differential/random.h"
#include "tests/differential/tree.h"

enum {
	SLOTS = 6,    /* descriptors that a worker keeps open on each side */
	WORKERS = 13, /* worker.c has their table */
	XATTR_NAME_BYTES = 64,
	VALUE_BYTES = 64,
	TEXT_BYTES = 4096,
};

struct step {
	uint16_t op; /* row of the table: op.h */
	uint16_t worker;
	bool relative; /* to the worker's working directory, not to the root */
	uint8_t slot, slot2;
	int32_t flags, flags2;
	uint32_t mode;
	int64_t offset, length, a, b;
	char path[TREE_PATH_MAX], path2[TREE_PATH_MAX];
	char name[XATTR_NAME_BYTES];
	uint32_t value_len;
	unsigned char value[VALUE_BYTES];
};

/* The attributes of an object, as far as they are compared. */
struct observation {
	int32_t error; /* of the stat itself */
	uint32_t mode, uid, gid, nlink, blksize;
	uint64_t rdev, size, ino;
	struct timespec atime, mtime, ctime;
	bool has_flags; /* immutable or append-only; not compared: FUSE does not pass it */
};

struct result {
	int64_t value; /* -1 with @error */
	int32_t error;
	int fd; /* the step's descriptor, in the worker: before and after are its attributes; -1: it was not open */
	bool is_direct; /* what it read did not have to come through the page cache */
	struct observation before, after;
	uint32_t text_len;
	char text[TEXT_BYTES]; /* what else the caller learned */
};

/* What a worker holds of one side. */
struct hands {
	int root_fd;	 /* O_PATH */
	int readable_fd; /* O_RDONLY, of the root */
	int cwd_fd;	 /* O_PATH, or -1 */
	int inotify_fd;
	int slots[SLOTS]; /* -1: closed */
};

/* What random arguments follow from. */
struct generator {
	struct random random;
	struct tree_paths paths;
	bool slot_is_open[WORKERS][SLOTS];
	char chattr_path[TREE_PATH_MAX]; /* carries a flag that is soon to be taken off; "": none */
	unsigned chattr_steps;
	bool converges;
	bool refreshes;	       /* the lower tree is changed behind the overlay's back */
	bool has_zero_range;   /* the file system has FALLOC_FL_ZERO_RANGE */
	bool has_mapped_times; /* a store to a mapping changes the times: not on tmpfs */
	bool is_cached; /* data goes through the overlay's page cache, in a user namespace (compare.h) */
};

/* step_print: as a line of a script. */
void step_print(FILE *out, const struct step *step);

/* observe: without following the last component; @path "" is @fd itself. */
void observe(int fd, const char *path, struct observation *ret);

/* result_add: appends to the text; what does not fit is cut on both sides alike. */
void result_add(struct result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* result_add_bytes: a digest and the first bytes. */
void result_add_bytes(struct result *r, const void *bytes, size_t len);

/* result_add_stat: all that is comparable of a stat, without changing times. */
void result_add_stat(struct result *r, const struct stat *st);

#endif
