// SPDX-License-Identifier: Apache-2.0
#include "mountd/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/daemon.h"
#include "mountd/request.h"

#define TICK_MS 5000

struct server {
	struct manager *m;
	pthread_mutex_t lock;
	pthread_cond_t left;		 /* with lock */
	int clients[SERVER_CLIENTS_MAX]; /* -1: free; guarded by lock */
	size_t count;			 /* guarded by lock */
	uint64_t last_ms;		 /* when the last client left; guarded by lock */
};

struct client {
	struct server *server;
	size_t slot;
	int fd;
};

static void *client_main(void *arg)
{
	struct client *client = arg;
	struct server *server = client->server;

	request_serve(server->m, FRONT_CTL, client->fd);
	pthread_mutex_lock(&server->lock);
	server->clients[client->slot] = -1;
	close(client->fd);
	server->count--;
	server->last_ms = clock_now_ms();
	pthread_cond_broadcast(&server->left);
	pthread_mutex_unlock(&server->lock);
	free(client);
	return NULL;
}

/* A slot for the connection, or -1: there are enough. */
static int slot_take(struct server *server, int fd)
{
	int slot = -1;

	pthread_mutex_lock(&server->lock);
	for (int i = 0; slot < 0 && i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i] < 0)
			slot = i;
	}
	if (slot >= 0) {
		server->clients[slot] = fd;
		server->count++;
	}
	pthread_mutex_unlock(&server->lock);
	return slot;
}

static void slot_give(struct server *server, size_t slot)
{
	pthread_mutex_lock(&server->lock);
	server->clients[slot] = -1;
	server->count--;
	pthread_mutex_unlock(&server->lock);
}

static void serve(struct server *server, int fd)
{
	struct client *client = calloc(1, sizeof(*client));
	int slot = client ? slot_take(server, fd) : -1;
	pthread_t thread;

	if (slot < 0) {
		log_line(LOG_WARNING, "accept", "too many clients, or no memory: one is sent away");
		free(client);
		close(fd);
		return;
	}
	*client = (struct client){ .server = server, .slot = (size_t)slot, .fd = fd };
	if (pthread_create(&thread, NULL, client_main, client) != 0) {
		slot_give(server, (size_t)slot);
		free(client);
		close(fd);
		return;
	}
	pthread_detach(thread);
}

/* Returns whether there was one. */
static bool accept_one(struct server *server, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			log_line(LOG_ERROR, "accept", "%s", strerror(errno));
			poll(NULL, 0, 100); /* else the loop would spin on the same connection */
		}
		return false;
	}
	if (proto_peer_check(fd) < 0) {
		log_line(LOG_WARNING, "accept", "a peer that is not root is sent away");
		close(fd);
		return true;
	}
	serve(server, fd);
	return true;
}

static bool is_idle(struct server *server, uint64_t idle_ms)
{
	bool quiet;

	pthread_mutex_lock(&server->lock);
	quiet = server->count == 0 && clock_now_ms() - server->last_ms >= idle_ms;
	pthread_mutex_unlock(&server->lock);
	return quiet && manager_is_idle(server->m);
}

/* Requests under way end; connections that only wait for the next one are closed. */
static void drain(struct server *server)
{
	manager_stop(server->m);
	pthread_mutex_lock(&server->lock);
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (server->clients[i] >= 0)
			shutdown(server->clients[i], SHUT_RD);
	}
	while (server->count > 0)
		pthread_cond_wait(&server->left, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

static bool handle_signal(struct server *server, int signal_fd)
{
	struct signalfd_siginfo info;

	if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGCHLD) {
		manager_reap(server->m);
		return false;
	}
	log_line(LOG_INFO, "stop", "signal %u", info.ssi_signo);
	return true;
}

static void loop(struct server *server, const struct layout *layout, int listen_fd, int signal_fd,
		 uint64_t idle_ms, bool log_is_ours)
{
	int tick = idle_ms < TICK_MS ? (int)idle_ms / 2 + 1 : TICK_MS;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = listen_fd, .events = POLLIN },
			{ .fd = signal_fd, .events = POLLIN },
		};

		if (poll(fds, ARRAY_SIZE(fds), tick) < 0 && errno != EINTR)
			return;
		if (fds[1].revents && handle_signal(server, signal_fd))
			return;
		if (fds[0].revents && accept_one(server, listen_fd))
			continue;
		if (log_is_ours)
			daemon_log_bound(layout);
		if (idle_ms != UINT64_MAX && is_idle(server, idle_ms)) {
			log_line(LOG_INFO, "stop", "idle");
			return;
		}
	}
}

int server_run(struct manager *m, const struct layout *layout, int listen_fd, uint64_t idle_ms,
	       bool log_is_ours)
{
	AUTO_FREE struct server *server = calloc(1, sizeof(*server));
	AUTO_FD int signal_fd = -1;
	sigset_t signals;

	if (!server)
		return -ENOMEM;
	server->m = m;
	server->last_ms = clock_now_ms();
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		server->clients[i] = -1;
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->left, NULL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGCHLD);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return -errno;
	loop(server, layout, listen_fd, signal_fd, idle_ms, log_is_ours);
	/* First out of sight: who comes now starts the next daemon, and waits for our lock. */
	unlinkat(layout->run_fd, PATH_SOCKET, 0);
	close(listen_fd);
	drain(server);
	pthread_cond_destroy(&server->left);
	pthread_mutex_destroy(&server->lock);
	return 0;
}
