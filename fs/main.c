// SPDX-License-Identifier: Apache-2.0

/* fsgroupfs: the overlay alone. This file is the command line; keeper.c and server.c do the work. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/base/version.h"
#include "fs/keeper.h"
#include "fs/server.h"
#include "fs/session.h"

enum { EXIT_USAGE = 2, OPTIONS_MAX = 128 };

static const char usage_text[] =
	"usage: fsgroupfs [-f] [-o OPTION[,OPTION...]]... SOURCE TARGET\n"
	"  shows the directory SOURCE at TARGET as owned by a group, while the real ownership follows\n"
	"  -f                      stay in the foreground, and log to standard error; else to journald, or to syslogd\n"
	"  -o gid=N                the group (fsGroup)\n"
	"  -o ro                   read-only: nothing is ever written to SOURCE\n"
	"  -o policy=P             Always (default), OnRootMismatch or RootOnly\n"
	"  -o ownership=O          converge (default), virtual (show for ever, write nothing) or none\n"
	"  -o exclude=PATTERN      leave these out, as gitignore(5) writes patterns; may be repeated\n"
	"  -o keep_private         files 0600 and 0400 and directories 0700 keep their mode\n"
	"  -o handoff=yes|no       whether SOURCE itself is put at TARGET when all is done\n"
	"  -o handoff=namespaces   the same, and at the copies of TARGET in other mount namespaces\n"
	"  -o idmap=yes|no         whether the mount may be idmapped, for pods in user namespaces (default no)\n"
	"  -o converge_rate=N      at most N files a second\n"
	"  -o cpu_latency=USEC     while requests come, processors wake within so many microseconds: for speed, at the price of power\n"
	"  -o coherence=shared|exclusive   whether others change SOURCE directly\n"
	"  -o transport=dev|io_uring   how requests come; with io_uring a dead server ends the mount\n"
	"  -o context=LABEL        of SELinux, for all files (default: that of SOURCE); none: that of any FUSE mount\n"
	"  -o paused               begin without converging\n"
	"  -o watchdog=SECONDS     a server that hangs as long is replaced (default 10; 0: never)\n"
	"  -o max_deaths=N         servers that may die in a minute, then none is started (default 5; 0: no limit)\n"
	"  and the mount options rw, [no]suid, [no]dev, [no]exec, [no]atime, [no]diratime, [no]relatime, [no]strictatime\n";

struct command {
	struct overlay_options options;
	char *arguments[OPTIONS_MAX + 1]; /* as given; parsing changes the argument vector */
	size_t argument_count;
	bool foreground;
	const char *server; /* the value of --server, or NULL */
};

static int usage(const char *message)
{
	fprintf(stderr, "fsgroupfs: %s\n%s", message, usage_text);
	return EXIT_USAGE;
}

/* Returns 0, or the exit status. */
static int parse_command(int argc, char **argv, struct command *ret)
{
	static const struct option long_options[] = {
		{ "server", required_argument, NULL, 'S' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char error[OPTIONS_ERROR_MAX];
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "+fho:V", long_options, NULL)) != -1) {
		switch (option) {
		case 'f':
			ret->foreground = true;
			break;
		case 'S':
			ret->server = optarg;
			break;
		case 'o':
			if (ret->argument_count == OPTIONS_MAX)
				return usage("too many -o options");
			ret->arguments[ret->argument_count] = strdup(optarg);
			if (!ret->arguments[ret->argument_count++])
				return EXIT_FAILURE;
			if (options_parse(&ret->options, optarg, error) < 0) {
				fprintf(stderr, "fsgroupfs: %s\n", error);
				return EXIT_USAGE;
			}
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			printf("fsgroupfs %s (libfuse %s)\n", FSGROUPFS_VERSION, session_library());
			exit(EXIT_SUCCESS);
		default:
			return usage("unknown option or missing value");
		}
	}
	if (!ret->server && argc - optind != 2)
		return usage("SOURCE and TARGET are needed");
	return 0;
}

