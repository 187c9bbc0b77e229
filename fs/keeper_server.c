// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/process.h"
#include "fs/keeper_private.h"

enum {
	START_LIMIT_MS = 20 * 1000,
	TELL_LIMIT_S = 1,
	END_KILL_MS =
		1000, /* after the end of the connection, a server that is still there is killed */
	END_LOOK_MS = 100,
	LOOK_FOR_END_MS = 10 * 1000, /* where nothing else has the keeper look */
};

int64_t keeper_now_ms(void)
{
	return (int64_t)clock_now_ms();
}

/* ---- the word to whoever started us ---- */

void keeper_report(struct keeper *k, const char *format, ...)
{
	char line[1024];
	va_list args;
	ssize_t n;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	if (k->is_ready) {
		line[len - 1] = '\0';
		log_line(LOG_ERROR, "restart", "%s", line);
		return;
	}
	if (k->ready_fd >= 0) {
		n = write(k->ready_fd, line, (size_t)len);
		cleanup_fd(&k->ready_fd);
	} else {
		n = write(STDERR_FILENO, line, (size_t)len);
	}
	(void)n; /* nobody listens any more */
}

int keeper_fail(struct keeper *k, const char *what, int error)
{
	keeper_report(k, "fsgroupfs: mount %s on %s: %s: %s", k->source, k->target_path, what,
		      strerror(error < 0 ? -error : error));
	return EXIT_FAILURE;
}

int keeper_fail_reason(struct keeper *k, const char *reason)
{
	keeper_report(k, "fsgroupfs: mount %s on %s: %s", k->source, k->target_path, reason);
	return EXIT_FAILURE;
}

int keeper_receive(struct keeper *k, struct channel_message *ret_message)
{
	int pin = -1;
	int r = channel_receive_pin(k->server.channel_fd, ret_message, &pin);

	if (r > 0 && ret_message->kind == CHANNEL_PIN)
		pins_set(&k->pins, ret_message->slot, take_fd(&pin));
	if (r > 0 && ret_message->kind == CHANNEL_STASH &&
	    stash_keep(&k->stash, ret_message->slot, take_fd(&pin)) == 0)
		(void)channel_send_stashed(k->server.channel_fd, ret_message->slot);
	if (r > 0 && ret_message->kind == CHANNEL_PREPARED)
		keeper_note_version(k->server_version, ret_message->text);
	cleanup_fd(&pin);
	return r;
}

void keeper_note_version(char ret_version[VERSION_TEXT_MAX], const char *text)
{
	size_t len = 0;

	for (; text[len] && len < VERSION_TEXT_MAX - 1; len++)
		ret_version[len] = text[len] > ' ' && text[len] < 0x7f ? text[len] : '?';
	ret_version[len] = '\0';
}

int keeper_start_server(struct keeper *k, int program_fd, struct child *ret_child)
{
	const struct child_setup setup = {
		.options = &k->options,
		.arguments = k->arguments,
		.device_fd = k->device_fd,
		.shared_fd = k->shared.fd,
		.tree_fd = k->server_tree_fd,
		.program_fd = program_fd,
	};

	return child_start(&setup, ret_child);
}

int keeper_expect(struct keeper *k, enum channel_kind expected)
{
	struct channel_message message;
	int r;

	do
		r = keeper_receive(k, &message);
	while (r > 0 && (message.kind == CHANNEL_CHANGED || message.kind == CHANNEL_PIN));
	if (r <= 0)
		return keeper_fail_reason(k, "the server died while starting");
	if (message.kind == CHANNEL_FAILED)
		return keeper_fail(k, message.text, message.error);
	return message.kind == expected ?
		       0 :
		       keeper_fail_reason(k, "the server speaks another language");
}

