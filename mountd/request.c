// SPDX-License-Identifier: Apache-2.0
#include "mountd/request.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/version.h"
#include "mountd/mount_options.h"
#include "mountd/proto.h"
#include "mountd/redact.h"
#include "mountd/update.h"

#define FRAME_EVERY_MS 250 /* a stream of statuses: at most four a second */
#define STREAM_LOOK_MS 1000

/* An answer that is not read by then ends the connection; its thread is not held up for longer. */
static const uint64_t send_ms[PEER_KINDS] = { [PEER_STATUS] = 10000, [PEER_ROOT] = 60000 };

/* One request being served. */
struct request {
	struct manager *m;
	enum front_end front;
	enum peer_kind peer;
	int fd;
	const int *place; /* PROTO_FDS descriptors from the client, or NULL; borrowed */
	json_t *args;	  /* from the client, unchecked; without "command" and "version" */
	const char *const
		*shown; /* what a peer that is not root may see of the result; NULL: all */
	struct answer answer;
	bool stopped; /* no reply: the daemon stops, and the client asks again elsewhere */
	struct answer_listener
		listener; /* the client itself, when it wants to know how far it got */
	uint64_t told_at_ms;
	bool is_deaf; /* a frame could not be sent as a whole: nothing can follow it */
};

static enum proto_exit usage(struct request *q, const json_error_t *error)
{
	/* jansson's text names keys and types, never values. */
	return answer_fail(&q->answer, EXIT_USAGE, "the request's arguments: %s", error->text);
}

static int send_frame(struct request *q, bool more)
{
	json_t *frame;
	int r = -ENOMEM;

	if (q->is_deaf)
		return -EPIPE;
	frame = answer_json(&q->answer);
	if (frame && more)
		json_object_set_new(frame, "more", json_true());
	if (frame && q->peer != PEER_ROOT && q->shown)
		redact(json_object_get(frame, "result"), q->shown);
	if (frame)
		r = proto_send_within(q->fd, frame, send_ms[q->peer]);
	q->is_deaf = r < 0;
	json_decref(frame);
	return r;
}

static bool connection_has(const struct request *q, short events)
{
	struct pollfd poll_fd = { .fd = q->fd, .events = POLLRDHUP };

	return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & events) != 0;
}

static bool client_is_gone(const struct request *q)
{
	return connection_has(q, POLLRDHUP | POLLHUP | POLLERR);
}

/* At most four a second, and only while there is room for it: who does not read must not hold up what is done. */
static void tell_client(void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct request *q = arg;
	struct pollfd poll_fd = { .fd = q->fd, .events = POLLOUT };
	uint64_t now = clock_now_ms();
	json_t *frame;

	if (q->is_deaf || (q->told_at_ms > 0 && now - q->told_at_ms < FRAME_EVERY_MS))
		return;
	if (poll(&poll_fd, 1, 0) <= 0 || !(poll_fd.revents & POLLOUT))
		return;
	q->told_at_ms = now;
	frame = json_pack("{s:i, s:b, s:{s:s, s:I, s:o}}", "exit", EXIT_OK, "more", 1, "result",
			  "what", what, "done", (json_int_t)done, "total",
			  total > 0 ? json_integer((json_int_t)total) : json_null());
	if (frame)
		q->is_deaf = proto_send_within(q->fd, frame, 0) < 0;
	json_decref(frame);
}

/* For requests that take their time: before the manager is asked. */
static void let_hear(struct request *q, int wanted)
{
	q->listener = (struct answer_listener){ .tell = tell_client, .arg = q };
	q->answer.listener = wanted ? &q->listener : NULL;
}

/* ---- handlers ---- */

static bool strings_only(const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		if (!json_is_string(item) || !json_string_length(item))
			return false;
	}
	return true;
}

/* A client speaks for the socket's front end, or says that it asks for one which may do less. */
static bool take_front_end(struct request *q, const char *name, enum front_end *io_front)
{
	if (!name)
		return true;
	if (rules_front_end_from_name(name, io_front) < 0) {
		answer_fail(&q->answer, EXIT_USAGE, "unknown front end");
		return false;
	}
	return true;
}

