// SPDX-License-Identifier: Apache-2.0
#include "fs/cpu_latency.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

/* The kernel's PM_QOS_CPU_LATENCY_DEFAULT_VALUE: no limit, which is what a descriptor stands for that nothing was written to. */
static const int32_t NO_LIMIT_US = 2000 * 1000 * 1000;

void cpu_latency_init(struct cpu_latency *c)
{
	*c = (struct cpu_latency){ .fd = -1, .timer_fd = -1 };
}

int cpu_latency_open(struct cpu_latency *c, const char *path, uint32_t limit_us)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	AUTO_FD int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0 || timer_fd < 0)
		return -errno;
	c->limit_us = (int32_t)limit_us;
	c->timer_fd = take_fd(&timer_fd);
	c->fd = take_fd(&fd);
	return 0;
}

void cpu_latency_close(struct cpu_latency *c)
{
	cleanup_fd(&c->timer_fd);
	cleanup_fd(&c->fd);
	cpu_latency_init(c);
}

static void set_limit(struct cpu_latency *c, int32_t limit_us)
{
	if (write(c->fd, &limit_us, sizeof(limit_us)) < 0)
		log_line(LOG_WARNING, "cpu_latency", "%s: %m (ignoring)", CPU_LATENCY_PATH);
}

static void look_again_in(struct cpu_latency *c, uint64_t ns)
{
	const struct itimerspec next = { .it_value = { .tv_nsec = (long)ns } };

	if (timerfd_settime(c->timer_fd, 0, &next, NULL) < 0)
		log_line(LOG_WARNING, "cpu_latency", "timer: %m (ignoring)");
}

void cpu_latency_note(struct cpu_latency *c, uint64_t now_ns)
{
	uint64_t last_ns;
	int close;

	if (c->fd < 0)
		return;
	last_ns = atomic_exchange(&c->last_ns, now_ns);
	if (atomic_load(&c->holds))
		return;
	close = atomic_load(&c->close);
	close += now_ns > last_ns + CPU_LATENCY_CLOSE_NS ? -CPU_LATENCY_FAR : 1;
	/* What two threads write at once is about the same. */
	atomic_store(&c->close, close > 0 ? close : 0);
	if (close < CPU_LATENCY_REQUESTS || atomic_exchange(&c->holds, true))
		return;
	set_limit(c, c->limit_us);
	look_again_in(c, CPU_LATENCY_REST_NS);
}

void cpu_latency_rest(struct cpu_latency *c, uint64_t now_ns)
{
	uint64_t times, idle_ns, last_ns = atomic_load(&c->last_ns);

	if (read(c->timer_fd, &times, sizeof(times)) < 0)
		return;
	idle_ns = now_ns > last_ns ? now_ns - last_ns : 0;
	if (idle_ns < CPU_LATENCY_REST_NS) {
		look_again_in(c, CPU_LATENCY_REST_NS - idle_ns);
		return;
	}
	set_limit(c, NO_LIMIT_US);
	atomic_store(&c->close, 0);
	/* Last: from now on it may begin again. */
	atomic_store(&c->holds, false);
}
