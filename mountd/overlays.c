// SPDX-License-Identifier: Apache-2.0
#include "mountd/overlays.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "fs/base/clock.h"
#include "fs/base/keyval.h"
#include "fs/base/log.h"
#include "mountd/keeper_start.h"
#include "mountd/overlay_control.h"
#include "mountd/target.h"

#define GROUP_PREFIX "fsgroupfs-keeper-"
#define GROUP_ENDED_MS 1000 /* the end of a keeper's processes, before its group goes */

#define EXPLAIN_TRIES 5

struct overlay {
	struct overlays *owner;
	struct overlay *next;	      /* guarded by owner->lock */
	unsigned refs;		      /* guarded by owner->lock */
	struct overlay_status status; /* guarded by owner->lock */
	bool gone;		      /* guarded by owner->lock */
	int watch_fd;		      /* the watcher's */
	char id[VOLUME_ID_MAX + 1];   /* whose socket it was found by */
	pthread_t watcher;

	pthread_mutex_t lock; /* the follower is called under it */
	/* Attached volumes: written under both locks, so either is enough to read. */
	struct attached {
		char *id;
		bool muted; /* guarded by lock */
	} * ids;
	size_t id_count;
	char last_id[VOLUME_ID_MAX + 1];  /* that was detached; guarded by lock */
	char *message;			  /* the last status message; guarded by lock */
	bool finished_due, finished_sent; /* guarded by lock */
};

struct overlays {
	struct control_dir dir; /* its path is ours */
	char *keepers_path;
	char group_prefix[64]; /* of the control groups of this root's keepers */
	struct overlay_follower follower;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* with lock: something is gone, or a watcher has ended */
	struct overlay *list; /* with one reference each while the watcher runs; guarded by lock */
	size_t watchers;      /* guarded by lock */
	pid_t *children;      /* to be reaped; guarded by lock */
	size_t child_count;   /* guarded by lock */
	bool closing;	      /* guarded by lock */
};

int overlays_new(int keepers_fd, const char *keepers_path, const struct overlay_follower *follower,
		 struct overlays **ret_overlays)
{
	struct overlays *overlays = calloc(1, sizeof(*overlays));
	char hash[TARGET_ID_SIZE];

	if (!overlays)
		return -ENOMEM;
	overlays->keepers_path = strdup(keepers_path);
	if (!overlays->keepers_path) {
		free(overlays);
		return -ENOMEM;
	}
	/* The same volume id may be in use under another root directory. */
	target_id(keepers_path, hash);
	snprintf(overlays->group_prefix, sizeof(overlays->group_prefix), GROUP_PREFIX "%.12s-",
		 hash);
	overlays->dir = (struct control_dir){ .fd = keepers_fd, .path = overlays->keepers_path };
	overlays->follower = *follower;
	pthread_mutex_init(&overlays->lock, NULL);
	clock_cond_init(&overlays->changed);
	*ret_overlays = overlays;
	return 0;
}

void overlays_free(struct overlays *overlays)
{
	if (!overlays)
		return;
	pthread_mutex_lock(&overlays->lock);
	overlays->closing = true;
	for (struct overlay *o = overlays->list; o; o = o->next)
		shutdown(o->watch_fd, SHUT_RDWR);
	while (overlays->watchers > 0)
		pthread_cond_wait(&overlays->changed, &overlays->lock);
	pthread_mutex_unlock(&overlays->lock);
	pthread_cond_destroy(&overlays->changed);
	pthread_mutex_destroy(&overlays->lock);
	free(overlays->children);
	free(overlays->keepers_path);
	free(overlays);
}

