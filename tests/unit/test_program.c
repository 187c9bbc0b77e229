// SPDX-License-Identifier: Apache-2.0
/* What needs root is checked where there is root: a user other than ours, and a pid namespace. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "fs/base/io.h"
#include "fs/base/oom_score.h"
#include "plugins/program.h"

#define NOBODY 65534

struct script {
	const char *argv[6];
	struct program_request request;
};

static struct program_request *shell(struct script *x, const char *text)
{
	*x = (struct script){
		.argv = { "sh", "-c", text, "sh", NULL },
		.request = { .path = "/bin/sh",
			     .cwd_fd = -1,
			     .timeout_ms = 20000,
			     .output_max = 4096 },
	};
	x->request.argv = x->argv;
	return &x->request;
}

static struct program_result *run(const struct program_request *request)
{
	struct program_result *result = NULL;

	assert_int_equal(program_run(request, &result), 0);
	assert_non_null(result);
	assert_non_null(result->output);
	assert_int_equal(result->output[result->output_len], '\0');
	return result;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void program_run_keeps_both_outputs_in_order(void **state)
{
	struct script x;
	AUTO(program_result) *result = run(shell(&x, "echo a; echo b >&2; echo c"));

	(void)state;
	assert_int_equal(result->exit_status, 0);
	assert_int_equal(result->signal, 0);
	assert_string_equal(result->output, "a\nb\nc\n");
	assert_false(result->output_cut);
}

static void program_run_tells_how_it_ended(void **state)
{
	struct script x;
	AUTO(program_result) *status = run(shell(&x, "exit 7"));
	AUTO(program_result) *signaled = run(shell(&x, "kill -TERM $$"));
	char line[64];

	(void)state;
	assert_int_equal(status->exit_status, 7);
	assert_string_equal(program_result_line(status, line, sizeof(line)), "exit status 7");
	assert_int_equal(signaled->exit_status, -1);
	assert_int_equal(signaled->signal, SIGTERM);
	assert_string_equal(program_result_line(signaled, line, sizeof(line)),
			    "ended by signal 15");
}

static void program_run_what_cannot_be_started_is_an_error(void **state)
{
	struct program_result *result = NULL;
	struct script x;
	struct program_request *q = shell(&x, "true");

	(void)state;
	q->path = "/nonexistent/program";
	assert_int_equal(program_run(q, &result), -ENOENT);
	q->path = "/etc/passwd";
	assert_int_equal(program_run(q, &result), -EACCES);
	q->path = "/";
	assert_int_equal(program_run(q, &result), -EACCES);
	assert_null(result);
}

static void program_run_arguments_are_no_shell_text(void **state)
{
	const char *const argv[] = { "printf", "%s", "$(id); `id` \\n '", NULL };
	const struct program_request q = { .path = "/usr/bin/printf",
					   .argv = argv,
					   .cwd_fd = -1,
					   .timeout_ms = 20000,
					   .output_max = 100 };
	AUTO(program_result) *result = run(&q);

	(void)state;
	assert_string_equal(result->output, argv[2]);
}

/* As a service the daemon is spared when memory runs out. Who may not lower his score has nothing to hand on. */
static void program_run_score_is_not_inherited(void **state)
{
	const char *const argv[] = { "cat", "/proc/self/oom_score_adj", NULL };
	const struct program_request q = { .path = "/usr/bin/cat",
					   .argv = argv,
					   .cwd_fd = -1,
					   .timeout_ms = 20000,
					   .output_max = 100 };
	AUTO(program_result) *result = NULL;
	char before[16];

	(void)state;
	assert_int_equal(io_read_line(AT_FDCWD, argv[1], before, sizeof(before)), 0);
	(void)oom_score_set(-500);
	result = run(&q);
	(void)oom_score_set((int)strtol(before, NULL, 10));
	assert_true(result->output[0] >= '0' && result->output[0] <= '9');
}

static void program_run_environment_is_the_given_one(void **state)
{
	const char *const argv[] = { "env", NULL };
	const char *const envp[] = { "A=1", NULL };
	struct program_request q = { .path = "/usr/bin/env",
				     .argv = argv,
				     .cwd_fd = -1,
				     .timeout_ms = 20000,
				     .output_max = 1000 };
	AUTO(program_result) *standard = NULL, *given = NULL;

	(void)state;
	setenv("LD_PRELOAD_OF_THE_TEST", "x", 1);
	standard = run(&q);
	assert_string_equal(standard->output, "PATH=" PROGRAM_PATH "\nHOME=/\nLC_ALL=C\n");
	q.envp = envp;
	given = run(&q);
	assert_string_equal(given->output, "A=1\n");
	unsetenv("LD_PRELOAD_OF_THE_TEST");
}