/* Whether it is only to be said what would be done. Takes the argument; of another type it stays, and is refused. */
static bool take_dry_run(struct request *q)
{
	const json_t *value = json_object_get(q->args, "dryRun");
	bool is_dry = json_is_true(value);

	if (json_is_boolean(value))
		json_object_del(q->args, "dryRun");
	return is_dry;
}

static enum proto_exit handle_mount(struct request *q)
{
	struct mount_request mount = { .front = q->front,
				       .fs_group = GID_UNSET,
				       .handoff = true,
				       .dry_run = take_dry_run(q) };
	const char *front = NULL;
	json_int_t gid = -1, rate = -1, settle = -1;
	int keep_private = 0, read_only = 0, handoff = 1, in_namespaces = 0, persist = 0,
	    idmap = -1;
	json_error_t error;

	if (json_unpack_ex(
		    q->args, &error, JSON_STRICT,
		    "{s:s, s?s, s?s, s?s, s?I, s?s, s?s, s?o, s?b, s?b, s?I, s?b, s?I, s?s, s?s, s?b, s?s, s?s, s?o, s?s, s?s, s?s, s?b, s?s, s?s, s?b}",
		    "target", &mount.target, "plugin", &mount.plugin, "source", &mount.source,
		    "spec", &mount.spec, "fsGroup", &gid, "policy", &mount.policy, "ownership",
		    &mount.ownership, "excludes", &mount.excludes, "keepPrivate", &keep_private,
		    "readOnly", &read_only, "convergeRate", &rate, "handoff", &handoff, "settleMs",
		    &settle, "conflict", &mount.conflict, "coherence", &mount.coherence, "persist",
		    &persist, "volumeId", &mount.volume_id, "frontEnd", &front, "objects",
		    &mount.objects, "objectsPath", &mount.objects_path, "pod", &mount.pod, "staged",
		    &mount.staged, "handoffInNamespaces", &in_namespaces, "mountOptions",
		    &mount.mount_options, "transport", &mount.transport, "idmap", &idmap) < 0)
		return usage(q, &error);
	if (!take_front_end(q, front, &mount.front))
		return q->answer.exit;
	if (mount.excludes && (!json_is_array(mount.excludes) || !strings_only(mount.excludes)))
		return answer_fail(&q->answer, EXIT_USAGE, "excludes is not an array of patterns");
	if (json_object_get(q->args, "fsGroup") && (gid < 0 || gid >= (json_int_t)GID_UNSET))
		return answer_fail(&q->answer, EXIT_FAILED, "gid %lld is out of range",
				   (long long)gid);
	if (gid >= 0)
		mount.fs_group = (gid_t)gid;
	mount.place = q->place;
	mount.keep_private = keep_private;
	mount.read_only = read_only;
	mount.handoff = handoff;
	mount.handoff_in_namespaces = in_namespaces;
	mount.has_idmap = idmap >= 0;
	mount.idmap = idmap > 0;
	mount.persist = persist;
	mount.has_rate = rate >= 0;
	mount.converge_rate = rate >= 0 ? (uint64_t)rate : 0;
	mount.has_settle = settle >= 0;
	mount.settle_ms = settle >= 0 ? (uint64_t)settle : 0;
	return manager_mount(q->m, &mount, &q->answer);
}

/* One row of a list that takes long. Whoever asked may have gone: the work goes on. */
static void send_row(void *arg, json_t *row)
{
	struct request *q = arg;

	q->answer.result = json_incref(row);
	(void)send_frame(q, true);
	json_decref(q->answer.result);
	q->answer.result = NULL;
}

static enum proto_exit handle_unmount(struct request *q)
{
	const char *volume = NULL;
	int lazy = 0, all = 0, progress = 0, by_hand = 0;
	bool dry_run = take_dry_run(q);
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s?s, s?b, s?b, s?b, s?b}", "volume",
			   &volume, "lazy", &lazy, "all", &all, "progress", &progress, "byHand",
			   &by_hand) < 0)
		return usage(q, &error);
	if (!volume == !all || (all && by_hand))
		return answer_fail(&q->answer, EXIT_USAGE, "either a volume or all");
	if (all && dry_run)
		return answer_fail(&q->answer, EXIT_USAGE, "a dry run is of one volume");
	if (dry_run)
		return manager_unmount_dry(q->m, volume, lazy, &q->answer);
	if (by_hand)
		return manager_unmount_by_hand(q->m, volume, q->place, lazy, &q->answer);
	if (all)
		return manager_unmount_all(q->m, lazy, send_row, q, &q->answer);
	let_hear(q, progress);
	return manager_unmount(q->m, volume, lazy, &q->answer);
}

