// SPDX-License-Identifier: Apache-2.0
#include "mountd/clients.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/frame.h"
#include "mountd/peer.h"
#include "mountd/request.h"

#define EVENTS_A_TURN 64
#define BYTES_A_TURN (256U << 10)

/* A frame up to here is not counted: whoever asks something small never waits for large ones. */
#define SMALL_BYTES (64U << 10)

/* Descriptors that are not clients': the store, keepers, what set-ups open. */
#define OTHER_FILES 256

#define LOOKERS_RUNNING 16

static const struct limits {
	size_t connections;
	size_t running, running_each; /* requests at a time: of all, of one uid */
	uint32_t frame_bytes;
	size_t buffer_bytes; /* of all frames above SMALL_BYTES that are not answered yet */
	uint64_t receive_ms; /* from a frame's first byte to its last */
} limits[PEER_KINDS] = {
	[PEER_STATUS] = { 1024, LOOKERS_RUNNING, 4, 4096, 0, 5000 },
	[PEER_ROOT] = { 1024, SIZE_MAX, SIZE_MAX, PROTO_FRAME_MAX, 64U << 20, 60000 },
};

enum client_state {
	CLIENT_LISTENING, /* for the first or the next piece of a frame */
	CLIENT_HELD,	  /* until there is room for its frame */
	CLIENT_QUEUED,	  /* complete, until its request may run */
	CLIENT_RUNNING,	  /* its frame and descriptor are its thread's */
};

struct client {
	TAILQ_ENTRY(client) all;
	TAILQ_ENTRY(client) queued; /* in clients->queue, when CLIENT_QUEUED */
	struct clients *clients;
	struct peer peer;
	int fd;
	enum client_state state; /* guarded by clients->lock */
	struct frame frame;
	size_t counted;	   /* bytes of clients->buffered[]; guarded by clients->lock */
	uint64_t since_ms; /* when the frame began; 0: none has */
};

struct clients {
	struct manager *m;
	gid_t status_gid;
	int epoll_fd, wake_fd;
	size_t connections_max;
	bool is_full[PEER_KINDS]; /* said so already */
	pthread_mutex_t lock;
	pthread_cond_t left;		     /* with lock */
	TAILQ_HEAD(, client) all;	     /* guarded by lock */
	TAILQ_HEAD(, client) queue;	     /* guarded by lock */
	size_t count[PEER_KINDS];	     /* guarded by lock */
	size_t running[PEER_KINDS];	     /* guarded by lock */
	size_t buffered[PEER_KINDS];	     /* guarded by lock */
	uid_t running_uids[LOOKERS_RUNNING]; /* of PEER_STATUS; guarded by lock */
	uint64_t last_ms;		     /* when the last client left; guarded by lock */
	bool stopping;			     /* guarded by lock */
};

/* ---- making ---- */

static size_t raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : limit.rlim_cur;
}

/* How many of each kind, where files may not be open as many. */
static size_t connections_max(void)
{
	size_t files = raise_descriptors();
	size_t each = files > OTHER_FILES ? (files - OTHER_FILES) / 2 : 0;

	return each > 16 ? each : 16;
}

int clients_new(struct manager *m, gid_t status_gid, struct clients **ret_clients)
{
	AUTO(clients) *c = calloc(1, sizeof(*c));
	struct epoll_event event = { .events = EPOLLIN };

	if (!c)
		return -ENOMEM;
	c->m = m;
	c->status_gid = status_gid;
	c->epoll_fd = c->wake_fd = -1;
	c->connections_max = connections_max();
	c->last_ms = clock_now_ms();
	TAILQ_INIT(&c->all);
	TAILQ_INIT(&c->queue);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->left, NULL);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll_fd < 0 || c->wake_fd < 0 ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &event) < 0)
		return -errno;
	*ret_clients = take_ptr(&c);
	return 0;
}