/* --server=DEVICE,SHARED,CHANNEL,LOWER: descriptors from the keeper. */
static int run_server(const struct command *command)
{
	char copy[96], *list = copy;
	int fds[4];

	snprintf(copy, sizeof(copy), "%s", command->server);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		char *word = strsep(&list, ",");
		uint32_t fd;

		if (!word || parse_u32(word, &fd) < 0)
			return usage("--server is the keeper's own");
		fds[i] = (int)fd;
		fcntl(fds[i], F_SETFD, FD_CLOEXEC);
	}
	/* No exit handlers: what they would do, the sandbox has no room for. */
	_exit(server_main(&command->options, &(struct server_fds){ .device = fds[0],
								   .shared = fds[1],
								   .channel = fds[2],
								   .lower = fds[3] }));
}

static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes every descriptor but the standard three and those that the options name. */
static void close_others(const struct overlay_options *o)
{
	int keep[] = { 2, o->lower_fd, o->parent_fd, o->control_fd, o->journal_fd, o->ready_fd };
	int last = 2;

	qsort(keep, ARRAY_SIZE(keep), sizeof(keep[0]), compare_ints);
	for (size_t i = 0; i < ARRAY_SIZE(keep); i++) {
		if (keep[i] <= last)
			continue;
		if (keep[i] > last + 1)
			syscall(SYS_close_range, last + 1, keep[i] - 1, 0);
		fcntl(keep[i], F_SETFD, FD_CLOEXEC);
		last = keep[i];
	}
	syscall(SYS_close_range, last + 1, ~0U, 0);
}

/* Standard descriptors that are not open would become something else's. */
static int fill_standard_descriptors(bool discard)
{
	AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int fd = 0; fd <= 2; fd++) {
		bool is_open = fcntl(fd, F_GETFD) >= 0 && fd != null;

		if ((!is_open || discard) && dup2(null, fd) < 0)
			return -errno;
	}
	if (null <= 2)
		take_fd(&null);
	return 0;
}

/* Waits for the keeper's word; passes an error line on. */
static int wait_until_ready(int fd)
{
	char line[1024];
	ssize_t used = io_read_all(fd, line, sizeof(line) - 1);

	if (used < 0)
		used = 0;
	line[used] = '\0';
	if (strcmp(line, "ok\n") == 0)
		return EXIT_SUCCESS;
	fputs(used > 0 ? line : "fsgroupfs: the keeper died while starting\n", stderr);
	return EXIT_FAILURE;
}

static int run_in_background(struct command *command, const char *source, const char *target)
{
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		fprintf(stderr, "fsgroupfs: start: %m\n");
		return EXIT_FAILURE;
	}
	if (pid > 0) {
		close(ready[1]);
		return wait_until_ready(ready[0]);
	}
	close(ready[0]);
	/* In a session of its own: the terminal's end is not the mount's. */
	setsid();
	fill_standard_descriptors(true);
	log_to_system("fsgroupfs");
	exit(keeper_main(&command->options, source, target, command->arguments, ready[1]));
}

static void free_command(struct command *command)
{
	options_fini(&command->options);
	for (size_t i = 0; i < command->argument_count; i++)
		free(command->arguments[i]);
}

int main(int argc, char **argv)
{
	struct command command = { .foreground = false };
	int status;

	status = fill_standard_descriptors(false);
	if (status < 0) {
		fprintf(stderr, "fsgroupfs: /dev/null: %s\n", strerror(-status));
		return EXIT_FAILURE;
	}
	if (options_init(&command.options) < 0)
		return EXIT_FAILURE;
	status = parse_command(argc, argv, &command);
	if (status == 0) {
		log_setup(LOG_INFO, command.options.volume);
		if (command.server) {
			log_to_system("fsgroupfs");
			status = run_server(&command);
		} else {
			const char *source = argv[optind], *target = argv[optind + 1];

			close_others(&command.options);
			log_to_system("fsgroupfs");
			if (command.options.ready_fd >= 0)
				setsid();
			status = command.foreground ?
					 keeper_main(&command.options, source, target,
						     command.arguments, command.options.ready_fd) :
					 run_in_background(&command, source, target);
		}
	}
	free_command(&command);
	return status;
}
