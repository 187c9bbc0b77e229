// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/affine.h"
#include "fs/base/cleanup.h"
#include "fs/base/clock.h"

static const uint64_t MS_NS = 1000000;

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
	uint64_t now_ns;     /* time stands still: nobody looks who else has the processor */
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
	affine_init(&f->affine, affine_is_possible() ? AFFINE_SELF : AFFINE_NONE, f->proc_fd,
		    count_answer);
	return f->caller < 0 || f->proc_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	const struct sched_param none = { 0 };

	affine_leave(&f->affine);
	sched_setscheduler(0, SCHED_OTHER, &none);
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
	if (f->affine.use == AFFINE_NONE)
		skip(); /* one processor, or not allowed to come back from SCHED_IDLE */
}

static void note(struct fixture *f, unsigned count, bool was_there)
{
	for (unsigned i = 0; i < count; i++)
		affine_note(&f->affine, f->caller, was_there, f->now_ns);
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
		affine_note(&f->affine, NOBODY, true, f->now_ns);
	}
}

static void note_of_another_caller_frees(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	note(f, AFFINE_REQUESTS, true);
	assert_true(affine_is_bound(&f->affine));
	affine_note(&f->affine, getpid(), true, f->now_ns);
	assert_free(f);
}

static void note_of_nobody_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	note(f, AFFINE_REQUESTS, true);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, 0, true, f->now_ns);
	assert_true(affine_is_bound(&f->affine));
}

static void note_of_callers_in_turn_binds_to_none(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, i % 2 == 0 ? f->caller : getpid(), true, f->now_ns);
	assert_free(f);
}

static void note_of_who_is_not_there_binds_to_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	for (int i = 0; i < 2 * AFFINE_REQUESTS; i++)
		affine_note(&f->affine, NOBODY, true, f->now_ns);
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
	affine_init(&f->affine, AFFINE_SELF, f->proc_fd, count_answer);
	assert_int_equal(f->affine.use, AFFINE_NONE);
	assert_int_equal(sched_getaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(CPU_COUNT(&one), 1);
}

