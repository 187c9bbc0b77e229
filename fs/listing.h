/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_LISTING_H
#define FS_LISTING_H

/*
 * listing: what the kernel keeps of directories' entries, and for how long.
 *
 * Where nobody but us changes them the kernel does not even ask to open a directory (listing_needs_open): it answers from what
 * it keeps whoever lists the directory, until it sees a change itself. But a listing that is seen in the access time has to
 * come to the lower directory. So none is kept that would have to be seen: not when it ends (listing_end), not after what
 * changes one of the times without changing the directory (overlay_invalidate_listing), and not when an access time is
 * about to be a day old, from when on any access changes it (relatime): what is kept is dropped now and then
 * (listing_drop_due), and nothing is kept that would get that old before.
 *
 * Where others change the lower tree too a listing is kept as long as the kernel believes anything, for who opens the directory
 * in that time (listing_is_good). Later it had better ask anyway: a listing tells it the attributes of all the entries at
 * once. Nothing is dropped from here, when attributes are asked for, say: the kernel waits then for who reads what it
 * keeps, whose memory may be a file of this very overlay. So who has a directory open and lists it again gets what is
 * kept until the directory's modification time is another, which the kernel looks at first: it must change with each change,
 * and be believed no longer than the rest.
 */

#include <stdbool.h>

#include "fs/overlay.h"

/* listing_may_keep: whether it may keep any: not where access times change at each access, nor where a change may not show. */
bool listing_may_keep(const struct overlay *ov);

/* listing_needs_open: whether the kernel has to say who opens a directory. */
bool listing_needs_open(const struct overlay *ov);

/* listing_is_good: whether what the kernel has kept of @dir, if anything, is good for who opens the directory now. */
bool listing_is_good(struct overlay *ov, const struct node_info *dir);

/*
 * listing_end: at its end, before the reply, a listing is kept, also for who has the directory open since before, or must
 * not be: after one with O_NOATIME, and after one in the tick of the change that it follows. @dir_fd: the lower directory
 */
void listing_end(struct overlay *ov, const struct node_info *dir, int dir_fd);

/*
 * listing_drop: before a name comes to or goes from @dir, whose kernel's lock the request has: nobody reads it meanwhile. That
 * a listing is no longer right the kernel sees for itself, but only when somebody begins to list: who is in the middle
 * would go on with what was there before.
 */
void listing_drop(struct overlay *ov, const struct node_info *dir);

/*
 * listing_open_timer: a descriptor that poll(2) finds readable when listings are to be dropped, which listing_drop_due() then
 * does; from listing_start_timer() on, if this overlay has use for it: regularly, and when the clock is set. Main thread.
 * Return 0 or -errno.
 */
int listing_open_timer(int *ret_fd);
int listing_start_timer(const struct overlay *ov, int timer_fd);
void listing_drop_due(struct overlay *ov, int timer_fd);

#endif
