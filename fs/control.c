// SPDX-License-Identifier: Apache-2.0
#include "fs/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "fs/base/log.h"
#include "fs/base/packet.h"
#include "fs/base/parse.h"
#include "fs/base/version.h"

enum { CONTROL_BACKLOG = 128 };

void control_init(struct control *c, int listen_fd, struct shared *shared,
		  const struct control_actions *actions)
{
	memset(c, 0, sizeof(*c));
	c->listen_fd = listen_fd;
	c->shared = shared;
	c->actions = *actions;
	/* Once more, by us: so that SO_PEERCRED tells whoever connects which process is to answer. */
	if (listen_fd >= 0 && listen(listen_fd, CONTROL_BACKLOG) < 0)
		log_line(LOG_WARNING, "control", "ignoring: listen: %m");
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		c->clients[i].fd = c->clients[i].received_fd = -1;
}

void control_fini(struct control *c)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		cleanup_fd(&c->clients[i].fd);
	cleanup_fd(&c->listen_fd);
}

void control_poll(const struct control *c, struct pollfd *ret_fds)
{
	ret_fds[0] = (struct pollfd){ .fd = c->listen_fd, .events = POLLIN };
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		ret_fds[1 + i] = (struct pollfd){ .fd = c->clients[i].fd, .events = POLLIN };
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = { "presented", "presented", "converging",
					     "converged", "native",    "virtual" };

	return state < ARRAY_SIZE(names) ? names[state] : "presented";
}

static const char *failover_name(uint32_t failover)
{
	static const char *const names[] = { "no: starting",
					     "yes",
					     "no: file handles cannot be opened here",
					     "no: kernel too old (6.9 is needed)",
					     "no: kernel too old (6.15 is needed)",
					     "no: transport=io_uring" };

	return failover < ARRAY_SIZE(names) ? names[failover] : "no";
}

/* The status message: facts of the keeper, progress and texts of the shared memory. */
static void write_status(struct control *c, struct keyval_writer *w, char *text)
{
	const struct shared_header *h = c->shared->header;
	AUTO_FREE struct shared_failure *failures = calloc(SHARED_FAILURES_MAX, sizeof(*failures));
	struct control_facts facts;
	char reason[256], quoted[4 * SHARED_PATH_MAX], requests[STATS_TEXT_MAX];
	size_t count = 0;

	c->actions.facts(c->actions.context, &facts);
	reason[0] = '\0';
	if (failures)
		count = shared_get_texts(c->shared, reason, failures);
	keyval_begin(w, text, "status");
	if (facts.failed)
		snprintf(reason, sizeof(reason), "%s", facts.failed);
	keyval_add(w, "state", "%s",
		   facts.failed	   ? "failed" :
		   facts.is_native ? "native" :
				     state_name(atomic_load(&h->state)));
	if (reason[0])
		keyval_add(w, "reason", "%s", reason);
	keyval_add(w, "run", "%s", facts.run_id);
	keyval_add(w, "epoch", "%.*s", (int)sizeof(h->epoch), h->epoch);
	keyval_add(w, "seen", "%llu", (unsigned long long)atomic_load(&h->seen));
	keyval_add(w, "changed", "%llu", (unsigned long long)atomic_load(&h->changed));
	keyval_add(w, "correct", "%llu", (unsigned long long)atomic_load(&h->correct));
	keyval_add(w, "excluded", "%llu", (unsigned long long)atomic_load(&h->excluded));
	keyval_add(w, "failed", "%llu", (unsigned long long)atomic_load(&h->failed));
	keyval_add(w, "total", "%llu", (unsigned long long)atomic_load(&h->total));
	keyval_add(w, "rate", "%llu", (unsigned long long)atomic_load(&h->rate));
	keyval_add(w, "paused", "%u", atomic_load(&h->paused));
	keyval_add(w, "converge_rate", "%llu", (unsigned long long)atomic_load(&h->converge_rate));
	keyval_add(w, "number", "%llu", (unsigned long long)++c->last_status);
	keyval_add(w, "protocol", "%d", CONTROL_PROTOCOL);
	keyval_add(w, "keeper_pid", "%d", (int)getpid());
	keyval_add(w, "keeper_version", "%s", FSGROUPFS_VERSION);
	keyval_add(w, "server_version", "%s", facts.server_version);
	keyval_add(w, "server_pid", "%d", (int)facts.server_pid);
	keyval_add(w, "restarts", "%u", atomic_load(&h->restarts));
	keyval_add(w, "upgrades", "%u", atomic_load(&h->upgrades));
	keyval_add(w, "failover", "%s", failover_name(atomic_load(&h->failover)));
	keyval_add(w, "data_path", "%s",
		   atomic_load(&h->data_path_cached) ? "cached" : "passthrough");
	keyval_add(w, "transport", "%s", facts.over_ring ? "io_uring" : "dev");
	keyval_add(w, "requests", "%s", stats_format(&h->stats, requests));
	keyval_add(w, "in_turn", "%llu", (unsigned long long)stats_count(&h->stats, STATS_IN_TURN));
	keyval_add(w, "mount_id", "%llu", (unsigned long long)facts.mount_id);
	keyval_add(w, "holders", "%d", facts.is_native);
	keyval_add(w, "stuck", "%d", facts.is_stuck);
	/* As many failures as one packet takes; the counter has them all. */
	keyval_add(w, "failures", "%zu", count);
	for (size_t i = 0; i < count && KEYVAL_MAX - w->len > sizeof(quoted) + 64; i++) {
		char key[32];

		snprintf(key, sizeof(key), "failure.%zu", i);
		keyval_add(w, key, "%d %s", failures[i].error,
			   log_quote(failures[i].path, quoted, sizeof(quoted)));
	}
}

