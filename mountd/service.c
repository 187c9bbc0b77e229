// SPDX-License-Identifier: Apache-2.0
#include "mountd/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "fs/base/parse.h"

#define FIRST_PASSED_FD 3
#define ERROR_BYTES 256
#define SEND_SECONDS 1

struct service {
	char *notify; /* where to say it, or NULL */
	int socket_fd;
	uint64_t watchdog_ms;
};

/* The number in the environment variable @name; false: there is none, or it is no number. */
static bool number_of(const char *name, uint64_t *ret_value)
{
	const char *text = getenv(name);

	return text && parse_u64(text, ret_value) == 0;
}

static bool is_for_us(const char *name)
{
	uint64_t pid;

	return number_of(name, &pid) && pid == (uint64_t)getpid();
}

static bool option_is(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

static int take_passed(struct service *s, char *ret_error)
{
	uint64_t count;

	if (!is_for_us("LISTEN_PID") || !number_of("LISTEN_FDS", &count) || count == 0)
		return 0;
	if (count != 1 || !option_is(FIRST_PASSED_FD, SO_DOMAIN, AF_UNIX) ||
	    !option_is(FIRST_PASSED_FD, SO_TYPE, SOCK_STREAM) ||
	    !option_is(FIRST_PASSED_FD, SO_ACCEPTCONN, 1)) {
		snprintf(ret_error, ERROR_BYTES,
			 "LISTEN_FDS: one listening stream socket of AF_UNIX is expected");
		return -EINVAL;
	}
	if (fcntl(FIRST_PASSED_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(FIRST_PASSED_FD, F_SETFL, O_RDWR | O_NONBLOCK) < 0) {
		snprintf(ret_error, ERROR_BYTES, "LISTEN_FDS: %s", strerror(errno));
		return -EINVAL;
	}
	s->socket_fd = FIRST_PASSED_FD;
	return 0;
}

/* A path, or with '@' a name of Linux' own. Anything else has nobody that we could reach. */
static int connect_notify(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = SEND_SECONDS };
	size_t len = strlen(name);
	AUTO_FD int fd = -1;

	if (len < 2 || len >= sizeof(address.sun_path) || (name[0] != '/' && name[0] != '@'))
		return -1;
	memcpy(address.sun_path, name, len);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -1;
	return take_fd(&fd);
}

static uint64_t watchdog(void)
{
	uint64_t usec;

	if (!number_of("WATCHDOG_USEC", &usec))
		return 0;
	if (getenv("WATCHDOG_PID") && !is_for_us("WATCHDOG_PID"))
		return 0;
	return usec / 1000;
}

int service_open(struct service **ret_service, char *ret_error)
{
	static const char *const names[] = { "LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES",
					     "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID" };
	AUTO(service) *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->socket_fd = -1;
	r = take_passed(s, ret_error);
	if (r < 0)
		return r;
	if (getenv("NOTIFY_SOCKET")) {
		s->notify = strdup(getenv("NOTIFY_SOCKET"));
		if (!s->notify)
			return -ENOMEM;
	}
	s->watchdog_ms = watchdog();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
	*ret_service = take_ptr(&s);
	return 0;
}

void service_free(struct service *s)
{
	if (!s)
		return;
	cleanup_fd(&s->socket_fd);
	free(s->notify);
	free(s);
}

int service_socket(const struct service *s)
{
	return s->socket_fd;
}

int service_take_socket(struct service *s)
{
	return take_fd(&s->socket_fd);
}

bool service_is_managed(const struct service *s)
{
	return s->notify != NULL;
}

uint64_t service_watchdog_ms(const struct service *s)
{
	return s->watchdog_ms;
}

void service_notify(const struct service *s, const char *assignments)
{
	AUTO_FD int fd = s->notify ? connect_notify(s->notify) : -1;
	ssize_t n = fd < 0 ? 0 : send(fd, assignments, strlen(assignments), MSG_NOSIGNAL);

	(void)n; /* whoever does not listen does not want to hear it */
}

static bool set_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return setenv(name, text, 1) == 0;
}

int service_pass_on(const struct service *s)
{
	bool done = set_number("LISTEN_FDS", 1) && set_number("LISTEN_PID", (uint64_t)getpid());

	if (s->notify)
		done = done && setenv("NOTIFY_SOCKET", s->notify, 1) == 0;
	if (s->watchdog_ms > 0)
		done = done && set_number("WATCHDOG_USEC", s->watchdog_ms * 1000);
	return done ? 0 : -ENOMEM;
}