int keeper_tell(struct keeper *k, enum channel_kind kind, const char *text)
{
	int r = k->server.channel_fd < 0 ? 0 : channel_send(k->server.channel_fd, kind, 0, text);

	/* It has just died. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

/* A server that says nothing while it starts hangs: the keeper does not wait with it. */
void keeper_limit_waiting(int fd, int64_t receive_ms)
{
	const struct timeval send = { .tv_sec = TELL_LIMIT_S };
	const struct timeval receive = { .tv_sec = receive_ms / 1000,
					 .tv_usec = receive_ms % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof(send));
}

void keeper_note_ready(struct keeper *k)
{
	_Atomic uint32_t *failover = &k->shared.header->failover;

	if (k->spare_tree_fd < 0 && atomic_load(failover) == FAILOVER_READY)
		atomic_store(failover, FAILOVER_NO_CLONE);
	keeper_limit_waiting(k->server.channel_fd, 0);
	watchdog_init(&k->watchdog, k->options.watchdog_ms, k->device_fd);
	watchdog_reset(&k->watchdog, keeper_now_ms());
}

int keeper_send_start(struct keeper *k, int channel_fd)
{
	int r;

	stash_empty(&k->stash, &k->pins);
	r = pins_send(&k->pins, channel_fd);

	return r < 0 ? r : channel_send(channel_fd, CHANNEL_MOUNTED, 0, NULL);
}

/* Starts another server on what the last one left. 0, or it is not there (said already). */
static int restart_server(struct keeper *k)
{
	int r = mounting_clone(k->spare_tree_fd, k->attributes, &k->server_tree_fd);

	atomic_fetch_add(&k->shared.header->restarts, 1);
	if (r == 0)
		r = keeper_start_server(k, k->program_fd, &k->server);
	if (r < 0) {
		cleanup_fd(&k->server_tree_fd);
		return keeper_fail(k, "server", r);
	}
	keeper_limit_waiting(k->server.channel_fd, START_LIMIT_MS);
	r = keeper_expect(k, CHANNEL_PREPARED);
	cleanup_fd(&k->server_tree_fd);
	if (r == 0)
		r = keeper_send_start(k, k->server.channel_fd);
	if (r == 0)
		r = keeper_expect(k, CHANNEL_READY);
	keeper_limit_waiting(k->server.channel_fd, 0);
	if (r == 0)
		watchdog_reset(&k->watchdog, keeper_now_ms());
	return r;
}

/* Nothing stays alive to serve: so that nobody hangs, everything is answered EIO. */
static void refuse(struct keeper *k)
{
	int r = child_refuse(k->device_fd, &k->shared, &k->server);

	k->failover.is_refusing = true;
	log_line(LOG_ERROR, "serve", "the server keeps dying: requests are answered EIO");
	if (r < 0)
		log_line(LOG_ERROR, "serve", "nor can they be: %s", strerror(-r));
}

void keeper_replace_server(struct keeper *k)
{
	bool may_start = true;

	while (may_start && restart_server(k) != 0) {
		child_end(&k->server);
		may_start = failover_count_death(&k->failover, keeper_now_ms());
	}
	if (!may_start)
		refuse(k);
}

static void log_death(int status)
{
	if (WIFSIGNALED(status))
		log_line(LOG_ERROR, "serve", "the server died of signal %d", WTERMSIG(status));
	else
		log_line(LOG_ERROR, "serve", "the server exited with %d", WEXITSTATUS(status));
}

bool keeper_handle_death(struct keeper *k, int *ret_status)
{
	uint32_t failover = atomic_load(&k->shared.header->failover);
	int status = 0;

	if (child_reap(&k->server, &status) < 0)
		return false;
	*ret_status = EXIT_SUCCESS;
	if (keeper_look_for_end(k, keeper_now_ms()) ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return true;
	log_death(status);
	*ret_status = EXIT_FAILURE;
	if (failover != FAILOVER_READY)
		return true;
	if (keeper_upgrade_death(k))
		;
	else if (failover_count_death(&k->failover, keeper_now_ms()))
		keeper_replace_server(k);
	else
		refuse(k);
	keeper_notify_now(k);
	return false;
}

void keeper_notify_now(struct keeper *k)
{
	k->notify_due = true;
	k->notify_at_ms = 0;
}

void keeper_watch(struct keeper *k, int64_t now)
{
	struct failover *f = &k->failover;

	/* One that gives way does not answer, and has a time-limit of its own. */
	if (f->is_refusing || k->server.pid == 0 || k->upgrade.phase == UPGRADE_DRAINING)
		return;
	if (f->killed_ms > 0) {
		if (f->is_stuck || now - f->killed_ms < FAILOVER_ENDING_MS)
			return;
		f->is_stuck = true;
		log_line(LOG_ERROR, "serve", "%s", failover_reason(f));
		keeper_notify_now(k);
	} else if (atomic_load(&k->shared.header->failover) == FAILOVER_READY &&
		   watchdog_barks(&k->watchdog, &k->shared, k->server.pid, now)) {
		log_line(LOG_ERROR, "serve", "the server hangs: killing it");
		kill(k->server.pid, SIGKILL);
		f->killed_ms = now;
	} else if (watchdog_waits(&k->watchdog, now) && process_is_killed(k->server.pid)) {
		/* By somebody else; and its file system does not let it go. */
		f->killed_ms = now;
	}
}

/*
 * Looked for, not waited for: the kernel wakes whoever polls the device with every request (fuse_dev_wake_and_unlock(),
 * Linux 6.18), which more than doubled the time of a request where keeper and caller shared a processor. A server that
 * serves sees the end itself and ends, and that is waited for. One that is stopped does not: the keeper looks whenever it
 * has anything to do, and now and then.
 */
bool keeper_look_for_end(struct keeper *k, int64_t now)
{
	struct pollfd device = { .fd = k->device_fd };

	if (k->ended_ms == 0 && poll(&device, 1, 0) == 1 && device.revents & POLLERR)
		k->ended_ms = now;
	return k->ended_ms > 0;
}

/*
 * The kernel has ended the connection: nobody can ask for anything any more. A server that sees it ends at once; one
 * that is stopped never does, nor one that waits for its file system.
 */
void keeper_watch_end(struct keeper *k, int64_t now)
{
	struct failover *f = &k->failover;

	if (k->ended_ms == 0 || k->server.pid == 0)
		return;
	if (f->killed_ms > 0) {
		if (!f->is_stuck && now - k->ended_ms >= END_KILL_MS + END_LOOK_MS) {
			f->is_stuck = true;
			keeper_notify_now(k);
		}
	} else if (now - k->ended_ms >= END_KILL_MS ||
		   process_is_stopped(k->server.pid, k->server.pid)) {
		kill(k->server.pid, SIGKILL);
		f->killed_ms = now;
	}
}

int64_t keeper_watch_end_pause_ms(const struct keeper *k)
{
	return k->ended_ms == 0 || k->failover.is_stuck ? -1 : END_LOOK_MS;
}

int64_t keeper_watch_pause_ms(const struct keeper *k)
{
	int64_t left = k->failover.killed_ms + FAILOVER_ENDING_MS - keeper_now_ms();
	int64_t pause = k->failover.is_refusing ? -1 : watchdog_pause_ms(&k->watchdog);

	if (k->failover.killed_ms > 0 && !k->failover.is_stuck)
		return left > 0 ? left : 0;
	return pause < 0 ? LOOK_FOR_END_MS : pause;
}

int keeper_recover(struct keeper *k)
{
	/* Whoever asks has seen to what they died of. */
	if (!k->failover.is_refusing) {
		k->failover.deaths = 0;
		return 0;
	}
	child_end(&k->server);
	failover_reset(&k->failover);
	keeper_replace_server(k);
	return k->failover.is_refusing ? -EIO : 0;
}
