// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/affine.h"
#include "fs/base/cleanup.h"

enum { NOBODY = 0x7ffffff0 }; /* above all process ids (PID_MAX_LIMIT) */

static unsigned answered;

static void count_answer(void)
{
	answered++;
}

struct fixture {
	struct affine affine;
	cpu_set_t allowed;
	int processors[2]; /* of those that are allowed */
	int proc_fd;
	pid_t caller;
	int ask_fd, told_fd; /* of the caller: a byte for a byte */
};

static void be_caller(int in_fd, int out_fd)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in_fd, &byte, 1) == 1 && write(out_fd, &byte, 1) == 1)
		;
	_exit(EXIT_SUCCESS);
}

/* When it returns the caller has been on that processor, and sleeps or is about to. */
static void put_caller(const struct fixture *f, int processor)
{
	cpu_set_t one;
	char byte = 0;

	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	assert_int_equal(sched_setaffinity(f->caller, sizeof(one), &one), 0);
	assert_int_equal(write(f->ask_fd, &byte, 1), 1);
	assert_int_equal(read(f->told_fd, &byte, 1), 1);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int ask[2], told[2], count = 0;

	*state = f;
	if (!f || pipe(ask) < 0 || pipe(told) < 0 ||
	    sched_getaffinity(0, sizeof(f->allowed), &f->allowed) < 0)
		return -1;
	for (int i = 0; i < CPU_SETSIZE && count < 2; i++) {
		if (CPU_ISSET(i, &f->allowed))
			f->processors[count++] = i;
	}
	f->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->caller = fork();
	if (f->caller == 0) {
		close(ask[1]);
		be_caller(ask[0], told[1]);
	}
	close(ask[0]);
	close(told[1]);
	f->ask_fd = ask[1];
	f->told_fd = told[0];
	answered = 0;
	affine_init(&f->affine, affine_is_possible(), f->proc_fd, count_answer);
	return f->caller < 0 || f->proc_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	affine_leave(&f->affine);
	kill(f->caller, SIGKILL);
	waitpid(f->caller, NULL, 0);
	close(f->ask_fd);
	close(f->told_fd);
	close(f->proc_fd);
	sched_setaffinity(0, sizeof(f->allowed), &f->allowed);
	free(f);
	return 0;
}

static void need_two_processors(const struct fixture *f)
{
	if (!f->affine.is_of_use)
		skip(); /* one processor, or not allowed to come back from SCHED_IDLE */
}

static void note(struct fixture *f, unsigned count, bool was_there)
{
	for (unsigned i = 0; i < count; i++)
		affine_note(&f->affine, f->caller, was_there);
}

static void assert_bound_to(const struct fixture *f, int processor)
{
	cpu_set_t now;

	assert_int_equal(f->affine.processor, processor);
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_int_equal(CPU_COUNT(&now), 1);
	assert_true(CPU_ISSET(processor, &now));
}

static void assert_free(const struct fixture *f)
{
	cpu_set_t now;

	assert_false(affine_is_bound(&f->affine));
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_true(CPU_EQUAL(&now, &f->allowed));
}

static void note_of_one_caller_binds_to_his_processor(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	for (int i = 0; i < 2; i++) {
		put_caller(f, f->processors[i]);
		note(f, AFFINE_REQUESTS - 1, true);
		assert_free(f);
		note(f, 1, true);
		assert_bound_to(f, f->processors[i]);
		affine_note(&f->affine, NOBODY, true);
	}
}

static void note_of_another_caller_frees(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	note(f, AFFINE_REQUESTS, true);
	assert_true(affine_is_bound(&f->affine));
	affine_note(&f->affine, getpid(), true);
	assert_free(f);
}

static void note_of_nobody_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	note(f, AFFINE_REQUESTS, true);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, 0, true);
	assert_true(affine_is_bound(&f->affine));
}

static void note_of_callers_in_turn_binds_to_none(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, i % 2 == 0 ? f->caller : getpid(), true);
	assert_free(f);
}

static void note_of_who_is_not_there_binds_to_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, NOBODY, true);
	assert_free(f);
}

static void note_of_late_requests_follows(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	put_caller(f, f->processors[0]);
	note(f, AFFINE_REQUESTS, true);
	put_caller(f, f->processors[1]);
	note(f, 2 * AFFINE_REQUESTS, true);
	assert_bound_to(f, f->processors[0]);
	note(f, AFFINE_LATE, false);
	assert_bound_to(f, f->processors[1]);
}