/* Each change, at most four a second, until the client has seen enough. */
static enum proto_exit stream_status(struct request *q, const char *volume)
{
	uint64_t generation = 0;

	for (;;) {
		if (manager_status(q->m, volume, &q->answer) != EXIT_OK)
			return q->answer.exit;
		if (send_frame(q, true) < 0)
			return EXIT_OK;
		answer_fini(&q->answer);
		poll(NULL, 0, FRAME_EVERY_MS);
		while (!manager_await_change(q->m, &generation, STREAM_LOOK_MS)) {
			if (client_is_gone(q) || manager_is_stopping(q->m))
				break;
		}
		/* First: a daemon that stops ends the connection, which looks as if the client had. */
		if (manager_is_stopping(q->m)) {
			q->stopped = true;
			return EXIT_OK;
		}
		if (client_is_gone(q))
			return EXIT_OK;
	}
}

static enum proto_exit handle_status(struct request *q)
{
	const char *volume = NULL;
	int watch = 0;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s?s, s?b}", "volume", &volume, "watch",
			   &watch) < 0)
		return usage(q, &error);
	if (watch)
		return stream_status(q, volume);
	return manager_status(q->m, volume, &q->answer);
}

static enum proto_exit handle_list(struct request *q)
{
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{}") < 0)
		return usage(q, &error);
	return manager_status(q->m, NULL, &q->answer);
}

static enum proto_exit handle_refresh(struct request *q)
{
	const char *volume = NULL, *pod = NULL;
	bool dry_run = take_dry_run(q);
	json_t *objects = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s, s?o, s?s}", "volume", &volume,
			   "objects", &objects, "pod", &pod) < 0)
		return usage(q, &error);
	return manager_refresh(q->m, q->front, volume, objects, pod, dry_run, &q->answer);
}

static enum proto_exit handle_stage(struct request *q)
{
	struct stage_request stage = { .front = q->front, .dry_run = take_dry_run(q) };
	const char *front = NULL;
	json_error_t error;
	int format = 0, read_only = 0;

	if (json_unpack_ex(q->args, &error, JSON_STRICT,
			   "{s?s, s?s, s?s, s:s, s?s, s?s, s?s, s?s, s?b, s?b, s?s}", "spec",
			   &stage.spec, "plugin", &stage.plugin, "source", &stage.source, "device",
			   &stage.device, "fsType", &stage.fs_type, "mountOptions",
			   &stage.mount_options, "staging", &stage.staging, "volumeId",
			   &stage.volume_id, "format", &format, "readOnly", &read_only, "frontEnd",
			   &front) < 0)
		return usage(q, &error);
	if (!take_front_end(q, front, &stage.front))
		return q->answer.exit;
	stage.format = format;
	stage.read_only = read_only;
	return manager_stage(q->m, &stage, &q->answer);
}

static enum proto_exit handle_unstage(struct request *q)
{
	const char *volume = NULL;
	bool dry_run = take_dry_run(q);
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s}", "volume", &volume) < 0)
		return usage(q, &error);
	return manager_unstage(q->m, volume, dry_run, &q->answer);
}

static enum proto_exit handle_expand(struct request *q)
{
	const char *volume = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s}", "volume", &volume) < 0)
		return usage(q, &error);
	return manager_expand(q->m, volume, &q->answer);
}

static enum proto_exit handle_update(struct request *q)
{
	struct update_request update = { .front = q->front, .dry_run = take_dry_run(q) };
	json_int_t gid = -1, rate = -1;
	json_error_t error;
	const char *key;
	json_t *value;