void clients_free(struct clients *c)
{
	if (!c)
		return;
	assert(TAILQ_EMPTY(&c->all));
	cleanup_fd(&c->epoll_fd);
	cleanup_fd(&c->wake_fd);
	pthread_cond_destroy(&c->left);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int clients_poll_fd(const struct clients *c)
{
	return c->epoll_fd;
}

/* ---- one client ---- */

/* With the lock held. The descriptor last: its number may be another's at once. */
static void forget(struct client *client)
{
	struct clients *c = client->clients;

	TAILQ_REMOVE(&c->all, client, all);
	c->buffered[client->peer.kind] -= client->counted;
	if (--c->count[client->peer.kind] == 0)
		c->last_ms = clock_now_ms();
	pthread_cond_broadcast(&c->left);
	frame_reset(&client->frame);
	close(client->fd);
	free(client);
}

static void end(struct client *client)
{
	struct clients *c = client->clients;

	pthread_mutex_lock(&c->lock);
	forget(client);
	pthread_mutex_unlock(&c->lock);
}

/* Once: a client that gets no more event until it is armed again belongs to whoever got the event. */
static void arm(struct client *client, int how)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = client };

	/* It cannot fail: the descriptor is open, and in the set or not as @how says; memory is there for it. */
	(void)epoll_ctl(client->clients->epoll_fd, how, client->fd, &event);
}

static void wake(struct clients *c)
{
	const uint64_t one = 1;
	ssize_t n = write(c->wake_fd, &one, sizeof(one));

	(void)n; /* full: it is awake */
}

/* The one answer to who is sent away: without waiting for him to read it. */
static void __attribute__((format(printf, 3, 4)))
send_away(struct client *client, enum proto_exit exit, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	request_refuse(client->fd, exit, format, args);
	va_end(args);
	end(client);
}

/* With the lock held, after running[] was lessened: one of these less. */
static void take_uid(struct clients *c, uid_t uid)
{
	size_t last = c->running[PEER_STATUS], i = 0;

	while (i < last && c->running_uids[i] != uid)
		i++;
	c->running_uids[i] = c->running_uids[last];
}

static void *client_main(void *arg)
{
	struct client *client = arg;
	struct clients *c = client->clients;
	bool more;

	more = request_serve(c->m, FRONT_CTL, client->peer.kind, client->fd, &client->frame);
	frame_reset(&client->frame);
	pthread_mutex_lock(&c->lock);
	c->running[client->peer.kind]--;
	if (client->peer.kind == PEER_STATUS)
		take_uid(c, client->peer.uid);
	c->buffered[client->peer.kind] -= client->counted;
	client->counted = 0;
	client->since_ms = 0;
	if (more && !c->stopping) {
		client->state = CLIENT_LISTENING;
		arm(client, EPOLL_CTL_MOD);
	} else {
		forget(client);
	}
	wake(c);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- starting what is complete ---- */

/* With the lock held. */
static bool may_run(const struct clients *c, const struct client *client)
{
	const struct limits *limit = &limits[client->peer.kind];
	size_t same = 0;

	if (c->running[client->peer.kind] >= limit->running)
		return false;
	for (size_t i = 0; client->peer.kind == PEER_STATUS && i < c->running[PEER_STATUS]; i++)
		same += c->running_uids[i] == client->peer.uid;
	return same < limit->running_each;
}

/* With the lock held. -errno: no thread. */
static int start(struct clients *c, struct client *client)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	client->state = CLIENT_RUNNING;
	r = pthread_create(&thread, &attr, client_main, client);
	pthread_attr_destroy(&attr);
	if (r != 0)
		return -r;
	if (client->peer.kind == PEER_STATUS)
		c->running_uids[c->running[PEER_STATUS]] = client->peer.uid;
	c->running[client->peer.kind]++;
	return 0;
}

/* The first that may run: taken from the queue, and started or, without a thread, returned as *ret_failed. */
static int start_next(struct clients *c, struct client **ret_failed)
{
	struct client *client;

	*ret_failed = NULL;
	TAILQ_FOREACH(client, &c->queue, queued)
	{
		int r;

		if (!may_run(c, client))
			continue;
		TAILQ_REMOVE(&c->queue, client, queued);
		r = start(c, client);
		if (r < 0)
			*ret_failed = client;
		return r < 0 ? r : 1;
	}
	return 0;
}