static void release(struct overlay *o)
{
	for (size_t i = 0; i < o->id_count; i++)
		free(o->ids[i].id);
	free(o->ids);
	free(o->message);
	cleanup_fd(&o->watch_fd);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void overlay_unref(struct overlay *o)
{
	bool last;

	if (!o)
		return;
	pthread_mutex_lock(&o->owner->lock);
	last = --o->refs == 0;
	pthread_mutex_unlock(&o->owner->lock);
	if (last)
		release(o);
}

/* ---- control groups ---- */

static void find_group(const struct overlays *overlays, const char *volume_id,
		       struct control_group *ret_group)
{
	char name[sizeof(overlays->group_prefix) + VOLUME_ID_MAX];

	snprintf(name, sizeof(name), "%s%s", overlays->group_prefix, volume_id);
	control_group_find(name, ret_group);
}

static void await_end(pid_t pid)
{
	AUTO_FD int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	if (fd >= 0)
		(void)poll(&poll_fd, 1, GROUP_ENDED_MS);
}

/* What is not empty by then a reconstruction finds. */
static void remove_group(struct overlay *o, const struct overlay_status *last)
{
	struct control_group group;

	await_end(last->keeper_pid);
	await_end(last->server_pid);
	find_group(o->owner, o->id, &group);
	control_group_remove(&group);
}

void overlays_sweep(struct overlays *overlays)
{
	control_groups_sweep(overlays->group_prefix);
}

/* ---- following ---- */

/* A run that left failures goes on, as far as marks are concerned: "converge" walks again. */
static bool wants_finished(const struct overlay_status *status)
{
	return (status->state == VOLUME_CONVERGED || status->state == VOLUME_NATIVE) &&
	       status->run[0] && status->counters.failed == 0;
}

/* Under o->lock: tells every attached volume of the last message. */
static void follow(struct overlay *o, const struct overlay_status *status)
{
	const struct overlay_follower *f = &o->owner->follower;
	bool finished = true, heard = false;

	for (size_t i = 0; i < o->id_count; i++) {
		if (o->ids[i].muted)
			continue;
		heard = true;
		finished &= f->status(f->arg, o->ids[i].id, status, o->message);
	}
	if (!wants_finished(status))
		o->finished_due = o->finished_sent = false;
	if (heard && finished && wants_finished(status) && !o->finished_sent)
		o->finished_due = true;
}

/* Another version serves, and nobody has asked for one. */
static void note_fall_back(const struct overlay_status *before, struct overlay_status *io_status)
{
	if (before->server_version[0] && io_status->restarts > before->restarts &&
	    io_status->upgrades == before->upgrades &&
	    strcmp(before->server_version, io_status->server_version) != 0)
		snprintf(io_status->fell_back_from, sizeof(io_status->fell_back_from), "%s",
			 before->server_version);
}

/* Whether the keeper has said something since, which came by another connection. Under o->lock. */
static bool is_outdated(struct overlay *o, const struct overlay_status *status)
{
	struct overlay_status last;

	overlay_status_get(o, &last);
	return status->number != 0 && status->number < last.number;
}

/*
 * Takes a status message in. One that has been overtaken on its way is no news: a volume that is native would be taken
 * for one that converges, until its keeper speaks again, which it may never do.
 */
static int take_message(struct overlay *o, const char *text, struct overlay_status *ret_status)
{
	struct overlay_status before, status;
	char *copy;
	int r = overlay_status_parse(text, &status);

	if (r < 0)
		return r;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	if (is_outdated(o, &status)) {
		overlay_status_get(o, &status);
		pthread_mutex_unlock(&o->lock);
		free(copy);
		if (ret_status)
			*ret_status = status;
		return 0;
	}
	free(o->message);
	o->message = copy;
	pthread_mutex_lock(&o->owner->lock);
	before = o->status;
	o->status = status;
	pthread_mutex_unlock(&o->owner->lock);
	note_fall_back(&before, &status);
	follow(o, &status);
	pthread_mutex_unlock(&o->lock);
	if (ret_status)
		*ret_status = status;
	return 0;
}

static void follow_again(struct overlay *o)
{
	struct overlay_status status;

	overlay_status_get(o, &status);
	pthread_mutex_lock(&o->lock);
	if (wants_finished(&status) && !o->finished_sent && !o->finished_due)
		follow(o, &status);
	pthread_mutex_unlock(&o->lock);
}

/* The run is durably on record: marks may go. Tried again while the keeper lives. */
static void send_finished(struct overlay *o)
{
	bool due;

	pthread_mutex_lock(&o->lock);
	due = o->finished_due;
	pthread_mutex_unlock(&o->lock);
	if (!due || overlay_request(o, "finished", NULL, NULL, NULL) < 0)
		return;
	pthread_mutex_lock(&o->lock);
	o->finished_due = false;
	o->finished_sent = true;
	pthread_mutex_unlock(&o->lock);
}

static void unlink_from_list(struct overlay *o)
{
	struct overlay **p = &o->owner->list;

	while (*p && *p != o)
		p = &(*p)->next;
	if (*p)
		*p = o->next;
}

static void watch_end(struct overlay *o)
{
	struct overlays *overlays = o->owner;
	const struct overlay_follower *f = &overlays->follower;
	struct overlay_status status;
	bool closing, had_volumes;

	pthread_mutex_lock(&overlays->lock);
	closing = overlays->closing;
	pthread_mutex_unlock(&overlays->lock);
	if (!closing) {
		overlay_status_get(o, &status);
		pthread_mutex_lock(&o->lock);
		for (size_t i = 0; i < o->id_count; i++) {
			if (!o->ids[i].muted)
				f->gone(f->arg, o->ids[i].id, &status);
		}
		pthread_mutex_lock(&overlays->lock);
		o->gone = true;
		pthread_mutex_unlock(&overlays->lock);
		had_volumes = o->id_count > 0;
		pthread_mutex_unlock(&o->lock);
		if (had_volumes)
			f->left(f->arg);
		f->changed(f->arg);
		remove_group(o, &status);
	}
	pthread_mutex_lock(&overlays->lock);
	unlink_from_list(o);
	pthread_mutex_unlock(&overlays->lock);
	overlay_unref(o);
	pthread_mutex_lock(&overlays->lock);
	overlays->watchers--;
	pthread_cond_broadcast(&overlays->changed);
	pthread_mutex_unlock(&overlays->lock);
}

static void *watch_main(void *arg)
{
	struct overlay *o = arg;
	const struct overlay_follower *f = &o->owner->follower;
	AUTO_FREE char *text = malloc(KEYVAL_MAX + 1);

	while (text) {
		struct pollfd poll_fd = { .fd = o->watch_fd, .events = POLLIN };
		int n = poll(&poll_fd, 1, 1000), r = 0;

		if (n < 0 && errno != EINTR)
			break;
		if (n > 0) {
			r = control_receive(o->watch_fd, text);
			if (r == -EPIPE)
				break;
			if (r == 0)
				r = take_message(o, text, NULL);
			if (r < 0)
				log_line(LOG_WARNING, "watch", "ignoring a message of a keeper: %s",
					 strerror(-r));
		} else {
			/* A store that could not be written to, or a keeper that did not answer. */
			follow_again(o);
		}
		send_finished(o);
		if (n > 0)
			f->changed(f->arg);
	}
	watch_end(o);
	return NULL;
}

/* ---- starting and adopting ---- */

/* An open overlay of the same keeper, with a reference; under the list's lock. */
static struct overlay *find_keeper(struct overlays *overlays, pid_t keeper_pid)
{
	for (struct overlay *o = overlays->list; o; o = o->next) {
		if (!o->gone && o->status.keeper_pid == keeper_pid && keeper_pid > 0) {
			o->refs++;
			return o;
		}
	}
	return NULL;
}

static int watch_start(struct overlay *o)
{
	struct overlays *overlays = o->owner;
	sigset_t all, saved;
	int r;

	pthread_mutex_lock(&overlays->lock);
	o->refs = 2; /* the watcher's and the caller's */
	o->next = overlays->list;
	overlays->list = o;
	overlays->watchers++;
	pthread_mutex_unlock(&overlays->lock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	r = pthread_create(&o->watcher, NULL, watch_main, o);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (r == 0) {
		pthread_detach(o->watcher);
		return 0;
	}
	pthread_mutex_lock(&overlays->lock);
	unlink_from_list(o);
	overlays->watchers--;
	o->refs = 1;
	pthread_mutex_unlock(&overlays->lock);
	return -r;
}

/* Connects, asks to watch, and waits for the first status, which a keeper sends at once. */
static int open_watch(struct overlays *overlays, const char *volume_id, int *ret_fd, char *ret_text,
		      struct overlay_status *ret_status)
{
	AUTO_FD int fd = -1;
	int r = control_connect(&overlays->dir, volume_id, &fd);

	if (r == 0)
		r = control_send(fd, "watch", NULL, NULL);
	while (r == 0) {
		r = control_receive(fd, ret_text);
		if (r == 0)
			r = control_error(ret_text, NULL);
		if (r == 0 && keyval_verb_is(ret_text, "status"))
			break;
	}
	if (r == 0)
		r = overlay_status_parse(ret_text, ret_status);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static void remember_child(struct overlays *overlays, pid_t pid)
{
	pid_t *children;

	pthread_mutex_lock(&overlays->lock);
	children = reallocarray(overlays->children, overlays->child_count + 1, sizeof(*children));
	if (children) { /* without memory it stays a zombie until we end */
		overlays->children = children;
		children[overlays->child_count++] = pid;
	}
	pthread_mutex_unlock(&overlays->lock);
}

int overlay_adopt(struct overlays *overlays, const char *volume_id, struct overlay **ret_overlay)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX + 1);
	struct overlay_status status;
	struct overlay *o;
	AUTO_FD int fd = -1;
	int r;

	if (!text)
		return -ENOMEM;
	r = open_watch(overlays, volume_id, &fd, text, &status);
	if (r < 0)
		return r;
	pthread_mutex_lock(&overlays->lock);
	o = find_keeper(overlays, status.keeper_pid);
	pthread_mutex_unlock(&overlays->lock);
	if (o) {
		*ret_overlay = o;
		return 0;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	pthread_mutex_init(&o->lock, NULL);
	o->owner = overlays;
	snprintf(o->id, sizeof(o->id), "%s", volume_id);
	o->status = status;
	o->message = take_ptr(&text);
	o->watch_fd = take_fd(&fd);
	/* One that was started by the program that was in this process before. */
	if (waitpid(status.keeper_pid, NULL, WNOHANG) == 0)
		remember_child(overlays, status.keeper_pid);
	r = watch_start(o);
	if (r < 0) {
		overlay_unref(o);
		return r;
	}
	*ret_overlay = o;
	return 0;
}

void overlays_reap(struct overlays *overlays)
{
	size_t kept = 0;

	pthread_mutex_lock(&overlays->lock);
	for (size_t i = 0; i < overlays->child_count; i++) {
		if (waitpid(overlays->children[i], NULL, WNOHANG) == 0)
			overlays->children[kept++] = overlays->children[i];
	}
	overlays->child_count = kept;
	pthread_mutex_unlock(&overlays->lock);
}

int overlay_start(struct overlays *overlays, const struct overlay_spec *spec,
		  struct overlay **ret_overlay, char *ret_error)
{
	struct control_group group;
	AUTO_FD int listen_fd = -1;
	pid_t pid = 0;
	int r;

	ret_error[0] = '\0';
	r = control_listen(&overlays->dir, spec->volume_id, &listen_fd);
	if (r < 0) {
		snprintf(ret_error, OVERLAY_ERROR_MAX, "control socket: %s", strerror(-r));
		return r;
	}
	find_group(overlays, spec->volume_id, &group);
	r = keeper_start(spec, &group, listen_fd, &pid, ret_error);
	cleanup_fd(&listen_fd);
	if (r == 0) {
		remember_child(overlays, pid);
		r = overlay_adopt(overlays, spec->volume_id, ret_overlay);
		if (r < 0) {
			snprintf(ret_error, OVERLAY_ERROR_MAX, "the overlay does not answer: %s",
				 strerror(-r));
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
		}
	}
	if (r < 0) {
		overlay_socket_remove(overlays, spec->volume_id);
		control_group_remove(&group);
	}
	return r;
}

int overlay_share(struct overlays *overlays, struct overlay *o, const char *volume_id)
{
	int r = -ENOENT;

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; r < 0 && i < o->id_count; i++)
		r = control_link(&overlays->dir, o->ids[i].id, volume_id);
	pthread_mutex_unlock(&o->lock);
	return r;
}

void overlay_socket_remove(struct overlays *overlays, const char *volume_id)
{
	control_remove(&overlays->dir, volume_id);
}

/* ---- for the manager ---- */

static bool is_attached(struct overlay *o, const char *volume_id)
{
	for (size_t i = 0; i < o->id_count; i++) {
		if (strcmp(o->ids[i].id, volume_id) == 0)
			return true;
	}
	return false;
}

struct overlay *overlay_find(struct overlays *overlays, const char *volume_id)
{
	struct overlay *o;

	pthread_mutex_lock(&overlays->lock);
	for (o = overlays->list; o && !is_attached(o, volume_id); o = o->next)
		;
	if (o)
		o->refs++;
	pthread_mutex_unlock(&overlays->lock);
	return o;
}

/* Under o->lock: tells the follower of one volume how things stand. */
static void tell(struct overlay *o, const char *volume_id)
{
	const struct overlay_follower *f = &o->owner->follower;
	struct overlay_status status;

	overlay_status_get(o, &status);
	if (overlay_is_gone(o))
		f->gone(f->arg, volume_id, &status);
	else
		follow(o, &status);
}

int overlay_attach(struct overlay *o, const char *volume_id, bool muted)
{
	struct attached *ids;
	char *id = strdup(volume_id);
	int r = 0;

	if (!id)
		return -ENOMEM;
	pthread_mutex_lock(&o->lock);
	pthread_mutex_lock(&o->owner->lock);
	ids = reallocarray(o->ids, o->id_count + 1, sizeof(*ids));
	if (ids) {
		o->ids = ids;
		ids[o->id_count++] = (struct attached){ .id = id, .muted = muted };
	}
	pthread_mutex_unlock(&o->owner->lock);
	if (!ids) {
		free(id);
		r = -ENOMEM;
	} else if (!muted) {
		tell(o, volume_id);
	}
	pthread_mutex_unlock(&o->lock);
	/* Now, not when the keeper next speaks: its hand-off waits for that word. */
	send_finished(o);
	return r;
}

size_t overlay_detach(struct overlay *o, const char *volume_id)
{
	size_t left;

	pthread_mutex_lock(&o->lock);
	pthread_mutex_lock(&o->owner->lock);
	for (size_t i = 0; i < o->id_count; i++) {
		if (strcmp(o->ids[i].id, volume_id) != 0)
			continue;
		snprintf(o->last_id, sizeof(o->last_id), "%s", volume_id);
		free(o->ids[i].id);
		o->ids[i] = o->ids[--o->id_count];
		break;
	}
	left = o->id_count;
	pthread_mutex_unlock(&o->owner->lock);
	pthread_mutex_unlock(&o->lock);
	return left;
}

void overlay_mute(struct overlay *o, const char *volume_id, bool muted)
{
	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < o->id_count; i++) {
		if (strcmp(o->ids[i].id, volume_id) != 0)
			continue;
		o->ids[i].muted = muted;
		if (!muted)
			tell(o, volume_id);
	}
	pthread_mutex_unlock(&o->lock);
	send_finished(o);
}