	json_object_foreach(q->args, key, value) {
		if (update_is_refused(key))
			return answer_fail(&q->answer, EXIT_FAILED,
					   "%s cannot change while the volume is mounted", key);
	}
	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s, s?I, s?s, s?o, s?I, s?s}", "volume",
			   &update.volume, "fsGroup", &gid, "policy", &update.policy, "excludes",
			   &update.excludes, "convergeRate", &rate, "spec", &update.spec) < 0)
		return usage(q, &error);
	if (update.excludes && (!json_is_array(update.excludes) || !strings_only(update.excludes)))
		return answer_fail(&q->answer, EXIT_USAGE, "excludes is not an array of patterns");
	update.has_fs_group = json_object_get(q->args, "fsGroup") != NULL;
	if (update.has_fs_group && (gid < 0 || gid >= (json_int_t)GID_UNSET))
		return answer_fail(&q->answer, EXIT_FAILED, "gid %lld is out of range",
				   (long long)gid);
	update.fs_group = (gid_t)gid;
	update.has_rate = rate >= 0;
	update.converge_rate = rate >= 0 ? (uint64_t)rate : 0;
	return manager_update(q->m, &update, &q->answer);
}

/* What else it has are arguments of a mount: compared, not taken. */
static enum proto_exit handle_remount(struct request *q)
{
	json_t *volume = json_incref(json_object_get(q->args, "volume"));
	json_t *options = json_incref(json_object_get(q->args, "mountOptions"));

	json_object_del(q->args, "volume");
	json_object_del(q->args, "mountOptions");
	if (!json_is_string(volume) || (options && !json_is_string(options)))
		answer_fail(&q->answer, EXIT_USAGE, "volume and mountOptions are texts");
	else
		manager_remount(q->m, json_string_value(volume), q->place,
				json_string_value(options), q->args, &q->answer);
	json_decref(volume);
	json_decref(options);
	return q->answer.exit;
}

static enum proto_exit handle_wait(struct request *q)
{
	const char *volume = NULL, *state = NULL;
	json_int_t timeout = -1;
	json_error_t error;
	int progress = 0;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s, s:s, s?I, s?b}", "volume", &volume,
			   "for", &state, "timeoutMs", &timeout, "progress", &progress) < 0)
		return usage(q, &error);
	let_hear(q, progress);
	manager_wait(q->m, volume, state, timeout < 0 ? UINT64_MAX : (uint64_t)timeout, q->fd,
		     &q->answer);
	q->stopped = q->answer.exit == EXIT_FAILED && manager_is_stopping(q->m);
	return q->answer.exit;
}

static enum proto_exit pause_or_resume(struct request *q, bool paused)
{
	const char *volume = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s}", "volume", &volume) < 0)
		return usage(q, &error);
	return manager_pause(q->m, volume, paused, &q->answer);
}

static enum proto_exit handle_pause(struct request *q)
{
	return pause_or_resume(q, true);
}

static enum proto_exit handle_resume(struct request *q)
{
	return pause_or_resume(q, false);
}

static enum proto_exit handle_recover(struct request *q)
{
	const char *volume = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s}", "volume", &volume) < 0)
		return usage(q, &error);
	return manager_recover(q->m, volume, &q->answer);
}

static enum proto_exit handle_upgrade(struct request *q)
{
	const char *volume = NULL;
	json_error_t error;
	int all = 0;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s?s, s?b}", "volume", &volume, "all",
			   &all) < 0)
		return usage(q, &error);
	if (!volume == !all)
		return answer_fail(&q->answer, EXIT_USAGE, "either a volume or all");
	return manager_upgrade(q->m, volume, &q->answer);
}

static enum proto_exit handle_converge(struct request *q)
{
	const char *volume = NULL;
	json_int_t rate = -1;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s, s?I}", "volume", &volume, "rate",
			   &rate) < 0)
		return usage(q, &error);
	return manager_converge(q->m, volume, rate >= 0, rate < 0 ? 0 : (uint64_t)rate, &q->answer);
}

static enum proto_exit stream_events(struct request *q, json_int_t after)
{
	uint64_t generation = 0;

	for (;;) {
		json_t *last;

		if (manager_events(q->m, after, &q->answer) != EXIT_OK)
			return q->answer.exit;
		last = json_array_get(q->answer.result, json_array_size(q->answer.result) - 1);
		if (last) {
			after = json_integer_value(json_object_get(last, "id"));
			if (send_frame(q, true) < 0)
				return EXIT_OK;
		}
		answer_fini(&q->answer);
		while (!manager_await_change(q->m, &generation, STREAM_LOOK_MS)) {
			if (client_is_gone(q) || manager_is_stopping(q->m))
				break;
		}
		/* First: a daemon that stops ends the connection, which looks as if the client had. */
		if (manager_is_stopping(q->m)) {
			q->stopped = true;
			return EXIT_OK;
		}
		if (client_is_gone(q))
			return EXIT_OK;
	}
}

