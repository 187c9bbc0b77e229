// SPDX-License-Identifier: Apache-2.0
#include "mountd/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/clients.h"

#define TICK_MS 5000
#define RECEIVING_TICK_MS 1000
#define ACCEPTS_A_TURN 64

struct server {
	const struct server_options *options;
	struct clients *clients;
	struct daemon_socket socket;
	uint64_t tick_ms, ticked_at_ms;
	uint64_t alive_at_ms; /* when the last sign of life was given */
};

/* ---- what comes in ---- */

static void accept_some(struct server *server)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(server->socket.fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0) {
			clients_add(server->clients, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			log_line(LOG_ERROR, "accept", "%s", strerror(errno));
			poll(NULL, 0, 100); /* else the loop would spin on the same connection */
		}
		return;
	}
}

/* Whoever wants us to end wants no other in our place. */
static void drop_successor(struct manager *m)
{
	AUTO_FD int fd = manager_take_successor(m);

	if (fd >= 0)
		log_line(LOG_INFO, "stop", "no other version takes this one's place");
}

/* Whether the daemon is to end. */
static bool handle_signal(struct server *server, int signal_fd)
{
	struct signalfd_siginfo info;

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGCHLD) {
		manager_reap(server->options->m);
		return false;
	}
	/* The manager's own word; from anybody else it means nothing. */
	if (info.ssi_signo == SIGUSR1)
		return manager_has_successor(server->options->m);
	log_line(LOG_INFO, "stop", "signal %u", info.ssi_signo);
	drop_successor(server->options->m);
	return true;
}

/* ---- what is due ---- */

/* A sign of life is given by this loop, and only while the manager can be asked. */
static void give_sign_of_life(struct server *server, uint64_t now)
{
	uint64_t due = service_watchdog_ms(server->options->service);

	if (due == 0 || now - server->alive_at_ms < due / 3)
		return;
	if (!manager_answers(server->options->m, due / 6)) {
		log_line(LOG_ERROR, "watchdog", "the manager does not answer");
		return;
	}
	service_notify(server->options->service, "WATCHDOG=1");
	server->alive_at_ms = now;
}

/* Now and then. Whether the daemon is to end. */
static bool tick(struct server *server, uint64_t now)
{
	const struct server_options *o = server->options;

	if (now - server->ticked_at_ms < server->tick_ms)
		return false;
	server->ticked_at_ms = now;
	if (o->log_is_ours)
		daemon_log_bound(o->layout);
	if (!daemon_socket_stands(o->layout, &server->socket)) {
		log_line(LOG_WARNING, "stop", "another socket, or none, is at %s/" PATH_SOCKET,
			 o->layout->run_path);
		return true;
	}
	if (o->idle_ms != UINT64_MAX && clients_idle_ms(server->clients) >= o->idle_ms &&
	    manager_is_idle(o->m)) {
		log_line(LOG_INFO, "stop", "idle");
		return true;
	}
	return false;
}

static int timeout_ms(struct server *server)
{
	uint64_t due = service_watchdog_ms(server->options->service), timeout = server->tick_ms;

	if (due > 0 && due / 3 < timeout)
		timeout = due / 3;
	if (timeout > RECEIVING_TICK_MS && clients_receive_some(server->clients))
		timeout = RECEIVING_TICK_MS;
	return (int)timeout + 1;
}

static void loop(struct server *server, int signal_fd)
{
	uint64_t now;

	do {
		struct pollfd fds[] = {
			{ .fd = server->socket.fd, .events = POLLIN },
			{ .fd = signal_fd, .events = POLLIN },
			{ .fd = clients_poll_fd(server->clients), .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), timeout_ms(server)) < 0 && errno != EINTR)
			return;
		if (fds[1].revents && handle_signal(server, signal_fd))
			return;
		if (fds[2].revents)
			clients_serve(server->clients);
		if (fds[0].revents)
			accept_some(server);
		now = clock_now_ms();
		clients_expire(server->clients);
		give_sign_of_life(server, now);
	} while (!tick(server, now));
}

int server_run(const struct server_options *options)
{
	AUTO(clients) *clients = NULL;
	struct server server = {
		.options = options,
		.socket = options->socket,
		.tick_ms = options->idle_ms < TICK_MS ? options->idle_ms / 2 : TICK_MS,
		.ticked_at_ms = clock_now_ms(),
	};
	AUTO_FD int signal_fd = -1;
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGCHLD);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	r = signal_fd < 0 ? -errno : clients_new(options->m, options->status_gid, &clients);
	if (r == 0) {
		server.clients = clients;
		loop(&server, signal_fd);
	}
	if (r == 0 && manager_has_successor(options->m)) {
		service_notify(options->service, "STATUS=making place for another version");
	} else {
		service_notify(options->service, "STOPPING=1\nSTATUS=ending");
		/* First out of sight: who comes now starts the next daemon, and waits for our lock. */
		daemon_socket_close(options->layout, &server.socket);
	}
	manager_stop(options->m);
	if (clients)
		clients_drain(clients);
	return r;
}