static void note_where_it_is_of_no_use_changes_nothing(void **state)
{
	struct fixture *f = *state;

	affine_init(&f->affine, AFFINE_NONE, f->proc_fd, count_answer);
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

/* Binds, and answers once; looks what the thread is meanwhile. */
static void answer_and_look(struct fixture *f)
{
	struct look look = { .thread = gettid() };
	pthread_t thread;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	fill(fds[1]);
	look.pipe_fd = fds[0];
	note(f, affine_is_bound(&f->affine) ? 1 : AFFINE_REQUESTS, true);
	assert_int_equal(pthread_create(&thread, NULL, look_and_drain, &look), 0);
	assert_int_equal(send_message(fds[1], 1), sizeof(struct fuse_out_header));
	assert_int_equal(answered, 1);
	close(fds[1]);
	pthread_join(thread, NULL);
	assert_true(look.was_idle);
	close(fds[0]);
}

static void writev_of_an_answer_is_idle_until_the_thread_is_free(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	answer_and_look(f);
	note(f, 1, true);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
	affine_leave(&f->affine);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void writev_of_an_answer_in_a_crowd_comes_back(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	affine_crowd(&f->affine, true);
	answer_and_look(f);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void *raise_it(void *argument)
{
	affine_raise(argument);
	return NULL;
}

static void raise_comes_back_until_the_next_answer(void **state)
{
	struct fixture *f = *state;
	pthread_t thread;

	need_two_processors(f);
	answer_and_look(f);
	note(f, 1, true);
	assert_int_equal(pthread_create(&thread, NULL, raise_it, &f->affine), 0);
	pthread_join(thread, NULL);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	answered = 0;
	answer_and_look(f);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
}

static void raise_of_who_is_not_idle_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	note(f, AFFINE_REQUESTS, true);
	affine_raise(&f->affine);
	assert_true(affine_is_bound(&f->affine));
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

static void io_priority_is_not_that_of_the_policy(void **state)
{
	struct fixture *f = *state;
	long before;

	need_two_processors(f);
	before = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	answer_and_look(f);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
	assert_int_equal(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0), before);
	assert_int_equal(IOPRIO_PRIO_CLASS(before), IOPRIO_CLASS_BE);
}

/* ---- who has the processor ---- */

static void keep_busy(int processor)
{
	cpu_set_t one;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (;;)
		;
}

/* Until it is free. */
static void serve_for_a_while(struct fixture *f)
{
	AUTO_FD int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint64_t until_ns = clock_now_ns() + 10000 * MS_NS;
	struct timespec moment = { .tv_nsec = 200000 };

	while (clock_now_ns() < until_ns && affine_is_bound(&f->affine)) {
		nanosleep(&moment, NULL);
		f->now_ns = clock_now_ns();
		note(f, 1, true);
		assert_int_equal(send_message(fd, 1), sizeof(struct fuse_out_header));
	}
}

static void note_beside_a_third_frees_for_a_while(void **state)
{
	struct fixture *f = *state;
	pid_t third;

	need_two_processors(f);
	answer_and_look(f);
	third = fork();
	if (third == 0)
		keep_busy(f->affine.processor);
	serve_for_a_while(f);
	kill(third, SIGKILL);
	waitpid(third, NULL, 0);
	assert_free(f);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
	note(f, AFFINE_REQUESTS, true);
	assert_free(f);
}

/* Of a file as the kernel has it of a thread, below @dir_fd. */
static void say_of(int dir_fd, pid_t thread, const char *ran_ns, const char *waited_ns)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%d", (int)thread);
	mkdirat(dir_fd, path, 0700);
	snprintf(path, sizeof(path), "%d/task", (int)thread);
	mkdirat(dir_fd, path, 0700);
	snprintf(path, sizeof(path), "%d/task/%d", (int)thread, (int)thread);
	mkdirat(dir_fd, path, 0700);
	snprintf(path, sizeof(path), "%d/task/%d/schedstat", (int)thread, (int)thread);
	fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%s %s 1\n", ran_ns, waited_ns) > 0);
	close(fd);
}

/* Looks, and again when it is said that the two have waited and run so long. Returns whether it has become free. */
static bool is_freed_when(struct fixture *f, const char *waited_ns, const char *caller_ns)
{
	uint64_t now_ns = clock_now_ns();
	char dir[128];

	snprintf(dir, sizeof(dir), "%s/test_affine.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	note(f, AFFINE_REQUESTS, true);
	assert_non_null(mkdtemp(dir));
	close(f->proc_fd);
	f->proc_fd = f->affine.proc_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->proc_fd >= 0);
	say_of(f->proc_fd, gettid(), "5000000", "0");
	say_of(f->proc_fd, f->caller, "0", "5000000");
	f->affine.looked.at_ns = 0;
	affine_note(&f->affine, f->caller, true, now_ns);
	assert_true(affine_is_bound(&f->affine));
	say_of(f->proc_fd, gettid(), "9000000", waited_ns);
	say_of(f->proc_fd, f->caller, caller_ns, "9000000");
	affine_note(&f->affine, f->caller, true, now_ns + AFFINE_LOOK_MS * MS_NS - 1);
	assert_true(affine_is_bound(&f->affine));
	affine_note(&f->affine, f->caller, true, now_ns + AFFINE_LOOK_MS * MS_NS);
	return !affine_is_bound(&f->affine);
}

/* A busy caller: what he has of it is his. */
static void note_of_waiting_for_the_caller_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	assert_false(is_freed_when(f, "18000000", "9000000"));
}

static void note_of_waiting_for_another_frees(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	assert_true(is_freed_when(f, "18000000", "7000000"));
}

static void note_of_waiting_a_little_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	assert_false(is_freed_when(f, "9000000", "0"));
}

/* He was on another processor meanwhile. */
static void note_of_a_caller_elsewhere_changes_nothing(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	assert_false(is_freed_when(f, "2000000", "18000000"));
}

static void note_of_what_cannot_be_read_frees(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	assert_true(is_freed_when(f, "much", "0"));
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
	affine_note(&f->affine, 0, true, f->now_ns); /* of what nobody waits for */
	assert_true(affine_is_bound(&f->affine));
	assert_int_equal(send_message(fds[1], 1), sizeof(struct fuse_out_header));
	assert_int_equal(answered, 0);
	assert_int_equal(writev(-1, &text, 1), -1);
	close(fds[0]);
	close(fds[1]);
}

/* ---- who cannot come back ---- */

static void be_follower(struct fixture *f)
{
	need_two_processors(f);
	affine_init(&f->affine, AFFINE_FOLLOWER, f->proc_fd, count_answer);
	assert_int_equal(f->affine.use, AFFINE_FOLLOWER);
}