static enum proto_exit handle_events(struct request *q)
{
	json_int_t after = 0;
	int follow = 0;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s?b, s?I}", "follow", &follow, "after",
			   &after) < 0)
		return usage(q, &error);
	if (follow)
		return stream_events(q, after);
	return manager_events(q->m, after, &q->answer);
}

static enum proto_exit handle_reconstruct(struct request *q)
{
	int dry_run = 0, progress = 0;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s?b, s?b}", "dryRun", &dry_run,
			   "progress", &progress) < 0)
		return usage(q, &error);
	let_hear(q, progress);
	return manager_reconstruct(q->m, dry_run, &q->answer);
}

static enum proto_exit handle_store(struct request *q)
{
	const char *action = NULL;
	json_t *dump = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s, s?o}", "action", &action, "dump",
			   &dump) < 0)
		return usage(q, &error);
	if (!dump && strcmp(action, "check") == 0)
		return manager_store_check(q->m, &q->answer);
	if (!dump && strcmp(action, "dump") == 0)
		return manager_store_dump(q->m, &q->answer);
	if (dump && strcmp(action, "restore") == 0)
		return manager_store_restore(q->m, dump, &q->answer);
	return answer_fail(&q->answer, EXIT_USAGE, "check, dump, or restore with a dump");
}

static enum proto_exit handle_explain(struct request *q)
{
	const char *path = NULL;
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{s:s}", "path", &path) < 0)
		return usage(q, &error);
	if (path[0] != '/')
		return answer_fail(&q->answer, EXIT_USAGE, "the path is not absolute");
	return manager_explain(q->m, path, &q->answer);
}

static enum proto_exit handle_metrics(struct request *q)
{
	json_error_t error;

	if (json_unpack_ex(q->args, &error, JSON_STRICT, "{}") < 0)
		return usage(q, &error);
	return manager_metrics(q->m, &q->answer);
}

static enum proto_exit handle_ping(struct request *q)
{
	q->answer.result = json_pack("{s:i, s:i, s:s, s:I}", "pid", (int)getpid(), "version",
				     PROTO_VERSION, "program", FSGROUPFS_VERSION, "startedMs",
				     (json_int_t)manager_started_ms(q->m));
	return EXIT_OK;
}

/* What the status group sees of a volume: not what it is made of, not names of files, no text of others. */
static const char *const status_shown[] = {
	"id",	    "plugin",	 "target",  "fsGroup",	     "policy",	      "ownership",
	"readOnly", "state",	 "entries", "progress",	     "ratePerSecond", "etaSeconds",
	"server",   "coherence", "usage",   "failuresTotal", "createdAt",     "updatedAt",
	NULL,
};
static const char *const event_shown[] = { "id", "at", "volume", "kind", NULL };

/* A row without a third column is root's. */
enum { FOR_ROOT, FOR_GROUP };

static const struct command {
	const char *name;
	enum proto_exit (*handle)(struct request *q);
	int may;
	const char *const *shown; /* of FOR_GROUP, to the group; NULL: all */
} commands[] = {
	/* clang-format off */
	{ "mount", handle_mount },
	{ "unmount", handle_unmount },
	{ "remount", handle_remount },
	{ "status", handle_status, FOR_GROUP, status_shown },
	{ "list", handle_list, FOR_GROUP, status_shown },
	{ "wait", handle_wait },
	{ "pause", handle_pause },
	{ "resume", handle_resume },
	{ "converge", handle_converge },
	{ "recover", handle_recover },
	{ "upgrade", handle_upgrade },
	{ "events", handle_events, FOR_GROUP, event_shown },
	{ "refresh", handle_refresh },
	{ "update", handle_update },
	{ "ping", handle_ping, FOR_GROUP },
	{ "stage", handle_stage },
	{ "unstage", handle_unstage },
	{ "expand", handle_expand },
	{ "reconstruct", handle_reconstruct },
	{ "store", handle_store },
	{ "explain", handle_explain },
	{ "metrics", handle_metrics, FOR_GROUP },
	/* clang-format on */
};

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* A client of another version is told so, before anything of its request is looked at. */
static bool version_is_spoken(struct request *q, const json_t *version)
{
	if (!version || (json_is_integer(version) && json_integer_value(version) == PROTO_VERSION))
		return true;
	if (json_is_integer(version))
		answer_fail(
			&q->answer, EXIT_FAILED,
			"the client speaks version %lld of the protocol, this daemon version %d: "
			"use programs of one release, and end the daemon of the other",
			(long long)json_integer_value(version), PROTO_VERSION);
	else
		answer_fail(&q->answer, EXIT_USAGE, "version is not an integer");
	return false;
}