static void start_all(struct clients *c)
{
	struct client *failed;
	int r;

	do {
		pthread_mutex_lock(&c->lock);
		r = start_next(c, &failed);
		pthread_mutex_unlock(&c->lock);
		if (failed) {
			log_line(LOG_ERROR, "request", "no thread: %s", strerror(-r));
			send_away(failed, EXIT_FAILED, "no thread: %s", strerror(-r));
		}
	} while (r != 0);
}

/* ---- receiving ---- */

/* Whether there is room for the frame whose length is known. */
static bool take_room(struct client *client)
{
	struct clients *c = client->clients;
	size_t *buffered = &c->buffered[client->peer.kind];
	bool has_room = true;

	if (client->frame.len <= SMALL_BYTES || client->counted > 0)
		return true;
	pthread_mutex_lock(&c->lock);
	has_room = *buffered + client->frame.len <= limits[client->peer.kind].buffer_bytes;
	if (has_room)
		*buffered += client->counted = client->frame.len;
	client->state = has_room ? CLIENT_LISTENING : CLIENT_HELD;
	pthread_mutex_unlock(&c->lock);
	return has_room;
}

static int receive_some(struct client *client)
{
	int r = frame_receive_header(&client->frame, client->fd);

	if (client->since_ms == 0 && client->frame.header_have > 0)
		client->since_ms = clock_now_ms();
	if (r != 1)
		return r;
	if (client->frame.len > limits[client->peer.kind].frame_bytes)
		return -EMSGSIZE;
	if (!take_room(client))
		return -EBUSY;
	return frame_receive_body(&client->frame, client->fd, BYTES_A_TURN);
}

static void enqueue(struct client *client)
{
	struct clients *c = client->clients;

	pthread_mutex_lock(&c->lock);
	client->state = CLIENT_QUEUED;
	TAILQ_INSERT_TAIL(&c->queue, client, queued);
	pthread_mutex_unlock(&c->lock);
}

static void receive(struct client *client)
{
	int r = receive_some(client);

	switch (r) {
	case 1:
		enqueue(client);
		break;
	case -EAGAIN:
		arm(client, EPOLL_CTL_MOD);
		break;
	case -EBUSY:
		break; /* held: looked at again when somebody is done */
	case 0:
		end(client);
		break;
	case -EMSGSIZE:
		send_away(client, EXIT_USAGE, "a request must have 1 to %u bytes",
			  limits[client->peer.kind].frame_bytes);
		break;
	default:
		log_line(client->peer.kind == PEER_ROOT ? LOG_WARNING : LOG_DEBUG, "request",
			 "connection ended: %s", strerror(-r));
		end(client);
	}
}

/* Those that waited for room, in the order in which they came; who is still without stays held. */
static void receive_held(struct clients *c)
{
	for (;;) {
		struct client *client;

		pthread_mutex_lock(&c->lock);
		TAILQ_FOREACH(client, &c->all, all)
		{
			if (client->state == CLIENT_HELD)
				break;
		}
		pthread_mutex_unlock(&c->lock);
		if (!client || !take_room(client))
			return;
		client->since_ms = clock_now_ms(); /* the wait was not his */
		receive(client);
	}
}

/* What its thread left in it is ours when the lock is: there is nothing else between the two that orders them. */
static void take_back(struct client *client)
{
	struct clients *c = client->clients;

	pthread_mutex_lock(&c->lock);
	assert(client->state == CLIENT_LISTENING);
	pthread_mutex_unlock(&c->lock);
}

void clients_serve(struct clients *c)
{
	struct epoll_event events[EVENTS_A_TURN];
	int n = epoll_wait(c->epoll_fd, events, ARRAY_SIZE(events), 0);
	bool freed = false;
	uint64_t count;

	for (int i = 0; i < n; i++) {
		struct client *client = events[i].data.ptr;

		if (client) {
			take_back(client);
			receive(client);
		} else {
			freed = read(c->wake_fd, &count, sizeof(count)) > 0;
		}
	}
	if (freed)
		receive_held(c);
	start_all(c);
}

