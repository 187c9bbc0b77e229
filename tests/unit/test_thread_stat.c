// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/thread_stat.h"

enum { NOBODY = 0x7ffffff0 }; /* above all process ids (PID_MAX_LIMIT) */

static int set_up(void **state)
{
	int *proc_fd = malloc(sizeof(*proc_fd));

	*proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = proc_fd;
	return *proc_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	close(*(int *)*state);
	free(*state);
	return 0;
}

/* As the kernel has it: the name is up to the thread. */
static void get_of_a_running_thread(void **state)
{
	static const char *const names[] = { "plain", ") S 1 1 (", "a\nb", ")" };
	struct thread_stat stat;
	cpu_set_t found, one;
	int processor;

	assert_int_equal(sched_getaffinity(0, sizeof(found), &found), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		prctl(PR_SET_NAME, names[i]);
		processor = sched_getcpu();
		CPU_ZERO(&one);
		CPU_SET(processor, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		assert_int_equal(thread_stat_get(*(int *)*state, gettid(), &stat), 0);
		assert_int_equal(stat.state, 'R');
		assert_int_equal(stat.processor, processor);
		assert_int_equal(sched_setaffinity(0, sizeof(found), &found), 0);
	}
}

static void get_of_one_that_sleeps(void **state)
{
	struct thread_stat stat = { .state = '?' };
	pid_t sleeper = fork();

	if (sleeper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	while (stat.state != 'S')
		assert_int_equal(thread_stat_get(*(int *)*state, sleeper, &stat), 0);
	kill(sleeper, SIGKILL);
	waitpid(sleeper, NULL, 0);
}

static void times_rise_while_it_runs(void **state)
{
	uint64_t before, ran_ns, waited_ns;

	assert_int_equal(thread_stat_times(*(int *)*state, gettid(), &before, &waited_ns), 0);
	do
		assert_int_equal(thread_stat_times(*(int *)*state, gettid(), &ran_ns, &waited_ns),
				 0);
	while (ran_ns == before);
	assert_true(ran_ns > before);
}

static void of_nobody_is_an_error(void **state)
{
	struct thread_stat stat;
	uint64_t ran_ns, waited_ns;

	assert_int_equal(thread_stat_get(*(int *)*state, NOBODY, &stat), -ENOENT);
	assert_int_equal(thread_stat_times(*(int *)*state, NOBODY, &ran_ns, &waited_ns), -ENOENT);
}

/* Made in a directory that is no /proc. */
static void of_something_else_is_an_error(void **state)
{
	static const char *const texts[] = { "", "1", "1 (name) R", "1 (name", "1 (name) R 2 3 x" };
	char dir[128], path[64];
	struct thread_stat stat;
	uint64_t ran_ns, waited_ns;
	AUTO_FD int dir_fd = -1;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/test_thread_stat.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir_fd >= 0);
	assert_int_equal(mkdirat(dir_fd, "7", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "7/task", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "7/task/7", 0700), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		for (int which = 0; which < 2; which++) {
			int fd;

			snprintf(path, sizeof(path), "7/task/7/%s",
				 which == 0 ? "stat" : "schedstat");
			fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
			assert_true(fd >= 0 && dprintf(fd, "%s", texts[i]) >= 0);
			close(fd);
		}
		assert_int_equal(thread_stat_get(dir_fd, 7, &stat), -EPROTO);
		assert_int_equal(thread_stat_times(dir_fd, 7, &ran_ns, &waited_ns), -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(get_of_a_running_thread),	     TEST(get_of_one_that_sleeps),
		TEST(times_rise_while_it_runs),	     TEST(of_nobody_is_an_error),
		TEST(of_something_else_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