/* One who computes between his requests is late, and where he was. */
static void note_of_late_requests_looks_ever_more_rarely(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	put_caller(f, f->processors[0]);
	note(f, AFFINE_REQUESTS, true);
	note(f, 8 * AFFINE_LATE_MAX, false);
	assert_in_range(f->affine.late_limit, AFFINE_LATE_MAX / 2, 2 * AFFINE_LATE_MAX);
	put_caller(f, f->processors[1]);
	note(f, AFFINE_LATE, false);
	assert_bound_to(f, f->processors[0]);
	note(f, 2 * AFFINE_LATE_MAX, false);
	assert_bound_to(f, f->processors[1]);
}

static void init_keeps_what_the_thread_is_bound_to(void **state)
{
	struct fixture *f = *state;
	cpu_set_t one;

	need_two_processors(f);
	CPU_ZERO(&one);
	CPU_SET(f->processors[1], &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	affine_init(&f->affine, true, f->proc_fd, count_answer);
	assert_false(f->affine.is_of_use);
	assert_int_equal(sched_getaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(CPU_COUNT(&one), 1);
}

static void note_where_it_is_of_no_use_changes_nothing(void **state)
{
	struct fixture *f = *state;

	affine_init(&f->affine, false, f->proc_fd, count_answer);
	note(f, 2 * AFFINE_REQUESTS, false);
	assert_free(f);
}

/* ---- answers ---- */

struct look {
	pid_t thread;
	int pipe_fd; /* full; emptied when the thread is of SCHED_IDLE, or the limit is reached */
	bool was_idle;
};

static void *look_and_drain(void *argument)
{
	enum { LIMIT = 5000 };
	struct look *l = argument;
	char bytes[4096];

	for (int i = 0; i < LIMIT && !l->was_idle; i++) {
		l->was_idle = sched_getscheduler(l->thread) == SCHED_IDLE;
		usleep(1000);
	}
	while (read(l->pipe_fd, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

static ssize_t send_message(int fd, uint64_t unique)
{
	struct fuse_out_header out = { .len = sizeof(out), .unique = unique };
	struct iovec iov = { .iov_base = &out, .iov_len = sizeof(out) };

	return writev(fd, &iov, 1);
}

static void fill(int fd)
{
	char bytes[4096] = "";
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static void writev_of_an_answer_is_idle_and_comes_back(void **state)
{
	struct fixture *f = *state;
	struct look look = { .thread = gettid() };
	pthread_t thread;
	int fds[2];

	need_two_processors(f);
	assert_int_equal(pipe(fds), 0);
	fill(fds[1]);
	look.pipe_fd = fds[0];
	note(f, AFFINE_REQUESTS, true);
	assert_int_equal(pthread_create(&thread, NULL, look_and_drain, &look), 0);
	assert_int_equal(send_message(fds[1], 1), sizeof(struct fuse_out_header));
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	assert_int_equal(answered, 1);
	close(fds[1]);
	pthread_join(thread, NULL);
	assert_true(look.was_idle);
	close(fds[0]);
}

static void writev_of_anything_else_is_as_it_was(void **state)
{
	struct fixture *f = *state;
	struct iovec text = { .iov_base = "text", .iov_len = 4 };
	int fds[2];

	need_two_processors(f);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(send_message(fds[1], 1), sizeof(struct fuse_out_header));
	note(f, AFFINE_REQUESTS, true);
	assert_int_equal(send_message(fds[1], 0), sizeof(struct fuse_out_header));
	assert_int_equal(writev(fds[1], &text, 1), 4);
	affine_note(&f->affine, 0, true); /* of what nobody waits for */
	assert_true(affine_is_bound(&f->affine));
	assert_int_equal(send_message(fds[1], 1), sizeof(struct fuse_out_header));
	assert_int_equal(answered, 0);
	assert_int_equal(writev(-1, &text, 1), -1);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(note_of_one_caller_binds_to_his_processor),
		TEST(note_of_another_caller_frees),
		TEST(note_of_nobody_changes_nothing),
		TEST(note_of_callers_in_turn_binds_to_none),
		TEST(note_of_who_is_not_there_binds_to_nothing),
		TEST(note_of_late_requests_follows),
		TEST(note_of_late_requests_looks_ever_more_rarely),
		TEST(init_keeps_what_the_thread_is_bound_to),
		TEST(note_where_it_is_of_no_use_changes_nothing),
		TEST(writev_of_an_answer_is_idle_and_comes_back),
		TEST(writev_of_anything_else_is_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