void overlay_status_get(struct overlay *o, struct overlay_status *ret_status)
{
	pthread_mutex_lock(&o->owner->lock);
	*ret_status = o->status;
	pthread_mutex_unlock(&o->owner->lock);
}

pid_t overlay_keeper_pid(struct overlay *o)
{
	struct overlay_status status;

	overlay_status_get(o, &status);
	return status.keeper_pid;
}

bool overlay_is_gone(struct overlay *o)
{
	bool gone;

	pthread_mutex_lock(&o->owner->lock);
	gone = o->gone;
	pthread_mutex_unlock(&o->owner->lock);
	return gone;
}

bool overlay_wait_gone(struct overlay *o, uint64_t timeout_ms)
{
	struct overlays *overlays = o->owner;
	const struct timespec until = clock_until(timeout_ms);
	bool gone;
	int r = 0;

	pthread_mutex_lock(&overlays->lock);
	while (!o->gone && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&overlays->changed, &overlays->lock, &until);
	gone = o->gone;
	pthread_mutex_unlock(&overlays->lock);
	return gone;
}

/*
 * By the name under which the overlay's socket is to be found: that of any volume attached to it, or of the last that
 * was.
 */
static int connect_keeper(struct overlay *o, int *ret_fd)
{
	char id[VOLUME_ID_MAX + 1] = "";
	int r;

	pthread_mutex_lock(&o->lock);
	snprintf(id, sizeof(id), "%s", o->id_count > 0 ? o->ids[0].id : o->last_id);
	pthread_mutex_unlock(&o->lock);
	if (!id[0] || overlay_is_gone(o))
		return -EPIPE;
	r = control_connect(&o->owner->dir, id, ret_fd);
	return r == -ECONNREFUSED || r == -ENOENT ? -EPIPE : r;
}