/*
 * Who may only look names a volume by its id, or by its target as it is on record: a path of his is not
 * resolved with our rights, nor on his file systems.
 */
static bool volume_is_harmless(struct request *q)
{
	const char *volume = json_string_value(json_object_get(q->args, "volume"));

	if (q->peer == PEER_ROOT || !volume || !strchr(volume, '/') ||
	    manager_has_target(q->m, volume))
		return true;
	answer_fail(&q->answer, EXIT_NO_VOLUME, "no such volume");
	return false;
}

/* Returns whether the connection may go on. */
static bool dispatch(struct request *q, const char *name, const json_t *version)
{
	const struct command *command = command_find(name);

	if (!version_is_spoken(q, version))
		return false;
	if (!command) {
		answer_fail(&q->answer, EXIT_USAGE, "unknown command");
		return false;
	}
	if (q->peer != PEER_ROOT && command->may != FOR_GROUP) {
		answer_fail(&q->answer, EXIT_FAILED, "only root may ask this");
		return false;
	}
	q->shown = command->shown;
	if (volume_is_harmless(q)) {
		uint64_t began_ns = clock_now_ns();

		command->handle(q);
		if (!q->stopped)
			manager_meter(q->m, command->name, q->answer.exit,
				      (clock_now_ns() - began_ns) / 1000);
	}
	return true;
}

static bool serve_object(struct request *q)
{
	json_t *command = json_incref(json_object_get(q->args, "command"));
	json_t *version = json_incref(json_object_get(q->args, "version"));
	const char *name = json_is_string(command) ? json_string_value(command) : "";
	char quoted[64];
	bool more;

	json_object_del(q->args, "command");
	json_object_del(q->args, "version");
	more = dispatch(q, name, version);
	/* Who may only look cannot fill the log either. */
	if (q->answer.exit != EXIT_OK && !q->stopped)
		log_line(q->peer == PEER_ROOT ? LOG_WARNING : LOG_DEBUG,
			 log_quote(name, quoted, sizeof(quoted)), "exit=%d %s", q->answer.exit,
			 q->answer.error);
	more = !q->stopped && send_frame(q, false) == 0 && more;
	json_decref(command);
	json_decref(version);
	return more;
}

bool request_serve(struct manager *m, enum front_end front, enum peer_kind peer, int fd,
		   const struct frame *frame)
{
	struct request q = { .m = m, .front = front, .peer = peer, .fd = fd };
	bool more = false;

	if (manager_is_stopping(m))
		return false;
	/* Who has only asked to look, and may have stood in a queue, does not want it any more. */
	if (peer != PEER_ROOT && connection_has(&q, POLLHUP))
		return false;
	q.place = frame->has_fds ? frame->fds : NULL;
	if (proto_parse(frame->text, frame->have, &q.args) < 0) {
		log_line(peer == PEER_ROOT ? LOG_WARNING : LOG_DEBUG, "request",
			 "no JSON object: the connection ends");
		answer_fail(&q.answer, EXIT_USAGE, "the request is not one JSON object");
		send_frame(&q, false);
	} else {
		more = serve_object(&q);
	}
	answer_fini(&q.answer);
	json_decref(q.args);
	return more;
}

void request_refuse(int fd, enum proto_exit exit, const char *format, va_list args)
{
	struct answer answer = { 0 };
	char text[ANSWER_TEXT_MAX];
	json_t *frame;

	vsnprintf(text, sizeof(text), format, args);
	answer_fail(&answer, exit, "%s", text);
	frame = answer_json(&answer);
	if (frame)
		(void)proto_send_within(fd, frame, 0);
	json_decref(frame);
}
