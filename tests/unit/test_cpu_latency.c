// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/cpu_latency.h"

/* A time at which no request came before; what is far apart, and what is not. */
enum { BEGIN_NS = 1000000000, FAR_NS = CPU_LATENCY_CLOSE_NS + 1, NEAR_NS = 1000, LIMIT_US = 7 };

static const int32_t NONE = 2000000000;

/* In place of the device: a file of all that was written. */
static char path[64];
static struct cpu_latency latency;
static uint64_t now_ns;

static int set_up(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/fsgroupfs-test.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	now_ns = BEGIN_NS;
	cpu_latency_init(&latency);
	return cpu_latency_open(&latency, path, LIMIT_US);
}

static int tear_down(void **state)
{
	(void)state;
	cpu_latency_close(&latency);
	return unlink(path);
}

static void note(unsigned count, uint64_t apart_ns)
{
	for (unsigned i = 0; i < count; i++)
		cpu_latency_note(&latency, now_ns += apart_ns);
}

static void begin(void)
{
	note(1, FAR_NS);
	note(CPU_LATENCY_REQUESTS, NEAR_NS);
}

/* What was written, in this order. */
static void assert_written(const int32_t *values, size_t count)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	int32_t found[16];

	assert_int_equal(read(fd, found, sizeof(found)), count * sizeof(*values));
	for (size_t i = 0; i < count; i++)
		assert_int_equal(found[i], values[i]);
}

/* As the main thread does; the timer goes by the real clock, the caller's time by the test's. */
static void rest(uint64_t at_ns)
{
	struct pollfd timer = { .fd = latency.timer_fd, .events = POLLIN };

	assert_int_equal(poll(&timer, 1, 10000), 1);
	cpu_latency_rest(&latency, at_ns);
}

static void test_requests_far_apart(void **state)
{
	(void)state;
	note(4 * CPU_LATENCY_REQUESTS, FAR_NS);
	assert_written(NULL, 0);
}

static void test_few_that_come_close(void **state)
{
	(void)state;
	note(1, FAR_NS);
	note(CPU_LATENCY_REQUESTS - 1, NEAR_NS);
	assert_written(NULL, 0);
	/* As many of the one as of the other. */
	for (int i = 0; i < 1000; i++) {
		note(1, FAR_NS);
		note(CPU_LATENCY_FAR, NEAR_NS);
	}
	assert_written(NULL, 0);
}

/* A machine that does much else lets some wait. */
static void test_some_that_come_late(void **state)
{
	(void)state;
	for (int i = 0; i < CPU_LATENCY_REQUESTS; i++) {
		note(1, FAR_NS);
		note(CPU_LATENCY_FAR + 1, NEAR_NS);
	}
	assert_written((const int32_t[]){ LIMIT_US }, 1);
}

static void test_holds_once(void **state)
{
	(void)state;
	begin();
	assert_written((const int32_t[]){ LIMIT_US }, 1);
	note(1000, NEAR_NS);
	note(10, FAR_NS);
	assert_written((const int32_t[]){ LIMIT_US }, 1);
}

static void test_ends_when_none_comes(void **state)
{
	(void)state;
	begin();
	rest(now_ns + CPU_LATENCY_REST_NS);
	assert_written((const int32_t[]){ LIMIT_US, NONE }, 2);
	begin();
	assert_written((const int32_t[]){ LIMIT_US, NONE, LIMIT_US }, 3);
}

static void test_goes_on_while_they_come(void **state)
{
	(void)state;
	begin();
	rest(now_ns + CPU_LATENCY_REST_NS - 1);
	assert_written((const int32_t[]){ LIMIT_US }, 1);
	/* It is looked at once more. */
	rest(now_ns + CPU_LATENCY_REST_NS);
	assert_written((const int32_t[]){ LIMIT_US, NONE }, 2);
}

/* Of two threads the second may have looked at the clock first. */
static void test_times_that_cross(void **state)
{
	(void)state;
	begin();
	rest(now_ns - 1);
	assert_written((const int32_t[]){ LIMIT_US }, 1);
}

/* Nobody is asked to look when there is nothing to end. */
static void test_timer_is_still(void **state)
{
	struct pollfd timer;

	(void)state;
	note(4 * CPU_LATENCY_REQUESTS, FAR_NS);
	timer = (struct pollfd){ .fd = latency.timer_fd, .events = POLLIN };
	assert_int_equal(poll(&timer, 1, 0), 0);
	cpu_latency_rest(&latency, now_ns + CPU_LATENCY_REST_NS);
	assert_written(NULL, 0);
}

static void test_without_a_device(void **state)
{
	struct cpu_latency none;

	(void)state;
	cpu_latency_init(&none);
	assert_int_equal(cpu_latency_open(&none, "/proc/self/no-such-device", 0), -ENOENT);
	for (unsigned i = 1; i < 4 * CPU_LATENCY_REQUESTS; i++)
		cpu_latency_note(&none, BEGIN_NS + i);
	assert_int_equal(none.fd, -1);
	assert_int_equal(none.timer_fd, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_requests_far_apart),
		TEST(test_few_that_come_close),
		TEST(test_some_that_come_late),
		TEST(test_holds_once),
		TEST(test_ends_when_none_comes),
		TEST(test_goes_on_while_they_come),
		TEST(test_times_that_cross),
		TEST(test_timer_is_still),
		cmocka_unit_test(test_without_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