static void drop_client(struct control *c, int i)
{
	cleanup_fd(&c->clients[i].fd);
	c->clients[i].serial = 0;
	c->clients[i].watches = false;
}

static void send_text(struct control *c, int i, const char *text, size_t len)
{
	if (send(c->clients[i].fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		drop_client(c, i);
}

void control_notify(struct control *c)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX);
	struct keyval_writer w;

	if (!text)
		return;
	write_status(c, &w, text);
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (c->clients[i].fd >= 0 && c->clients[i].watches)
			send_text(c, i, w.text, w.len);
	}
}

bool control_has_watchers(const struct control *c)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (c->clients[i].fd >= 0 && c->clients[i].watches)
			return true;
	}
	return false;
}

static void send_answer(struct control *c, int i, int error, const char *message)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX);
	struct keyval_writer w;

	if (!text)
		return;
	keyval_begin(&w, text, error == 0 ? "ok" : "error");
	if (error < 0) {
		keyval_add(&w, "errno", "%d", -error);
		keyval_add(&w, "message", "%s", message ? message : strerror(-error));
	}
	send_text(c, i, w.text, w.len);
}

void control_answer(struct control *c, uint64_t client, int error, const char *text)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (client != 0 && c->clients[i].fd >= 0 && c->clients[i].serial == client)
			send_answer(c, i, error, text);
	}
}

/* Handlers: 0: answer "ok"; 1: has answered, or will; -errno. */

static int handle_watch(struct control *c, int i, const char *message)
{
	(void)message;
	c->clients[i].watches = true;
	return 0;
}

static int set_paused(struct control *c, uint32_t paused)
{
	atomic_store(&c->shared->header->paused, paused);
	return c->actions.controls_changed(c->actions.context);
}

static int handle_pause(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	return set_paused(c, 1);
}

static int handle_resume(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	return set_paused(c, 0);
}

static int handle_rate(struct control *c, int i, const char *message)
{
	char text[32];
	uint64_t rate = 0;

	(void)i;
	if (keyval_get(message, "rate", text, sizeof(text)) < 0 || parse_u64(text, &rate) < 0)
		return -EINVAL;
	atomic_store(&c->shared->header->converge_rate, rate);
	return c->actions.controls_changed(c->actions.context);
}

