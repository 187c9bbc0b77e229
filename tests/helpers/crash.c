// SPDX-License-Identifier: Apache-2.0

/*
 * crash: ends an overlay, or its file system, at a chosen change of the lower tree.
 *
 *     crash kill|power|run SERVER KEEPER DIR AT SYNC_AT COMMAND [ARGUMENT...]
 *
 * Runs COMMAND, which makes the overlay work, and counts the system calls of the process SERVER (ptrace(2)) that
 * change the tree. Before the change number AT happens both processes are killed; "power" also shuts down
 * the file system of DIR, without writing its log, so that what was not synchronised is lost. Before
 * number SYNC_AT, which may be 0, it is synchronised. "run" kills nobody: the server waits at that change while
 * the shell runs $CRASH_HOOK.
 *
 * Waits for COMMAND. Status 0: crashed, and prints what the call was; 3: COMMAND ended (status 0) before number
 * AT, and prints how many there were; 1: anything else.
 */

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

#define SHUTDOWN _IOR('X', 125, uint32_t) /* FS_IOC_SHUTDOWN */

enum { SHUTDOWN_NO_LOG_FLUSH = 2, EXIT_NOT_REACHED = 3 };

static const struct {
	uint64_t number;
	const char *name;
} changes[] = {
	{ SYS_fchownat, "fchownat" },
	{ 452, "fchmodat2" },
	{ SYS_chmod, "chmod" },
	{ SYS_fchmodat, "fchmodat" },
	{ SYS_setxattr, "setxattr" },
	{ SYS_removexattr, "removexattr" },
	{ SYS_mkdirat, "mkdirat" },
	{ SYS_mknodat, "mknodat" },
	{ SYS_symlinkat, "symlinkat" },
	{ SYS_linkat, "linkat" },
	{ SYS_unlinkat, "unlinkat" },
	{ SYS_renameat2, "renameat2" },
	{ SYS_utimensat, "utimensat" },
	{ SYS_truncate, "truncate" },
	{ SYS_openat, "openat (creating)" },
};

struct plan {
	const char *how;
	pid_t server, keeper;
	int dir;
	uint64_t at, sync_at, count;
	const char *reached; /* the call at which it crashed, or NULL */
};

static void die(const char *what)
{
	fprintf(stderr, "crash: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

static void seize_threads(pid_t pid)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		die(path);
	while ((entry = readdir(tasks))) {
		uint32_t tid;

		if (parse_u32(entry->d_name, &tid) < 0)
			continue;
		if (ptrace(PTRACE_SEIZE, (pid_t)tid, NULL, options) < 0)
			die("seize");
		/* It is somewhere in a system call: only a stop makes it report the next one. */
		if (ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL) < 0)
			die("interrupt");
	}
	closedir(tasks);
}

static const char *change_name(const struct __ptrace_syscall_info *info)
{
	if (info->op != PTRACE_SYSCALL_INFO_ENTRY ||
	    (info->entry.nr == SYS_openat && !(info->entry.args[2] & O_CREAT)))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		if (changes[i].number == info->entry.nr)
			return changes[i].name;
	}
	return NULL;
}

/* A thread is about to make a system call, or has made one. */
static void look_at_call(struct plan *plan, pid_t tid)
{
	const uint32_t how = SHUTDOWN_NO_LOG_FLUSH;
	struct __ptrace_syscall_info info;
	const char *name;

	if (plan->reached || ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0)
		return;
	name = change_name(&info);
	if (!name)
		return;
	plan->count++;
	if (plan->count == plan->sync_at && syncfs(plan->dir) < 0)
		die("syncfs");
	if (plan->count != plan->at)
		return;
	plan->reached = name;
	if (strcmp(plan->how, "run") == 0) {
		if (system(getenv("CRASH_HOOK")) != 0)
			die("CRASH_HOOK");
		return;
	}
	if (strcmp(plan->how, "power") == 0 && ioctl(plan->dir, SHUTDOWN, &how) < 0)
		die("shutdown");
	if (kill(plan->server, SIGKILL) < 0 || kill(plan->keeper, SIGKILL) < 0)
		die("kill");
}

/* Until the command has ended. Returns its wait status. */
static int trace(struct plan *plan, pid_t command)
{
	for (;;) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0)
			die("wait");
		if (tid == command && (WIFEXITED(status) || WIFSIGNALED(status)))
			return status;
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			look_at_call(plan, tid);
		/* A signal is passed on; a stop of ptrace's own has an event, or is a call's. */
		ptrace(PTRACE_SYSCALL, tid, NULL,
		       status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ?
			       0L :
			       (long)WSTOPSIG(status));
	}
}

static uint32_t number(const char *text)
{
	uint32_t value;

	if (parse_u32(text, &value) < 0) {
		fprintf(stderr, "crash: not a number: %s\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	struct plan plan = { .dir = -1 };
	pid_t command;
	int status;

	if (argc < 8) {
		fprintf(stderr,
			"usage: crash kill|power|run SERVER KEEPER DIR AT SYNC_AT COMMAND...\n");
		return 2;
	}
	plan.how = argv[1];
	plan.server = (pid_t)number(argv[2]);
	plan.keeper = (pid_t)number(argv[3]);
	plan.dir = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (plan.dir < 0)
		die(argv[4]);
	plan.at = number(argv[5]);
	plan.sync_at = number(argv[6]);
	seize_threads(plan.server);
	command = fork();
	if (command == 0) {
		execvp(argv[7], argv + 7);
		_exit(127);
	}
	status = trace(&plan, command);
	if (plan.reached) {
		printf("%s\n", plan.reached);
		return EXIT_SUCCESS;
	}
	printf("%llu\n", (unsigned long long)plan.count);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_NOT_REACHED : EXIT_FAILURE;
}
