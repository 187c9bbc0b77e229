// SPDX-License-Identifier: Apache-2.0
/*
 * keeper_upgrade: another program takes over from the server that serves, and nobody waits for longer than it
 * takes the two to change places.
 *
 * The new server is started and prepared beside the old one; what it cannot do (another layout of the shared
 * memory, another answer to INIT, no program at all) it says then, and nothing has happened. Then the old one
 * finishes what it has read and stops reading; requests wait in the kernel; the new one begins. From that
 * moment on a failure is a server's death like any other, and the old program follows it: also while the new
 * one is on trial.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/channel.h"
#include "fs/keeper_private.h"

enum {
	PREPARE_MS = 10 * 1000, /* users wait for nothing meanwhile */
	DRAIN_MS = 1500,	/* nor here, but for 50 ms at a time, 14 times: server.c */
	BEGIN_MS = 3 * 1000,	/* here they wait */
	LEAVE_MS = 5 * 1000,
	TRIAL_MS = 20 * 1000,
};

static void finish(struct keeper *k, int error, const char *text)
{
	struct upgrade *u = &k->upgrade;

	if (error < 0)
		log_line(LOG_ERROR, "upgrade", "%s", text);
	control_answer(&k->control, u->client, error, text);
	cleanup_fd(&u->program_fd);
	u->phase = UPGRADE_NONE;
	u->client = 0;
	u->deadline_ms = 0;
	k->notify_due = true;
	k->notify_at_ms = 0;
}

/* One that has just died hears nothing, which its pidfd tells. */
static void tell_drain(struct keeper *k, enum channel_kind kind, uint32_t number)
{
	if (k->server.channel_fd >= 0)
		(void)channel_send_drain(k->server.channel_fd, kind, number, 0);
}

/* The new server is given up; the old one serves, or goes on. */
static void __attribute__((format(printf, 3, 4)))
abandon(struct keeper *k, int error, const char *format, ...)
{
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	child_end(&k->upgrade.successor);
	if (k->upgrade.phase == UPGRADE_DRAINING) {
		tell_drain(k, CHANNEL_GO_ON, k->upgrade.drain_number);
		watchdog_reset(&k->watchdog, keeper_now_ms());
	}
	finish(k, error, text);
}

/* Nobody but root can have made or can change what we are about to run. */
static int check_program(int fd, char ret_error[256])
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		snprintf(ret_error, 256, "the new server is no program");
	else if (st.st_uid != 0)
		snprintf(ret_error, 256, "the new server belongs to user %u, not to root",
			 (unsigned)st.st_uid);
	else if (st.st_mode & 022)
		snprintf(ret_error, 256, "the new server can be written by others than root");
	else
		return 0;
	return -EPERM;
}

static int check_state(const struct keeper *k, char ret_error[256])
{
	uint32_t failover = atomic_load(&k->shared.header->failover);

	if (k->upgrade.phase != UPGRADE_NONE) {
		snprintf(ret_error, 256, "another upgrade is under way");
		return -EALREADY;
	}
	if (failover != FAILOVER_READY) {
		snprintf(ret_error, 256, "no server can follow this one: %s",
			 failover == FAILOVER_NO_HANDLE ? "file handles cannot be opened here" :
			 failover == FAILOVER_NO_RING	? "transport=io_uring" :
							  "the kernel is too old");
		return -EOPNOTSUPP;
	}
	return 0;
}

int keeper_upgrade_begin(struct keeper *k, int program_fd, uint64_t client, char ret_error[256])
{
	AUTO_FD int program = program_fd;
	struct upgrade *u = &k->upgrade;
	int r = check_state(k, ret_error);

	if (r == 0)
		r = check_program(program, ret_error);
	if (r < 0)
		return r;
	r = mounting_clone(k->spare_tree_fd, k->attributes, &k->server_tree_fd);
	if (r == 0)
		r = keeper_start_server(k, program, &u->successor);
	cleanup_fd(&k->server_tree_fd);
	if (r < 0) {
		snprintf(ret_error, 256, "the new server cannot be started: %s", strerror(-r));
		return r;
	}
	keeper_limit_waiting(u->successor.channel_fd, 0);
	u->phase = UPGRADE_STARTING;
	u->program_fd = take_fd(&program);
	u->client = client;
	u->deadline_ms = keeper_now_ms() + PREPARE_MS;
	return 0;
}

/* Waits for the new server's word that it serves. 0, or it does not. */
static int await_ready(struct keeper *k)
{
	struct channel_message message;
	int r;

	keeper_limit_waiting(k->server.channel_fd, BEGIN_MS);
	do
		r = keeper_receive(k, &message);
	while (r > 0 && (message.kind == CHANNEL_CHANGED || message.kind == CHANNEL_PIN));
	keeper_limit_waiting(k->server.channel_fd, 0);
	if (r > 0 && message.kind == CHANNEL_FAILED)
		log_line(LOG_ERROR, "upgrade", "%s: %s", message.text, strerror(message.error));
	return r > 0 && message.kind == CHANNEL_READY ? 0 : -EIO;
}

/* The program that served before does so again: a death that is not counted, for it was not its own. */
static void fall_back(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;

	cleanup_fd(&k->program_fd);
	k->program_fd = take_fd(&u->program_before_fd);
	u->trial_ends_ms = 0;
	log_line(LOG_ERROR, "upgrade", "the new server has died: the program before serves again");
	keeper_replace_server(k);
}

