// SPDX-License-Identifier: Apache-2.0
#include "fs/affine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"

enum {
	STAT_BYTES = 1024,
	STAT_PROCESSOR = 39, /* of proc_pid_stat(5), by its count from 1 */
	STAT_COMM = 2,
};

/* Of the calling thread, or NULL. */
static __thread const struct affine *own;

static int be(int policy)
{
	const struct sched_param none = { 0 };

	return sched_setscheduler(0, policy, &none) < 0 ? -errno : 0;
}

static void *go_and_come_back(void *ret_possible)
{
	*(bool *)ret_possible = be(SCHED_IDLE) == 0 && be(SCHED_OTHER) == 0;
	return NULL;
}

bool affine_is_possible(void)
{
	bool possible = false;
	pthread_t thread;

	if (sched_getscheduler(0) != SCHED_OTHER ||
	    pthread_create(&thread, NULL, go_and_come_back, &possible) != 0)
		return false;
	pthread_join(thread, NULL);
	return possible;
}

/* Of the calling thread: by itself or who started it, not by its cpuset, which may change. */
static bool is_restricted(const cpu_set_t *found, cpu_set_t *ret_all)
{
	cpu_set_t most;

	memset(ret_all, 0xff, sizeof(*ret_all));
	return sched_setaffinity(0, sizeof(*ret_all), ret_all) < 0 ||
	       sched_getaffinity(0, sizeof(most), &most) < 0 || !CPU_EQUAL(found, &most);
}

void affine_init(struct affine *a, bool is_of_use, int proc_fd, void (*answers)(void))
{
	cpu_set_t found;

	*a = (struct affine){ .proc_fd = proc_fd, .answers = answers, .processor = -1 };
	own = a;
	if (!is_of_use || sched_getaffinity(0, sizeof(found), &found) < 0 || CPU_COUNT(&found) < 2)
		return;
	a->is_of_use = true;
	if (!is_restricted(&found, &a->allowed))
		return;
	a->allowed = found;
	a->is_of_use = sched_setaffinity(0, sizeof(found), &found) == 0;
}

/* The processor on which a thread runs or ran last, or -1. */
static int processor_of(const struct affine *a, pid_t thread)
{
	char path[48], stat[STAT_BYTES];
	AUTO_FD int fd = -1;
	const char *field;
	uint32_t processor;
	ssize_t len;

	/* Below task/: what is said of a process adds up all its threads. */
	snprintf(path, sizeof(path), "%d/task/%d/stat", (int)thread, (int)thread);
	fd = openat(a->proc_fd, path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : io_read_all(fd, stat, sizeof(stat) - 1);
	if (len < 0)
		return -1;
	stat[len] = '\0';
	/* The name is the process's own choice, and may have anything in it. */
	field = strrchr(stat, ')');
	for (int i = STAT_COMM; field && i < STAT_PROCESSOR; i++)
		field = strchr(field + 1, ' ');
	return field && parse_next_u32(&field, &processor) == 0 && processor < CPU_SETSIZE ?
		       (int)processor :
		       -1;
}

static void bind_to(struct affine *a, int processor)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	if (sched_setaffinity(0, sizeof(one), &one) == 0)
		a->processor = processor;
	else
		affine_leave(a);
}

void affine_leave(struct affine *a)
{
	/* Refused only where we may not run anywhere any more that we were allowed to: then the kernel has freed us. */
	if (affine_is_bound(a))
		(void)sched_setaffinity(0, sizeof(a->allowed), &a->allowed);
	a->processor = -1;
}

static void follow(struct affine *a)
{
	int processor = processor_of(a, a->caller);

	a->late = a->in_a_row = 0;
	if (processor < 0 || !CPU_ISSET(processor, &a->allowed)) {
		affine_leave(a);
	} else if (processor == a->processor) {
		a->late_limit =
			a->late_limit < AFFINE_LATE_MAX ? a->late_limit * 2 : AFFINE_LATE_MAX;
	} else {
		a->late_limit = AFFINE_LATE;
		bind_to(a, processor);
	}
}

void affine_note(struct affine *a, pid_t caller, bool was_there)
{
	if (a->is_awaited && !was_there)
		a->late++;
	a->is_awaited = caller != 0;
	if (!a->is_of_use || caller == 0)
		return;
	if (caller != a->caller) {
		affine_leave(a);
		a->caller = caller;
		a->in_a_row = 0;
	}
	a->in_a_row++;
	if (affine_is_bound(a) ? a->late >= a->late_limit : a->in_a_row >= AFFINE_REQUESTS)
		follow(a);
}

/* Of a request; not what is told unasked, in the middle of one. */
static bool is_answer(const struct iovec *iov, int count)
{
	struct fuse_out_header out;

	if (count == 0 || iov[0].iov_len != sizeof(out))
		return false;
	memcpy(&out, iov[0].iov_base, sizeof(out));
	return out.unique != 0;
}

/* Instead of the C library's: affine.h. */
ssize_t writev(int fd, const struct iovec *iov, int count)
{
	ssize_t n;
	int r, error;

	if (!own || !affine_is_bound(own) || !own->is_awaited || !is_answer(iov, count))
		return syscall(SYS_writev, fd, iov, count);
	own->answers();
	(void)be(SCHED_IDLE);
	n = syscall(SYS_writev, fd, iov, count);
	error = errno;
	r = be(SCHED_OTHER);
	if (r < 0)
		log_line(LOG_ERROR, "affine", "a thread stays of SCHED_IDLE: %s", strerror(-r));
	errno = error;
	return n;
}
