// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/supervisor.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/process.h"

enum { END_MS = 30000, LOOK_MS = 5, CHILDREN_BYTES = 64 * 1024 };
enum { EXIT_LOST = 255 }; /* the supervisor's, when there is no exit status of the work */

/* The one process that each has begun, and what tells it to end. */
static volatile sig_atomic_t child_pid, child_signal, is_told;

static void on_signal(int number)
{
	(void)number;
	is_told = 1;
	if (child_pid > 0)
		kill(child_pid, child_signal);
}

static void note_child(pid_t pid, int end_signal)
{
	child_signal = end_signal;
	child_pid = pid;
	/* By a signal that came before it was known whom to tell. */
	if (is_told)
		kill(pid, end_signal);
}

/* Orphans that have ended are met on the way. */
static int wait_for_child(pid_t child)
{
	int status = 0;
	pid_t pid;

	do
		pid = waitpid(-1, &status, 0);
	while ((pid < 0 && errno == EINTR) || (pid > 0 && pid != child));
	child_pid = 0;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

static void kill_children(char *text)
{
	char *at = text, *end;

	if (!process_read(getpid(), getpid(), "children", text, CHILDREN_BYTES))
		return;
	for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
		kill((pid_t)pid, SIGKILL);
}

/* Whoever loses his parent becomes our child, which has no event. */
static void end_all_below(void)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000 * 1000 };
	AUTO_FREE char *text = malloc(CHILDREN_BYTES);
	pid_t pid;

	for (int ms = 0; text && ms < END_MS; ms += LOOK_MS) {
		kill_children(text);
		do
			pid = waitpid(-1, NULL, WNOHANG);
		while (pid > 0);
		if (pid < 0 && errno == ECHILD)
			return;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "differential: not all processes can be ended\n");
}

/* In the supervisor: its exit status. */
static int supervise(const struct supervised *s, pid_t driver)
{
	pid_t pid;
	int status;

	setsid(); /* whoever kills the driver's group does not mean us */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 ||
	    (s->has_own_pids && unshare(CLONE_NEWPID) < 0)) {
		fprintf(stderr, "differential: a supervisor: %m\n");
		return EXIT_LOST;
	}
	/* It has ended already, which nothing tells then. */
	if (getppid() != driver)
		return EXIT_LOST;
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(s->work(s->context));
	}
	if (pid < 0)
		return EXIT_LOST;
	note_child(pid, SIGKILL);
	status = wait_for_child(pid);
	end_all_below();
	s->clean_up(s->context);
	return status < 0 ? EXIT_LOST : status;
}

int supervisor_run(const struct supervised *s)
{
	pid_t driver = getpid(), pid;
	int status;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGHUP, on_signal);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		_exit(supervise(s, driver));
	if (pid < 0)
		return -errno;
	note_child(pid, SIGTERM);
	status = wait_for_child(pid);
	end_all_below();
	s->clean_up(s->context);
	return status == EXIT_LOST ? -ECHILD : status;
}