static void program_run_inherits_no_descriptor(void **state)
{
	struct script x;
	/* Without O_CLOEXEC, as a careless library opens it; and a high one. */
	AUTO_FD int low = open("/etc/passwd", O_RDONLY);
	AUTO_FD int high = fcntl(low, F_DUPFD, 200);
	AUTO(program_result) *result = NULL;

	(void)state;
	assert_true(low >= 0 && high >= 200);
	/* The list is read through one more descriptor, which is ls's own. */
	result = run(shell(&x, "ls /proc/self/fd; readlink /proc/self/fd/0; ulimit -c"));
	assert_string_equal(result->output, "0\n1\n2\n3\n/dev/null\n0\n");
}

static void program_run_signals_are_at_their_defaults(void **state)
{
	struct script x;
	AUTO(program_result) *result = NULL;
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	sigset_t blocked, saved;

	(void)state;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &saved);
	result = run(shell(&x, "grep -E '^Sig(Blk|Ign)' /proc/self/status"));
	sigprocmask(SIG_SETMASK, &saved, NULL);
	signal(SIGPIPE, before);
	assert_string_equal(result->output,
			    "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static void program_run_begins_in_its_directory(void **state)
{
	struct script x;
	struct program_request *q = shell(&x, "pwd -P");
	AUTO_FD int dir = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO(program_result) *root = run(q), *usr = NULL;

	(void)state;
	assert_string_equal(root->output, "/\n");
	q->cwd_fd = dir;
	usr = run(q);
	assert_string_equal(usr->output, "/usr\n");
}

static void program_run_output_is_bounded(void **state)
{
	struct script x;
	struct program_request *q =
		shell(&x, "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2; exit 3");
	AUTO(program_result) *result = run(q);

	(void)state;
	assert_int_equal(result->exit_status, 3); /* it was not stopped by a full pipe */
	assert_int_equal(result->output_len, 4096);
	assert_true(result->output_cut);
}

static void program_run_file_size_is_bounded(void **state)
{
	struct script x;
	char name[] = "/tmp/test_program.XXXXXX";
	AUTO_FD int fd = mkstemp(name);
	struct program_request *q =
		shell(&x, "dd if=/dev/zero of=\"$0\" bs=4096 count=100 2>&1; exit 0");
	AUTO(program_result) *result = NULL;
	off_t size;

	(void)state;
	assert_true(fd >= 0);
	x.argv[3] = name;
	q->file_bytes = 65536;
	result = run(q);
	size = lseek(fd, 0, SEEK_END);
	unlink(name);
	assert_int_equal(size, 65536);
}

/* Whether a process is alive; a zombie that waits for its parent is not. */
static bool is_alive(int pid)
{
	char path[64], text[256], *state;
	AUTO_FD int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	state = strrchr(text, ')');
	return state && state[2] != 'Z' && state[2] != 'X';
}

/* Killed processes end in their own time. */
static bool ends_soon(int pid)
{
	for (int i = 0; i < 500; i++) {
		if (!is_alive(pid))
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return false;
}

static int read_pid(const char *name)
{
	char text[32] = "";
	AUTO_FD int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	return atoi(text);
}

static void program_run_time_limit_kills_the_group(void **state)
{
	struct script x;
	char name[] = "/tmp/test_program.XXXXXX";
	AUTO_FD int fd = mkstemp(name);
	struct program_request *q = shell(&x, "sleep 600 & echo $! >\"$0\"; wait");
	struct program_result *result = NULL;
	uint64_t began = now_ms();
	int pid;

	(void)state;
	assert_true(fd >= 0);
	x.argv[3] = name;
	q->timeout_ms = 700;
	assert_int_equal(program_run(q, &result), -ETIMEDOUT);
	assert_true(now_ms() - began >= 700 && now_ms() - began < 10000);
	pid = read_pid(name);
	unlink(name);
	assert_true(pid > 1);
	assert_true(ends_soon(pid));
}

static void program_run_what_holds_the_pipe_open_is_not_waited_for(void **state)
{
	struct script x;
	struct program_request *q = shell(&x, "sleep 600 & echo $!");
	uint64_t began = now_ms();
	AUTO(program_result) *killed = run(q), *left = NULL;
	int pid = atoi(killed->output);

	(void)state;
	assert_true(now_ms() - began < 10000);
	assert_true(pid > 1 && ends_soon(pid));

	q->may_leave = true;
	left = run(q);
	pid = atoi(left->output);
	assert_true(pid > 1 && is_alive(pid));
	kill(pid, SIGKILL);
}

static int watch_calls(void *arg)
{
	return ++*(int *)arg < 3 ? 0 : -EDQUOT;
}

static void program_run_watch_ends_it(void **state)
{
	struct script x;
	struct program_request *q = shell(&x, "sleep 600");
	struct program_result *result = NULL;
	int calls = 0;

	(void)state;
	q->watch = watch_calls;
	q->watch_arg = &calls;
	q->watch_ms = 20;
	assert_int_equal(program_run(q, &result), -EDQUOT);
	assert_int_equal(calls, 3);
}

static void program_run_as_another_user(void **state)
{
	struct script x;
	struct program_request *q = shell(
		&x, "id -u; id -g; id -G; grep -E '^(CapPrm|CapEff|NoNewPrivs)' /proc/self/status");
	AUTO(program_result) *result = NULL;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root: another user\n");
		return;
	}
	q->as_user = true;
	q->uid = q->gid = NOBODY;
	result = run(q);
	assert_string_equal(result->output, "65534\n65534\n65534\nCapPrm:\t0000000000000000\n"
					    "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n");
}

static void program_run_own_pids_leave_nobody(void **state)
{
	struct script x;
	char name[] = "/tmp/test_program.XXXXXX";
	AUTO_FD int fd = mkstemp(name);
	struct program_request *q = shell(
		&x,
		"setsid sh -c 'readlink /proc/self >\"$0\"; echo ready; exec sleep 600' \"$0\" & "
		"while ! test -s \"$0\"; do :; done; echo $$");
	AUTO(program_result) *result = NULL;
	int pid;

	(void)state;
	assert_true(fd >= 0);
	if (geteuid() != 0) {
		print_message("needs root: a pid namespace\n");
		unlink(name);
		return;
	}
	x.argv[3] = name;
	q->own_pids = true;
	result = run(q);
	/* /proc is our namespace's: the number that it shows is ours; its own is 1. */
	assert_non_null(strstr(result->output, "1\n"));
	pid = read_pid(name);
	unlink(name);
	assert_true(pid > 1 && ends_soon(pid));
}

static void program_run_own_mounts_leave_one_place_to_write(void **state)
{
	struct script x;
	struct program_request *q =
		shell(&x, "pwd; echo x >made && echo made; echo x 2>&1 >/tmp/test_program_made; "
			  "echo x >/dev/null && echo null; id -u");
	char dir[] = "/tmp/test_program.XXXXXX", name[64];
	AUTO_FD int fd = mkdtemp(dir) ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	AUTO(program_result) *result = NULL;

	(void)state;
	assert_true(fd >= 0);
	if (geteuid() != 0) {
		print_message("needs root: a mount namespace\n");
		rmdir(dir);
		return;
	}
	/* A directory that the user may work in, below one that he may not search. */
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(mkdirat(fd, "work", 0700), 0);
	assert_int_equal(fchownat(fd, "work", NOBODY, NOBODY, 0), 0);
	q->cwd_fd = openat(fd, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	q->own_mounts = q->own_pids = q->as_user = true;
	q->uid = q->gid = NOBODY;
	result = run(q);
	close(q->cwd_fd);
	assert_non_null(strstr(result->output, PROGRAM_PLACE "\nmade\n"));
	assert_non_null(strstr(result->output, "Read-only file system"));
	assert_non_null(strstr(result->output, "null\n65534\n"));
	assert_int_equal(access("/tmp/test_program_made", F_OK), -1);
	snprintf(name, sizeof(name), "%s/work/made", dir);
	assert_int_equal(unlink(name), 0);
	snprintf(name, sizeof(name), "%s/work", dir);
	assert_int_equal(rmdir(name), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void program_result_line_is_one_printable_line(void **state)
{
	struct script x;
	char line[64];
	AUTO(program_result) *result =
		run(shell(&x, "printf 'first\\nfatal: no \\033[31m\"such\" host\\n\\n  \\n'"));

	(void)state;
	assert_string_equal(program_result_line(result, line, sizeof(line)),
			    "fatal: no \\x1b[31m\\x22such\\x22 host");
}

static void program_find_looks_in_its_directories_only(void **state)
{
	char path[PATH_MAX], tiny[8];

	(void)state;
	assert_int_equal(program_find("sh", path, sizeof(path)), 0);
	assert_int_equal(access(path, X_OK), 0);
	assert_int_equal(program_find("no-such-program-here", path, sizeof(path)), -ENOENT);
	assert_int_equal(program_find("sh", tiny, sizeof(tiny)), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_run_keeps_both_outputs_in_order),
		cmocka_unit_test(program_run_tells_how_it_ended),
		cmocka_unit_test(program_run_what_cannot_be_started_is_an_error),
		cmocka_unit_test(program_run_arguments_are_no_shell_text),
		cmocka_unit_test(program_run_score_is_not_inherited),
		cmocka_unit_test(program_run_environment_is_the_given_one),
		cmocka_unit_test(program_run_inherits_no_descriptor),
		cmocka_unit_test(program_run_signals_are_at_their_defaults),
		cmocka_unit_test(program_run_begins_in_its_directory),
		cmocka_unit_test(program_run_output_is_bounded),
		cmocka_unit_test(program_run_file_size_is_bounded),
		cmocka_unit_test(program_run_time_limit_kills_the_group),
		cmocka_unit_test(program_run_what_holds_the_pipe_open_is_not_waited_for),
		cmocka_unit_test(program_run_watch_ends_it),
		cmocka_unit_test(program_run_as_another_user),
		cmocka_unit_test(program_run_own_pids_leave_nobody),
		cmocka_unit_test(program_run_own_mounts_leave_one_place_to_write),
		cmocka_unit_test(program_result_line_is_one_printable_line),
		cmocka_unit_test(program_find_looks_in_its_directories_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