static int ask(struct overlay *o, const char *verb, const char *key, const char *value,
	       char *ret_text)
{
	AUTO_FD int fd = -1;
	int r = connect_keeper(o, &fd);

	if (r == 0)
		r = control_send(fd, verb, key, value);
	if (r == 0)
		r = control_receive(fd, ret_text);
	return r;
}

int overlay_request(struct overlay *o, const char *verb, const char *key, const char *value,
		    char *ret_error)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX + 1);
	int r;

	if (!text)
		return -ENOMEM;
	if (ret_error)
		ret_error[0] = '\0';
	r = ask(o, verb, key, value, text);
	if (r == 0)
		r = control_error(text, ret_error);
	if (r < 0 && ret_error && !ret_error[0])
		snprintf(ret_error, OVERLAY_ERROR_MAX, "%s",
			 r == -EPIPE	 ? "the overlay has ended" :
			 r == -EHOSTDOWN ? "its keeper is stopped" :
			 r == -ETIMEDOUT ? "its keeper does not answer" :
					   strerror(-r));
	return r;
}

/* One try. -EAGAIN: the server has let the question go. */
static int explain(struct overlay *o, const char *path, uint64_t timeout_ms, char *ret_text)
{
	AUTO_FD int keeper_fd = -1, own_fd = -1, given_fd = -1;
	uint64_t start = clock_now_ms(), spent;
	int pair[2], r = connect_keeper(o, &keeper_fd);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	own_fd = pair[0];
	given_fd = pair[1];
	control_limit(keeper_fd, timeout_ms);
	if (send(own_fd, path, strlen(path), MSG_NOSIGNAL) < 0)
		return -errno;
	r = control_send_fd(keeper_fd, "explain", given_fd);
	cleanup_fd(&given_fd);
	if (r == 0)
		r = control_receive(keeper_fd, ret_text);
	if (r == 0)
		r = control_error(ret_text, NULL);
	spent = clock_now_ms() - start;
	if (r == 0 && spent >= timeout_ms)
		r = -ETIMEDOUT;
	if (r < 0)
		return r;
	control_limit(own_fd, timeout_ms - spent);
	r = control_receive(own_fd, ret_text);
	return r == -EPIPE ? -EAGAIN : r;
}

