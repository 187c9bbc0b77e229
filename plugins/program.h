/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_PROGRAM_H
#define PLUGINS_PROGRAM_H

/*
 * program: runs one program of somebody else's (git, mkfs, a FlexVolume driver) to its end, bounded in time and
 * output.
 *
 * No shell and no PATH search; the environment is the given one and nothing else; standard input is
 * /dev/null; no other descriptor of ours is inherited; signals are at their defaults; umask 022; no core
 * file; a session and process group of its own. When the time is up the whole group is killed, and also
 * when the thread that called us dies (the program itself then, PR_SET_PDEATHSIG). What escapes: a
 * descendant that has made a session of its own, unless the program runs with own_pids.
 *
 * Knows no plugin. No state, any thread: may fork while other threads run. Blocks for as long as the
 * program runs, timeout_ms and a little at most.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/base/cleanup.h"

/*
 * Where a program with own_mounts finds its working directory. Such a place is in every root, and nothing
 * that is there is needed or hidden: neither a repository nor a home directory is ever below it.
 */
#define PROGRAM_PLACE "/sys"

/* What PATH has, and where program_find() looks. */
#define PROGRAM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct program_request {
	const char *path;	 /* of the executable, absolute */
	const char *const *argv; /* with argv[0], NULL at its end */
	const char *const *envp; /* NULL at its end; NULL: PATH, HOME=/ and LC_ALL=C */
	int cwd_fd;		 /* a directory; -1: "/" */

	bool as_user; /* run as uid and gid without other groups, without any way to gain privileges */
	uid_t uid;    /* with as_user */
	gid_t gid;    /* with as_user */
	bool own_pids; /* a pid namespace of its own, where we may make one: nothing outlives the program */
	/*
	 * A mount namespace of its own (-EPERM where we may not make one): everything is read-only but
	 * cwd_fd's tree, which is at PROGRAM_PLACE. So a user who may not search our directories can work in one.
	 */
	bool own_mounts;
	bool may_leave; /* processes that the program leaves behind live on (a driver's FUSE server) */
	uint64_t timeout_ms; /* 0 is no limit */

	size_t output_max;   /* bytes of output kept; what follows is read and dropped */
	uint64_t file_bytes; /* the largest file that it may write, EFBIG beyond; 0: no limit */
	uint64_t
		data_bytes; /* the most memory that each process may take (RLIMIT_DATA); 0: no limit */

	/*
	 * watch: called every watch_ms while it runs, 0: never; a -errno ends it at once, and is what
	 * program_run() returns.
	 */
	int (*watch)(void *arg);
	void *watch_arg;
	unsigned watch_ms;
};

struct program_result {
	int exit_status; /* 0 to 255; -1: killed by a signal */
	int signal;	 /* which one, or 0 */
	char *output; /* standard output and error in the order of writing; has a NUL at its end; never NULL */
	size_t output_len;
	bool output_cut; /* there was more than output_max */
};

/*
 * program_run: also a program that fails is a result.
 * *ret_result: to be released by program_result_free()
 *
 * Returns 0, -ETIMEDOUT, what watch returned, or why it could not be started: -ENOENT, -EACCES, -ENOEXEC,
 * -EPERM (as_user, own_mounts), -EAGAIN, -ENOMEM.
 */
int program_run(const struct program_request *request, struct program_result **ret_result);

void program_result_free(struct program_result *result);
DEFINE_AUTO(program_result)

/* program_quote: log_quote() for what programs say to people: spaces stay as they are. */
char *program_quote(const char *line, char *ret_text, size_t size);

/*
 * program_result_line: what a program said last, as one line for an error: its last line of output that is
 * not blank, quoted, or else how it ended. Returns @ret_text.
 */
char *program_result_line(const struct program_result *result, char *ret_text, size_t size);

/*
 * program_find: the path of @name in the directories of PROGRAM_PATH.
 * Returns 0, -ENOENT, or -ENAMETOOLONG.
 */
int program_find(const char *name, char *ret_path, size_t size);

#endif
