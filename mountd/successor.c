// SPDX-License-Identifier: Apache-2.0
#include "mountd/successor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/base/version.h"
#include "mountd/path.h"
#include "mountd/proto.h"
#include "mountd/rules.h"
#include "store/store.h"

#define CHECK_MS 15000
#define NAME "fsgroup-mountd"
#define FIRST_FREE_FD 10
#define PASSED_FD 3

/* ---- what --check does ---- */

int successor_say(const char *root)
{
	AUTO(layout) *layout = NULL;
	AUTO_FREE char *store = NULL;
	int r = layout_open(root, false, &layout);

	if (r < 0) {
		fprintf(stderr, NAME ": %s: %s\n", root, strerror(-r));
		return EXIT_FAILED;
	}
	store = path_join(layout->state_path, PATH_STORE);
	r = store ? store_try(store) : -ENOMEM;
	if (r < 0) {
		fprintf(stderr, NAME ": the store: %s %s\n", strerror(-r), store_error_text());
		return EXIT_FAILED;
	}
	printf(NAME " %s schema %d\n", FSGROUPFS_VERSION, STORE_SCHEMA_VERSION);
	return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- asking ---- */

/* In the child, after fork in a threaded process: async-signal-safe calls only. */
static void __attribute__((noreturn))
run_check(int program_fd, char *const *argv, int null_fd, int output_fd)
{
	sigset_t none;
	int error;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(null_fd, STDIN_FILENO) >= 0 && dup2(output_fd, STDOUT_FILENO) >= 0 &&
	    dup2(output_fd, STDERR_FILENO) >= 0)
		execveat(program_fd, "", argv, environ, AT_EMPTY_PATH);
	error = errno;
	_exit(error > 0 && error < 126 ? error : 126);
}

static pid_t start_check(int program_fd, const char *root, int output_fd)
{
	char *const argv[] = { NAME, "--check", "--root", (char *)root, NULL };
	AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t all, saved;
	pid_t pid;
	int r;

	if (null_fd < 0)
		return -errno;
	/* No handler of ours may run in the child before its mask is put right. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pid = fork();
	if (pid == 0)
		run_check(program_fd, argv, null_fd, output_fd);
	r = -errno;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return pid < 0 ? r : pid;
}

/* Its first line; false: it took too long. */
static bool read_answer(int fd, char *ret_line, size_t size)
{
	uint64_t deadline = clock_now_ms() + CHECK_MS, now;
	size_t used = 0;
	ssize_t n = 1;

	while (n != 0 && used < size - 1) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

		now = clock_now_ms();
		if (now >= deadline)
			break;
		if (poll(&poll_fd, 1, (int)(deadline - now)) <= 0)
			continue;
		n = read(fd, ret_line + used, size - 1 - used);
		if (n < 0 && errno != EINTR)
			break;
		used += n > 0 ? (size_t)n : 0;
	}
	ret_line[used] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
	for (char *p = ret_line; *p; p++) {
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
			*p = '?';
	}
	return n == 0 || used == size - 1;
}

/* "fsgroup-mountd VERSION schema N" */
static int parse_answer(char *line, struct successor_says *ret_says)
{
	char *rest = line, *name = strsep(&rest, " "), *version = strsep(&rest, " ");
	char *schema = strsep(&rest, " ");
	uint32_t number;

	if (!version || !schema || !rest || strcmp(name, NAME) != 0 ||
	    strcmp(schema, "schema") != 0 || parse_u32(rest, &number) < 0 ||
	    strlen(version) >= SUCCESSOR_VERSION_SIZE)
		return -EPROTO;
	snprintf(ret_says->version, sizeof(ret_says->version), "%s", version);
	ret_says->schema = (int)number;
	return 0;
}

/* Its end: 0, or why it is no good. */
static int judge(int status, bool in_time, char *line, struct successor_says *ret_says,
		 char *ret_error)
{
	const char *said =
		strncmp(line, NAME ": ", strlen(NAME ": ")) == 0 ? line + strlen(NAME ": ") : line;

	if (!in_time)
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "the new daemon is not ready in time");
	else if (WIFSIGNALED(status))
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "the new daemon dies of signal %d",
			 WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "the new daemon cannot start: %.400s",
			 *said ? said : strerror(WEXITSTATUS(status)));
	else if (parse_answer(line, ret_says) < 0)
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "the new daemon is no " NAME);
	else
		return 0;
	return -EPROTO;
}

int successor_check(int program_fd, const char *root, struct successor_says *ret_says,
		    char *ret_error)
{
	AUTO_FD int read_fd = -1;
	AUTO_FD int write_fd = -1;
	char line[SUCCESSOR_ERROR_MAX];
	int pair[2], status = 0;
	bool in_time;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0) {
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "a pipe: %s", strerror(errno));
		return -EMFILE;
	}
	read_fd = pair[0];
	write_fd = pair[1];
	pid = start_check(program_fd, root, write_fd);
	cleanup_fd(&write_fd);
	if (pid < 0) {
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "the new daemon: %s", strerror((int)-pid));
		return (int)pid;
	}
	in_time = read_answer(read_fd, line, sizeof(line));
	if (!in_time)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return judge(status, in_time, line, ret_says, ret_error);
}

/* ---- taking the place ---- */

int successor_parse(const char *text, struct successor_inherits *ret_inherits)
{
	*ret_inherits =
		(struct successor_inherits){ strchr(text, 'l') != NULL, strchr(text, 's') != NULL };
	return text[strspn(text, "-ls")] == '\0' ? 0 : -EINVAL;
}

/* This process's arguments, without an earlier --follow, and with @follow. NULL: no memory. */
static char **arguments(char *const *argv, const char *follow)
{
	size_t count = 0, used = 0;
	char **list;

	while (argv[count])
		count++;
	list = calloc(count + 2, sizeof(*list));
	for (size_t i = 0; list && i < count; i++) {
		if (strncmp(argv[i], "--follow=", strlen("--follow=")) != 0)
			list[used++] = argv[i];
	}
	if (list)
		list[used] = (char *)follow;
	return list;
}

int successor_exec(int program_fd, char *const *argv, const struct daemon_socket *socket,
		   bool log_is_ours, const struct service *service)
{
	AUTO_FD int program = fcntl(program_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	AUTO_FD int listening = fcntl(socket->fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	AUTO_FREE char **list = NULL;
	char follow[32];

	snprintf(follow, sizeof(follow), "--follow=-%s%s", log_is_ours ? "l" : "",
		 socket->is_passed ? "" : "s");
	list = arguments(argv, follow);
	if (program < 0 || listening < 0 || !list || service_pass_on(service) < 0)
		return -ENOMEM;
	if (dup2(listening, PASSED_FD) < 0)
		return -errno;
	execveat(program, "", list, environ, AT_EMPTY_PATH);
	return -errno;
}
