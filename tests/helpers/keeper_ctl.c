// SPDX-License-Identifier: Apache-2.0

/*
 * keeper_ctl: what integration tests need to start an overlay with a control socket, and to talk to it.
 *
 *     keeper_ctl run SOCKET PROGRAM [ARGUMENT...]  execs PROGRAM -o control_fd=N ARGUMENT...
 *     keeper_ctl send SOCKET VERB [KEY=VALUE...]   prints the answer; 1 when it is "error"
 *     keeper_ctl get SOCKET KEY...                 prints the values of a status, one a line
 *     keeper_ctl wait SOCKET KEY=VALUE [VERB]      sends VERB; until a status says so (KEY>=NUMBER and KEY^=PREFIX, too)
 *     keeper_ctl upgrade SOCKET PROGRAM            its servers are to be made from PROGRAM; prints the answer like send
 *     keeper_ctl gone PID...                       until the processes have ended
 *
 * Waiting ends after KEEPER_CTL_TIMEOUT seconds (default 60) with status 3, and with 4 when the keeper
 * is gone first.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/keyval.h"
#include "fs/base/packet.h"
#include "fs/base/parse.h"

enum { EXIT_USAGE = 2, EXIT_TIMEOUT = 3, EXIT_GONE = 4 };

static char message[KEYVAL_MAX + 1];
static int64_t deadline_ms;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void die(const char *what)
{
	fprintf(stderr, "keeper_ctl: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

/* Waits for input until the deadline; the program ends there. */
static void wait_for_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left;

	do {
		left = deadline_ms - now_ms();
		if (left <= 0) {
			fprintf(stderr, "keeper_ctl: timed out; last heard:\n%s", message);
			exit(EXIT_TIMEOUT);
		}
	} while (poll(&p, 1, (int)left) <= 0);
}

/* Through a descriptor of the directory: a socket's path may be longer than the address has room for. */
static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *slash = strrchr(path, '/');
	char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	int dir_fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	if (dir_fd < 0)
		die(path);
	free(dir);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%.80s", dir_fd,
		 slash ? slash + 1 : path);
	return addr;
}

static int run(const char *path, char **argv)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), count = 0;
	char option[32];
	char **args;

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 4) < 0)
		die(path);
	while (argv[count])
		count++;
	args = calloc((size_t)count + 3, sizeof(*args));
	if (!args)
		die("memory");
	snprintf(option, sizeof(option), "control_fd=%d", fd);
	args[0] = argv[0];
	args[1] = (char[]){ "-o" };
	args[2] = option;
	memcpy(args + 3, argv + 1, (size_t)(count - 1) * sizeof(*args));
	execv(args[0], args);
	die(args[0]);
	return EXIT_FAILURE;
}

static int connect_to(const char *path)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT)
			exit(EXIT_GONE);
		die(path);
	}
	return fd;
}

/* The next message; the program ends when the keeper does. */
static void receive(int fd)
{
	ssize_t n;

	wait_for_input(fd);
	n = recv(fd, message, sizeof(message) - 1, 0);
	if (n <= 0)
		exit(EXIT_GONE);
	message[n] = '\0';
}

static void request(int fd, char **words)
{
	size_t len = 0;

	for (int i = 0; words[i]; i++)
		len += (size_t)snprintf(message + len, sizeof(message) - len, "%s\n", words[i]);
	if (send(fd, message, len, MSG_NOSIGNAL) < 0)
		exit(EXIT_GONE);
	receive(fd);
}

static int send_request(const char *path, char **words)
{
	request(connect_to(path), words);
	fputs(message, stdout);
	return keyval_verb_is(message, "error") ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int upgrade(const char *path, const char *program)
{
	static const char verb[] = "upgrade\n";
	int program_fd = open(program, O_PATH | O_CLOEXEC), fd = connect_to(path);

	if (program_fd < 0)
		die(program);
	if (packet_send(fd, verb, strlen(verb), program_fd) < 0)
		exit(EXIT_GONE);
	receive(fd);
	fputs(message, stdout);
	return keyval_verb_is(message, "error") ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int print_values(const char *path, char **keys)
{
	char value[2048];
	int status = EXIT_SUCCESS;

	request(connect_to(path), (char *[]){ (char[]){ "status" }, NULL });
	for (int i = 0; keys[i]; i++) {
		if (keyval_get(message, keys[i], value, sizeof(value)) >= 0)
			puts(value);
		else
			status = EXIT_FAILURE;
	}
	return status;
}

static int is_so(const char *key, const char *wanted, char operator)
{
	char value[2048];
	uint64_t have, need;

	if (keyval_get(message, key, value, sizeof(value)) < 0)
		return 0;
	if (operator== '^')
		return strncmp(value, wanted, strlen(wanted)) == 0;
	if (operator!= '>')
		return strcmp(value, wanted) == 0;
	return parse_u64(value, &have) == 0 && parse_u64(wanted, &need) == 0 && have >= need;
}

static int wait_until(const char *path, char *condition, const char *verb)
{
	char *value = strchr(condition, '='), operator= '=';
	int fd = connect_to(path);

	if (!value || value == condition)
		return EXIT_USAGE;
	if (value[-1] == '>' || value[-1] == '^') {
		operator= value[-1];
		value[-1] = '\0';
	}
	*value++ = '\0';
	request(fd, (char *[]){ (char[]){ "watch" }, NULL });
	if (verb && send(fd, verb, strlen(verb), MSG_NOSIGNAL) < 0)
		return EXIT_GONE;
	while (!is_so(condition, value, operator))
		receive(fd);
	return EXIT_SUCCESS;
}

static int wait_gone(char **pids)
{
	for (int i = 0; pids[i]; i++) {
		uint32_t pid;
		int fd;

		if (parse_u32(pids[i], &pid) < 0)
			return EXIT_USAGE;
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (fd < 0)
			continue;
		wait_for_input(fd);
		close(fd);
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *timeout = getenv("KEEPER_CTL_TIMEOUT");
	uint64_t seconds = 60;

	if (timeout && parse_u64(timeout, &seconds) < 0)
		return EXIT_USAGE;
	deadline_ms = now_ms() + (int64_t)seconds * 1000;
	if (argc >= 3 && strcmp(argv[1], "gone") == 0)
		return wait_gone(argv + 2);
	if (argc < 4)
		return EXIT_USAGE;
	if (strcmp(argv[1], "run") == 0)
		return run(argv[2], argv + 3);
	if (strcmp(argv[1], "send") == 0)
		return send_request(argv[2], argv + 3);
	if (strcmp(argv[1], "upgrade") == 0)
		return upgrade(argv[2], argv[3]);
	if (strcmp(argv[1], "get") == 0)
		return print_values(argv[2], argv + 3);
	if (strcmp(argv[1], "wait") == 0)
		return wait_until(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
	return EXIT_USAGE;
}