int overlay_explain(struct overlay *o, const char *path, uint64_t timeout_ms, char *ret_text)
{
	uint64_t start = clock_now_ms(), spent = 0;
	int r = -EAGAIN;

	/* In the middle of a hand-off a question is dropped, not put off. */
	for (int i = 0; r == -EAGAIN && i < EXPLAIN_TRIES && spent < timeout_ms; i++) {
		r = explain(o, path, timeout_ms - spent, ret_text);
		spent = clock_now_ms() - start;
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

/* An answer that is worth @ret_error's line when there is none. */
static int upgrade(struct overlay *o, int program_fd, char *ret_error)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX + 1);
	AUTO_FD int fd = -1;
	int r = text ? connect_keeper(o, &fd) : -ENOMEM;

	if (r < 0)
		return r;
	control_limit(fd, OVERLAY_UPGRADE_MS);
	r = control_send_fd(fd, "upgrade", program_fd);
	if (r == 0)
		r = control_receive(fd, text);
	return r == 0 ? control_error(text, ret_error) : r;
}

int overlay_upgrade(struct overlay *o, int program_fd, char *ret_error)
{
	struct overlay_status status;
	int r = -EOPNOTSUPP;

	ret_error[0] = '\0';
	overlay_status_get(o, &status);
	if (status.protocol < OVERLAY_PROTOCOL_UPGRADE)
		snprintf(ret_error, OVERLAY_ERROR_MAX,
			 "its keeper is of a version without upgrades: unmount and mount it");
	else
		r = upgrade(o, program_fd, ret_error);
	if (r < 0 && !ret_error[0])
		snprintf(ret_error, OVERLAY_ERROR_MAX, "%s",
			 r == -EPIPE ? "the overlay has ended" : strerror(-r));
	return r;
}

int overlay_refresh(struct overlay *o, struct overlay_status *ret_status)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX + 1);
	int r;

	if (!text)
		return -ENOMEM;
	r = ask(o, "status", NULL, NULL, text);
	if (r == 0)
		r = control_error(text, NULL);
	if (r == 0)
		r = take_message(o, text, ret_status);
	return r;
}
