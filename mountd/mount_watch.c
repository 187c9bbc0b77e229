// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A node that starts containers changes its mounts hundreds of times a second; each look costs a query. */
#define LOOK_EVERY_MS 100

struct mount_watch {
	void (*changed)(void *arg);
	void *arg;
	int table_fd, stop_fd;
	pthread_t thread;
};

/* Whether something has changed; false: we are to stop. */
static bool await(const struct mount_watch *watch)
{
	struct pollfd fds[] = { { .fd = watch->table_fd, .events = POLLPRI },
				{ .fd = watch->stop_fd, .events = POLLIN } };

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
		if (errno != EINTR)
			return false;
	}
	return fds[1].revents == 0;
}

/* Whether to go on, after the pause in which further changes are left to wait. */
static bool pause_between(const struct mount_watch *watch)
{
	struct pollfd stop = { .fd = watch->stop_fd, .events = POLLIN };

	return poll(&stop, 1, LOOK_EVERY_MS) <= 0;
}

static void *watch_main(void *arg)
{
	struct mount_watch *watch = arg;

	while (await(watch)) {
		watch->changed(watch->arg);
		if (!pause_between(watch))
			break;
	}
	return NULL;
}

static int start(struct mount_watch *watch)
{
	sigset_t all, saved;
	int r;

	watch->table_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (watch->table_fd < 0)
		return -errno;
	watch->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (watch->stop_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	r = pthread_create(&watch->thread, NULL, watch_main, watch);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return -r;
}

int mount_watch_new(void (*changed)(void *arg), void *arg, struct mount_watch **ret_watch)
{
	struct mount_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	*watch = (struct mount_watch){
		.changed = changed, .arg = arg, .table_fd = -1, .stop_fd = -1
	};
	r = start(watch);
	if (r < 0) {
		cleanup_fd(&watch->table_fd);
		cleanup_fd(&watch->stop_fd);
		free(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

void mount_watch_free(struct mount_watch *watch)
{
	if (!watch)
		return;
	(void)eventfd_write(watch->stop_fd, 1);
	pthread_join(watch->thread, NULL);
	cleanup_fd(&watch->table_fd);
	cleanup_fd(&watch->stop_fd);
	free(watch);
}