/* "Now": what holds the walk back goes. */
static int handle_converge(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	atomic_store(&c->shared->header->paused, 0);
	atomic_store(&c->shared->header->unbraked, 1);
	return c->actions.converge(c->actions.context);
}

static int handle_handoff(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	return c->actions.handoff(c->actions.context);
}

static int handle_finished(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	return c->actions.finished(c->actions.context);
}

static int handle_recover(struct control *c, int i, const char *message)
{
	(void)i, (void)message;
	return c->actions.recover(c->actions.context);
}

/* With the program as a descriptor. The answer comes when it serves, or when it is certain that it will not. */
static int handle_upgrade(struct control *c, int i, const char *message)
{
	AUTO_FD int program_fd = take_fd(&c->clients[i].received_fd);
	char why[256] = "";
	int r;

	(void)message;
	if (program_fd < 0)
		return -EBADF;
	r = c->actions.upgrade(c->actions.context, take_fd(&program_fd), c->clients[i].serial, why);
	if (r < 0)
		send_answer(c, i, r, why[0] ? why : NULL);
	return 1;
}

/* With a descriptor, on which the server itself answers: the keeper reads no paths. */
static int handle_explain(struct control *c, int i, const char *message)
{
	(void)message;
	return c->clients[i].received_fd < 0 ?
		       -EINVAL :
		       c->actions.explain(c->actions.context, c->clients[i].received_fd);
}

static int handle_status(struct control *c, int i, const char *message)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX);
	struct keyval_writer w;

	(void)message;
	if (!text)
		return -ENOMEM;
	write_status(c, &w, text);
	send_text(c, i, w.text, w.len);
	return 1;
}

static const struct {
	const char *verb;
	int (*handle)(struct control *c, int client, const char *message);
} requests[] = {
	{ "status", handle_status },   { "watch", handle_watch },
	{ "pause", handle_pause },     { "resume", handle_resume },
	{ "rate", handle_rate },       { "converge", handle_converge },
	{ "handoff", handle_handoff }, { "finished", handle_finished },
	{ "recover", handle_recover }, { "upgrade", handle_upgrade },
	{ "explain", handle_explain },
};

static void answer(struct control *c, int i, const char *message)
{
	bool watched = c->clients[i].watches;
	int r = -ENOSYS;

	for (size_t k = 0; k < ARRAY_SIZE(requests); k++) {
		if (keyval_verb_is(message, requests[k].verb))
			r = requests[k].handle(c, i, message);
	}
	if (r > 0)
		return;
	send_answer(c, i, r, NULL);
	if (c->clients[i].fd >= 0 && c->clients[i].watches && !watched)
		handle_status(c, i, message);
}

static void accept_client(struct control *c)
{
	int fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	for (int i = 0; fd >= 0 && i < CONTROL_CLIENTS_MAX; i++) {
		if (c->clients[i].fd < 0) {
			c->clients[i].fd = fd;
			c->clients[i].serial = ++c->last_serial;
			c->clients[i].watches = false;
			return;
		}
	}
	cleanup_fd(&fd);
}

void control_handle(struct control *c, const struct pollfd *fds)
{
	if (fds[0].revents)
		accept_client(c);
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		char message[1024];
		ssize_t n;

		if (!fds[1 + i].revents || fds[1 + i].fd < 0 || fds[1 + i].fd != c->clients[i].fd)
			continue;
		n = packet_receive(c->clients[i].fd, message, sizeof(message) - 1, MSG_DONTWAIT,
				   &c->clients[i].received_fd);
		if (n <= 0) {
			if (n == 0 || (errno != EAGAIN && errno != EINTR))
				drop_client(c, i);
			continue;
		}
		message[n] = '\0';
		answer(c, i, message);
		cleanup_fd(&c->clients[i].received_fd);
	}
}