/* ---- coming and going ---- */

/* -1: no more of this kind. */
static int enter(struct clients *c, struct client *client)
{
	enum peer_kind kind = client->peer.kind;
	size_t most = limits[kind].connections;
	int r = 0;

	if (most > c->connections_max)
		most = c->connections_max;
	pthread_mutex_lock(&c->lock);
	if (c->count[kind] >= most)
		r = -1;
	else
		TAILQ_INSERT_TAIL(&c->all, client, all);
	if (r == 0)
		c->count[kind]++;
	pthread_mutex_unlock(&c->lock);
	if (r < 0 && !c->is_full[kind])
		log_line(LOG_WARNING, "accept", "%zu clients: more are sent away", most);
	c->is_full[kind] = r < 0;
	return r;
}

static void __attribute__((format(printf, 2, 3))) refuse(int fd, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	request_refuse(fd, EXIT_FAILED, format, args);
	va_end(args);
	close(fd);
}

void clients_add(struct clients *c, int fd)
{
	struct peer peer = peer_look(fd, c->status_gid);
	struct client *client;

	if (peer.kind == PEER_STRANGER) {
		log_line(LOG_WARNING, "accept", "a peer that may ask nothing is sent away: uid %u",
			 peer.uid);
		close(fd);
		return;
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		refuse(fd, "no memory");
		return;
	}
	*client = (struct client){ .clients = c, .peer = peer, .fd = fd };
	client->frame.takes_fds = peer.kind == PEER_ROOT;
	if (enter(c, client) < 0) {
		free(client);
		refuse(fd, "too many connections");
		return;
	}
	arm(client, EPOLL_CTL_ADD);
}

bool clients_receive_some(struct clients *c)
{
	const struct client *client;
	bool some = false;

	pthread_mutex_lock(&c->lock);
	TAILQ_FOREACH(client, &c->all, all)
	some = some || (client->state == CLIENT_LISTENING && client->since_ms > 0);
	pthread_mutex_unlock(&c->lock);
	return some;
}

/* With the lock held: one whose frame takes too long; NULL: none. */
static struct client *find_late(struct clients *c, uint64_t now)
{
	struct client *client;

	TAILQ_FOREACH(client, &c->all, all)
	{
		if (client->state == CLIENT_LISTENING && client->since_ms > 0 &&
		    now - client->since_ms >= limits[client->peer.kind].receive_ms)
			return client;
	}
	return NULL;
}

void clients_expire(struct clients *c)
{
	for (;;) {
		struct client *late;

		pthread_mutex_lock(&c->lock);
		late = find_late(c, clock_now_ms());
		pthread_mutex_unlock(&c->lock);
		if (!late)
			return;
		send_away(late, EXIT_FAILED, "the request did not get complete in time");
	}
}

uint64_t clients_idle_ms(struct clients *c)
{
	uint64_t idle;

	pthread_mutex_lock(&c->lock);
	idle = TAILQ_EMPTY(&c->all) ? clock_now_ms() - c->last_ms : 0;
	pthread_mutex_unlock(&c->lock);
	return idle;
}

void clients_drain(struct clients *c)
{
	struct client *client, *next;

	start_all(c);
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	for (client = TAILQ_FIRST(&c->all); client; client = next) {
		next = TAILQ_NEXT(client, all);
		if (client->state == CLIENT_RUNNING) {
			shutdown(client->fd, SHUT_RD); /* who waits for a change looks after this */
		} else {
			if (client->state == CLIENT_QUEUED)
				TAILQ_REMOVE(&c->queue, client, queued);
			forget(client);
		}
	}
	while (!TAILQ_EMPTY(&c->all))
		pthread_cond_wait(&c->left, &c->lock);
	pthread_mutex_unlock(&c->lock);
}