/* The successor serves from now on. Whoever served before is dead, or has stopped. */
static void take_over(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;
	char text[320];
	int r;

	k->server = u->successor;
	u->successor = CHILD_NONE;
	cleanup_fd(&u->program_before_fd);
	u->program_before_fd = k->program_fd;
	k->program_fd = take_fd(&u->program_fd);
	u->trial_ends_ms = keeper_now_ms() + TRIAL_MS;
	atomic_fetch_add(&k->shared.header->upgrades, 1);
	r = keeper_send_start(k, k->server.channel_fd);
	if (r == 0)
		r = await_ready(k);
	if (r < 0) {
		child_end(&k->server);
		fall_back(k);
		finish(k, -EIO, "the new server failed when it took over; the old program serves");
		return;
	}
	watchdog_reset(&k->watchdog, keeper_now_ms());
	log_line(LOG_INFO, "upgrade", "from %s to %s", k->server_version, u->version);
	snprintf(text, sizeof(text), "%s", u->version);
	memcpy(k->server_version, u->version, sizeof(k->server_version));
	finish(k, 0, text);
}

/* The new server is prepared. */
static void drain(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;

	if (k->failover.is_refusing) {
		/* It is perhaps just this program that brings it back. */
		child_end(&k->server);
		failover_reset(&k->failover);
		take_over(k);
		return;
	}
	u->phase = UPGRADE_DRAINING;
	u->deadline_ms = keeper_now_ms() + DRAIN_MS;
	tell_drain(k, CHANNEL_DRAIN, ++u->drain_number);
}

void keeper_upgrade_drained(struct keeper *k, uint32_t number, int error)
{
	struct upgrade *u = &k->upgrade;

	/*
	 * Its answer to a question that is void: it has been told to go on. Taken for an answer to the question that was asked
	 * since, there would be two that serve.
	 */
	if (u->phase != UPGRADE_DRAINING || number != u->drain_number)
		return;
	if (error != 0) {
		abandon(k, -EBUSY, "a request takes too long; ask again later");
		return;
	}
	/* First: there are never two. */
	keeper_tell(k, CHANNEL_LEAVE, NULL);
	child_end(&u->leaving);
	u->leaving = k->server;
	u->kill_leaving_ms = keeper_now_ms() + LEAVE_MS;
	take_over(k);
}

bool keeper_upgrade_death(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;

	if (u->phase == UPGRADE_DRAINING) {
		/* The one that is prepared is as good as any. */
		take_over(k);
		return true;
	}
	if (u->trial_ends_ms == 0)
		return false;
	fall_back(k);
	return true;
}

static void hear_successor(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;
	struct channel_message message;
	int r = channel_receive(u->successor.channel_fd, &message);

	if (r <= 0)
		abandon(k, -EIO, "the new server died while it was starting");
	else if (message.kind == CHANNEL_FAILED)
		abandon(k, -message.error, "the new server: %.200s: %s", message.text,
			strerror(message.error));
	else if (message.kind != CHANNEL_PREPARED || u->phase != UPGRADE_STARTING)
		abandon(k, -EPROTO, "the new server speaks another language");
	else {
		keeper_note_version(u->version, message.text);
		drain(k);
	}
}

void keeper_upgrade_poll(const struct keeper *k, struct pollfd *ret_fds)
{
	const struct upgrade *u = &k->upgrade;

	ret_fds[UPGRADE_POLL_SUCCESSOR] =
		(struct pollfd){ .fd = u->successor.channel_fd, .events = POLLIN };
	ret_fds[UPGRADE_POLL_LEAVING] = (struct pollfd){ .fd = u->leaving.pidfd, .events = POLLIN };
}

void keeper_upgrade_handle(struct keeper *k, const struct pollfd *fds)
{
	struct upgrade *u = &k->upgrade;
	int status;

	/* A death that was handled just now may have used the successor. */
	if (fds[UPGRADE_POLL_SUCCESSOR].revents &&
	    fds[UPGRADE_POLL_SUCCESSOR].fd == u->successor.channel_fd)
		hear_successor(k);
	if (fds[UPGRADE_POLL_LEAVING].revents && fds[UPGRADE_POLL_LEAVING].fd == u->leaving.pidfd)
		child_reap(&u->leaving, &status);
}

void keeper_upgrade_time(struct keeper *k, int64_t now)
{
	struct upgrade *u = &k->upgrade;

	if (u->phase == UPGRADE_STARTING && now >= u->deadline_ms)
		abandon(k, -ETIMEDOUT, "the new server is not ready in time");
	else if (u->phase == UPGRADE_DRAINING && now >= u->deadline_ms)
		abandon(k, -EBUSY, "the server does not give way in time; ask again later");
	if (u->leaving.pid > 0 && now >= u->kill_leaving_ms) {
		log_line(LOG_WARNING, "upgrade", "the old server does not leave: killing it");
		kill(u->leaving.pid, SIGKILL);
		u->kill_leaving_ms = now + LEAVE_MS;
	}
	if (u->trial_ends_ms > 0 && now >= u->trial_ends_ms) {
		u->trial_ends_ms = 0;
		cleanup_fd(&u->program_before_fd);
	}
}

int64_t keeper_upgrade_due_ms(const struct keeper *k)
{
	const struct upgrade *u = &k->upgrade;
	int64_t due = u->phase == UPGRADE_NONE ? 0 : u->deadline_ms;

	if (u->leaving.pid > 0 && (due == 0 || u->kill_leaving_ms < due))
		due = u->kill_leaving_ms;
	if (u->trial_ends_ms > 0 && (due == 0 || u->trial_ends_ms < due))
		due = u->trial_ends_ms;
	return due;
}

void keeper_upgrade_fini(struct keeper *k)
{
	struct upgrade *u = &k->upgrade;

	child_end(&u->successor);
	child_end(&u->leaving);
	cleanup_fd(&u->program_fd);
	cleanup_fd(&u->program_before_fd);
}
