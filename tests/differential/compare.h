/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_COMPARE_H
#define TESTS_DIFFERENTIAL_COMPARE_H

/*
 * compare: whether two sides can be told apart.
 *
 * Left out, because it names the mount itself or is not the same twice on one file system:
 *
 *   st_dev, mount ids, f_type, f_fsid, handle bytes  the mount
 *   statx attributes, dio fields                     the mount
 *   inode numbers                                    chosen by the file system; that the same files are
 *                                                    the same inodes is compared
 *   st_blocks, free space                            depend on when delayed allocation is done
 *   the size of a directory on XFS, when it is       depends on the order in which attributes and names
 *   in the inode on one side and not on the other    came: converging, or the mark, is a later one
 *   access times of files after a direct read, on    it goes through the page cache where the end of a write
 *   btrfs                                            is still to be noted (-ENOTBLK), and changes them only then
 *   with relatime, the access time of what changed   whether the next access is seen depends on the clock, which may
 *   and was looked at in one tick on one side alone  have gone on between the two: so it is natively, in one call, when
 *                                                    a file is copied into itself (copy_file_range); and an access may
 *                                                    have a finer and so a later time than a change that comes after it
 *   whether space that was never written is data for  what the page cache has of it is: ext4, xfs, and holes on
 *   SEEK_DATA and SEEK_HOLE                          tmpfs; both answers must be right then (hole.h)
 *   which signal ends a program that was written     what its bytes do depends on where the kernel has put its stack
 *   over                                             (of 1500 such, run natively 8 times each, 20 ended by several)
 *   offsets of directory positions                   what follows them is compared
 *   what a directory lists that changes meanwhile    names that come then may be listed or not (README)
 *   times by value                                   which of them a step changed, whether mtime equals
 *                                                    ctime (within a tick of the clock: a creation may
 *                                                    take two), and values that a step set are compared
 *
 * Left out, because the kernel does not pass it to any FUSE server (no request is made):
 *
 *   which error, when the file or its directory is immutable or append-only, and permission is
 *   missing too: the kernel's own EPERM comes first, ours comes from the lower file system
 *   times of a FIFO that is read or written
 *   access(2) for writing to an immutable file; removing the default ACL of a file that is no directory
 *   file attributes (chattr) of FIFOs, sockets and devices
 *   set-ID bits of a file with capabilities that is written to, and of a file that was ever opened for
 *   writing and is chowned to nobody (-1, -1): both are the same empty SETATTR
 *   capabilities of a file with set-ID bits when a chown(2) without CAP_FOWNER fails: the kernel removes
 *   them before it asks
 *   chown(2) of an append-only or immutable file with capabilities: the kernel has us remove them as a
 *   user would, who may not
 *   by which of its names a file is open that was opened by its handle (inotify tells it): whichever the
 *   kernel has at hand, or none
 *   what inotify calls a nameless (O_TMPFILE) file: "/" in FUSE, "#" and its inode number elsewhere
 *   truncate(2) and ftruncate(2) of an append-only or immutable file with capabilities: they go before it is refused
 *   ftruncate and copy_file_range to a file that became immutable or append-only after it was opened: in
 *   passthrough the server has no descriptor from before
 *   mapping a file shared that became append-only after it was opened for writing
 *   read(2) of no bytes: tmpfs changes the access time
 *   writes by direct I/O that the lower file system refuses as not aligned: set-ID bits and capabilities
 *   go before
 *   an fallocate that the lower file system has not got, or refuses of a file that became immutable or
 *   append-only after it was opened, and a hole behind the end or in a hole, which is none: set-ID bits and
 *   capabilities go before it is asked; so they do before a copy_file_range from a file that is open for direct I/O
 *
 * Left out when the lower tree is changed behind the overlay's back, by --refresh:
 *
 *   what is seen of it in the second that attributes and names are kept: that is waited for
 *   inotify: the lower tree's events are not the overlay's
 *   directories that are removed there, and what somebody has open with O_PATH, or a FIFO: stale (ESTALE) on the
 *   overlay, which is not asked when they are opened and holds nothing for them
 *   writes to files with set-ID bits while they are converged: the trial might end there (below)
 *   ownership and modes of what was there: whether they are the run's or a user's the overlay alone knows
 *
 * Left out in a user namespace, where file data goes through the overlay's page cache:
 *
 *   that direct I/O must be aligned: the caller's memory is in no request
 *   stores to a shared mapping of a file with set-ID bits or capabilities: they come as writes, and a write of
 *   who is not the machine's root takes both, whatever his capabilities; and on tmpfs, where a write
 *   changes the times and a store does not
 *   looking at a hole of a file on tmpfs through a mapping: it is data from then on (SEEK_HOLE), and the server sees a
 *   read, which leaves it a hole
 *   access times of regular files: what is in the cache is read without a request
 *   opening devices: the kernel refuses it on every FUSE mount there (the trees are mounted nodev)
 *
 * Deliberate deviations (README): file capabilities survive (eager.c puts them back); while files are
 * being converged (a file that is moved: at once), a ctime that changed on the overlay's side alone is
 * the converger's; so is, with relatime, the access time that changes at the next access because of it.
 * Set-ID bits of a file that is written to while it is converged never come back, whoever it was that wrote: where
 * natively they stay (a writer with CAP_FSETID) the trial ends, and is counted.
 */

#include "tests/differential/step.h"

/* In the kind of a difference in whether mtime and ctime, set by one step, are equal. */
#define DIFFERENCE_APART "mtime = ctime"

struct difference {
	bool is_cached; /* data goes through the overlay's page cache, in a user namespace */
	bool is_read_by_chance; /* there was a direct read on btrfs */
	bool converges;		/* files are converged meanwhile */
	bool is_found;
	bool is_deliberate; /* it is one of README's deviations, after which the two cannot be compared any more */
	unsigned at;   /* index of the step */
	char kind[80]; /* the operation and what differs */
	char text[3 * TEXT_BYTES];
};

/* difference_set: the first one stays. */
void difference_set(struct difference *d, const char *kind, const char *what, const char *format,
		    ...) __attribute__((format(printf, 4, 5)));

/* What decides which times may change. */
struct compare_mode {
	bool converges; /* files may be converged meanwhile */
	bool is_relatime;
};

/* An object on both sides, before and after a step. */
struct observed {
	struct observation before[2], after[2];
};

/* compare_observed: @began: the file systems' coarse clock when the step began. */
void compare_observed(const char *op, const char *what, const struct observed *o,
		      const struct timespec *began, struct compare_mode mode, struct difference *d);

/*
 * compare_set_ids: of a look at an object on both sides: the difference is deliberate when set-ID bits are gone on the
 * overlay's side alone, of a file that was written to while it was converged (README: they never come back).
 */
void compare_set_ids(const char *what, const struct observation look[2], struct difference *d);

void compare_results(const char *op, const struct result *eager, const struct result *overlay,
		     struct difference *d);

/* compare_trees: everything below two roots; @kind: what is compared. */
void compare_trees(const char *kind, int eager_fd, int overlay_fd, struct difference *d);

#endif