static void follower_is_idle_for_good(void **state)
{
	struct fixture *f = *state;

	be_follower(f);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
	affine_follow(&f->affine, f->caller, f->now_ns);
	answer_and_look(f);
	affine_raise(&f->affine);
	affine_leave(&f->affine);
	assert_free(f);
	assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
}

static void follow_binds_to_the_processor_of_who_is_handed(void **state)
{
	struct fixture *f = *state;

	be_follower(f);
	note(f, 2 * AFFINE_REQUESTS, true); /* by itself it follows nobody */
	assert_free(f);
	for (int i = 0; i < 2; i++) {
		put_caller(f, f->processors[i]);
		affine_follow(&f->affine, f->caller, f->now_ns);
		assert_bound_to(f, f->processors[i]);
		affine_note(&f->affine, getpid(), true, f->now_ns);
		assert_free(f);
	}
}

static void follow_of_who_is_not_there_is_not_tried_again_soon(void **state)
{
	struct fixture *f = *state;

	be_follower(f);
	assert_true(affine_wants_caller(&f->affine, f->now_ns));
	affine_follow(&f->affine, NOBODY, f->now_ns);
	assert_free(f);
	assert_false(affine_wants_caller(&f->affine, f->now_ns + AFFINE_FREE_MS * MS_NS - 1));
	assert_true(affine_wants_caller(&f->affine, f->now_ns + AFFINE_FREE_MS * MS_NS));
}

static void note_in_a_crowd_frees_the_follower(void **state)
{
	struct fixture *f = *state;

	be_follower(f);
	affine_follow(&f->affine, f->caller, f->now_ns);
	assert_true(affine_is_bound(&f->affine));
	affine_crowd(&f->affine, true);
	note(f, 1, true);
	assert_free(f);
}

static void raise_frees_the_follower_until_it_looks(void **state)
{
	struct fixture *f = *state;
	cpu_set_t now;
	pthread_t thread;

	be_follower(f);
	put_caller(f, f->processors[1]);
	affine_follow(&f->affine, f->caller, f->now_ns);
	assert_int_equal(pthread_create(&thread, NULL, raise_it, &f->affine), 0);
	pthread_join(thread, NULL);
	assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
	assert_true(CPU_EQUAL(&now, &f->allowed));
	f->now_ns = clock_now_ns();
	note(f, 1, true);
	assert_bound_to(f, f->processors[1]);
}

static void scout_has_a_caller_who_asks_in_a_row(void **state)
{
	struct fixture *f = *state;

	need_two_processors(f);
	affine_init(&f->affine, AFFINE_SCOUT, f->proc_fd, count_answer);
	note(f, AFFINE_REQUESTS - 1, true);
	assert_false(affine_has_caller(&f->affine));
	note(f, 1, true);
	assert_true(affine_has_caller(&f->affine));
	assert_free(f);
	affine_crowd(&f->affine, true);
	assert_false(affine_has_caller(&f->affine));
	affine_crowd(&f->affine, false);
	affine_handed(&f->affine);
	assert_false(affine_has_caller(&f->affine));
	note(f, AFFINE_REQUESTS, true);
	affine_note(&f->affine, getpid(), true, f->now_ns);
	assert_false(affine_has_caller(&f->affine));
	assert_false(affine_wants_caller(&f->affine, f->now_ns));
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
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
		TEST(writev_of_an_answer_is_idle_until_the_thread_is_free),
		TEST(writev_of_an_answer_in_a_crowd_comes_back),
		TEST(raise_comes_back_until_the_next_answer),
		TEST(raise_of_who_is_not_idle_changes_nothing),
		TEST(io_priority_is_not_that_of_the_policy),
		TEST(note_beside_a_third_frees_for_a_while),
		TEST(note_of_waiting_for_the_caller_changes_nothing),
		TEST(note_of_waiting_for_another_frees),
		TEST(note_of_waiting_a_little_changes_nothing),
		TEST(note_of_a_caller_elsewhere_changes_nothing),
		TEST(note_of_what_cannot_be_read_frees),
		TEST(writev_of_anything_else_is_as_it_was),
		TEST(follower_is_idle_for_good),
		TEST(follow_binds_to_the_processor_of_who_is_handed),
		TEST(follow_of_who_is_not_there_is_not_tried_again_soon),
		TEST(note_in_a_crowd_frees_the_follower),
		TEST(raise_frees_the_follower_until_it_looks),
		TEST(scout_has_a_caller_who_asks_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
