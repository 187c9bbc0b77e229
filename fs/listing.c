// SPDX-License-Identifier: Apache-2.0
#include "fs/listing.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"

enum {
	/* With relatime(8) an access time this old changes at any access. */
	RELATIME_SECONDS = 24 * 60 * 60,
	/* Seldom enough to cost nothing, and not so seldom that much of a day is left without. */
	KEPT_SECONDS = 60 * 60,
};

bool listing_may_keep(const struct overlay *ov)
{
	return ov->atime != ATIME_ALWAYS && (ov->is_exclusive || ov->tree.has_fine_times);
}

bool listing_needs_open(const struct overlay *ov)
{
	return !ov->is_exclusive || !listing_may_keep(ov);
}

bool listing_is_good(struct overlay *ov, const struct node_info *dir)
{
	return listing_may_keep(ov) && dir->flags & NODE_LISTED &&
	       (double)primed_age_ms(&ov->primed, dir->id, clock_now_ms()) <
		       ov->entry_timeout * 1000;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static time_t kept_seconds(const struct overlay *ov)
{
	return ov->options->listing_seconds ? (time_t)ov->options->listing_seconds : KEPT_SECONDS;
}

static time_t now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec;
}

/*
 * Where access times change: whether listing the directory now, and as long as it may be kept, leaves its access time. A
 * listing that ends while others are dropped may miss that, and is dropped the next time: so it may be kept for twice
 * the time.
 */
static bool keeps_atime(const struct overlay *ov, const struct stat *st)
{
	return ov->atime == ATIME_RELATIVE && is_later(&st->st_atim, &st->st_mtim) &&
	       is_later(&st->st_atim, &st->st_ctim) &&
	       now_seconds() + 2 * kept_seconds(ov) - st->st_atim.tv_sec < RELATIME_SECONDS;
}

void listing_end(struct overlay *ov, const struct node_info *dir, int dir_fd)
{
	struct stat st;

	if (!listing_may_keep(ov))
		return;
	if (ov->atime != ATIME_NEVER && (tree_stat(dir_fd, &st) < 0 || !keeps_atime(ov, &st)))
		overlay_invalidate_listing(ov, dir->id);
	else if (!(dir->flags & NODE_LISTED))
		node_set_listed(ov->nodes, dir->id, true);
}

void listing_drop(struct overlay *ov, const struct node_info *dir)
{
	if (!(dir->flags & NODE_LISTED))
		return;
	node_set_listed(ov->nodes, dir->id, false);
	overlay_invalidate_listing(ov, dir->id);
}

/* ---- now and then ---- */

/* Access times are of this clock, which may be set, or run on while the machine sleeps. */
static int set_timer(int fd, time_t at)
{
	const struct itimerspec next = { .it_value.tv_sec = at };

	return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &next, NULL) < 0 ?
		       -errno :
		       0;
}

int listing_open_timer(int *ret_fd)
{
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int listing_start_timer(const struct overlay *ov, int timer_fd)
{
	if (!ov->is_exclusive || ov->atime != ATIME_RELATIVE)
		return 0;
	/* At once: how long ago a server that is dead dropped them nobody knows. */
	return set_timer(timer_fd, now_seconds());
}

static void drop_kept(void *context, uint64_t id)
{
	overlay_invalidate_listing(context, id);
}

void listing_drop_due(struct overlay *ov, int timer_fd)
{
	uint64_t times;
	int r;

	if (read(timer_fd, &times, sizeof(times)) < 0 && errno == EAGAIN)
		return;
	/* First: the next time comes also for what is listed meanwhile. */
	r = set_timer(timer_fd, now_seconds() + kept_seconds(ov));
	if (r < 0)
		log_line(LOG_WARNING, "listing", "timer: error %d (ignoring)", -r);
	node_each_listed(ov->nodes, drop_kept, ov);
}
