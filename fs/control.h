/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

/*
 * control: the keeper's socket for whoever supervises it: mountd, and after its death the next one.
 *
 * SOCK_SEQPACKET, one keyval message a packet (fs/base/keyval.h). Requests: status, watch, pause, resume, rate,
 * converge, handoff, finished, recover, upgrade, explain (with a descriptor: fs/explain.h); the keeper's answers are
 * described at their handlers in control.c. A keeper outlives the program that it was started from, so whoever asks
 * may be newer: CONTROL_PROTOCOL is in each status ("protocol"; keepers without it speak 1), requests and fields are
 * only added, and what a keeper does not know it answers with ENOSYS. Each status has a number, higher than that of
 * the one before, for who hears of them on several connections. A client that does not read loses its connection,
 * never the keeper's time. Single-threaded.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/shared.h"

enum {
	CONTROL_CLIENTS_MAX = 16,
	CONTROL_PROTOCOL = 2, /* 2: upgrade */
};

/* What the keeper knows beside the shared memory. */
struct control_facts {
	const char *run_id;
	pid_t server_pid;
	const char *server_version;
	uint64_t mount_id; /* unique id of what is at the target */
	bool is_native;
	bool over_ring;	    /* requests come over io_uring */
	const char *failed; /* why nothing is served, or NULL */
	bool is_stuck;	    /* its server was killed, and does not end */
};

/* What a client may ask of the keeper; each returns 0 or -errno. */
struct control_actions {
	int (*controls_changed)(void *context);
	int (*converge)(void *context);
	int (*handoff)(void *context);
	int (*finished)(void *context);
	int (*recover)(void *context);
	/*
	 * upgrade: servers are to be made from @program_fd (taken over). 0: @client is answered later, by
	 * control_answer(); with an error goes a line of text.
	 */
	int (*upgrade)(void *context, int program_fd, uint64_t client, char ret_error[256]);
	int (*explain)(void *context, int fd); /* @fd: borrowed */
	void (*facts)(void *context, struct control_facts *ret_facts);
	void *context;
};

struct control {
	int listen_fd; /* -1: none */
	struct {
		int fd;		 /* -1: free */
		int received_fd; /* with the request that is being handled, or -1 */
		uint64_t serial; /* never used twice; 0: none */
		bool watches;
	} clients[CONTROL_CLIENTS_MAX];
	uint64_t last_serial;
	uint64_t last_status; /* the number of the last status message */
	struct shared *shared;
	struct control_actions actions;
};

void control_init(struct control *c, int listen_fd, struct shared *shared,
		  const struct control_actions *actions);
void control_fini(struct control *c);

/* control_poll: fills @ret_fds (CONTROL_CLIENTS_MAX + 1 elements; unused ones have fd -1). */
void control_poll(const struct control *c, struct pollfd *ret_fds);

/* control_handle: accepts, reads and answers what poll() found. */
void control_handle(struct control *c, const struct pollfd *fds);

/* control_answer: a request that was answered by nothing yet: 0, or -errno with a line of text (NULL: the error's). */
void control_answer(struct control *c, uint64_t client, int error, const char *text);

/* control_notify: sends the status to all that watch. */
void control_notify(struct control *c);
bool control_has_watchers(const struct control *c);

#endif
