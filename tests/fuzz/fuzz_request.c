// SPDX-License-Identifier: Apache-2.0
/*
 * A client of the daemon: frames from a socket, then the requests in them, for root and for who may only look. The
 * first byte says who asks, and whether the rest is the stream as it is or the arguments of a request, whose command is
 * the second byte. The manager is played here: it looks at what a handler hands it, and answers with what it got.
 *
 * A new request of request.c needs its function of the manager here.
 */
#include <errno.h>
#include <sys/socket.h>

#include "fs/base/log.h"
#include "mountd/frame.h"
#include "mountd/manager.h"
#include "mountd/mount_options.h"
#include "mountd/request.h"
#include "mountd/update.h"
#include "tests/fuzz/fuzz.h"

static const char *const names[] = {
	"mount",   "unmount", "status",	 "list",    "wait",    "pause",	  "resume",  "converge",
	"recover", "events",  "refresh", "update",  "ping",    "stage",	  "unstage", "reconstruct",
	"store",   "explain", "metrics", "upgrade", "remount", "unknown", "expand",
};

static enum peer_kind asking; /* of the input that is run */
static unsigned asked;	      /* how often the manager was called for it */
static int looks;	      /* how long a stream goes on */

/* ---- the manager ---- */

static void require_root(void)
{
	asked++;
	REQUIRE(asking == PEER_ROOT);
}

static void require_text(const char *text)
{
	REQUIRE(!text || strlen(text) <= PROTO_FRAME_MAX);
}

/* What goes back: a text of the client's, as an error would quote it. */
static enum proto_exit reply(struct answer *answer, const char *text)
{
	require_text(text);
	if (text && text[0] == '!')
		return answer_fail(answer, EXIT_FAILED, "%s", text);
	answer->result = json_pack("{s:s?, s:s}", "id", text, "source", "secret");
	answer_tell(answer, "playing", asked, 0);
	return EXIT_OK;
}

enum proto_exit manager_mount(struct manager *m, const struct mount_request *q,
			      struct answer *answer)
{
	(void)m;
	require_root();
	REQUIRE(q->target && (unsigned)q->front < FRONT_END_COUNT);
	REQUIRE(!q->excludes || json_is_array(q->excludes));
	return reply(answer, q->target);
}

enum proto_exit manager_unmount(struct manager *m, const char *volume, bool lazy,
				struct answer *answer)
{
	(void)m;
	(void)lazy;
	require_root();
	REQUIRE(volume);
	return reply(answer, volume);
}

enum proto_exit manager_stage(struct manager *m, const struct stage_request *q,
			      struct answer *answer)
{
	(void)m;
	require_root();
	REQUIRE(q->device && (unsigned)q->front < FRONT_END_COUNT);
	return reply(answer, q->device);
}

/* Of a request about a volume that only root may make. */
static enum proto_exit of_volume(const char *volume, struct answer *answer)
{
	require_root();
	REQUIRE(volume);
	return reply(answer, volume);
}

enum proto_exit manager_unstage(struct manager *m, const char *volume, bool dry_run,
				struct answer *answer)
{
	(void)m;
	(void)dry_run;
	return of_volume(volume, answer);
}

enum proto_exit manager_expand(struct manager *m, const char *volume, struct answer *answer)
{
	(void)m;
	return of_volume(volume, answer);
}

enum proto_exit manager_unmount_dry(struct manager *m, const char *volume, bool lazy,
				    struct answer *answer)
{
	return manager_unmount(m, volume, lazy, answer);
}

enum proto_exit manager_unmount_by_hand(struct manager *m, const char *volume, const int *place,
					bool lazy, struct answer *answer)
{
	REQUIRE(!place);
	return manager_unmount(m, volume, lazy, answer);
}

enum proto_exit manager_remount(struct manager *m, const char *volume, const int *place,
				const char *mount_options, const json_t *arguments,
				struct answer *answer)
{
	(void)m;
	REQUIRE(!place && json_is_object(arguments));
	require_text(mount_options);
	return of_volume(volume, answer);
}

uint64_t manager_started_ms(const struct manager *m)
{
	(void)m;
	return 1;
}

enum proto_exit manager_update(struct manager *m, const struct update_request *q,
			       struct answer *answer)
{
	(void)m;
	require_root();
	REQUIRE(q->volume && (!q->excludes || json_is_array(q->excludes)));
	return reply(answer, q->volume);
}

bool update_is_refused(const char *key)
{
	return strcmp(key, "target") == 0;
}

enum proto_exit manager_status(struct manager *m, const char *volume, struct answer *answer)
{
	(void)m;
	asked++;
	REQUIRE(asking == PEER_ROOT || !volume || !strchr(volume, '/'));
	return reply(answer, volume);
}

enum proto_exit manager_pause(struct manager *m, const char *volume, bool paused,
			      struct answer *answer)
{
	(void)m;
	(void)paused;
	require_root();
	REQUIRE(volume);
	return reply(answer, volume);
}

enum proto_exit manager_recover(struct manager *m, const char *volume, struct answer *answer)
{
	(void)m;
	return of_volume(volume, answer);
}

enum proto_exit manager_converge(struct manager *m, const char *volume, bool has_rate,
				 uint64_t rate, struct answer *answer)
{
	(void)m;
	REQUIRE(has_rate || rate == 0);
	REQUIRE(rate <= INT64_MAX);
	return of_volume(volume, answer);
}

enum proto_exit manager_wait(struct manager *m, const char *volume, const char *state,
			     uint64_t timeout_ms, int client_fd, struct answer *answer)
{
	(void)m;
	REQUIRE(state && client_fd >= 0 && (timeout_ms <= INT64_MAX || timeout_ms == UINT64_MAX));
	return of_volume(volume, answer);
}

enum proto_exit manager_events(struct manager *m, int64_t after, struct answer *answer)
{
	(void)m;
	asked++;
	answer->result = json_pack("[{s:I, s:s}]", "id", (json_int_t)after, "message", "secret");
	return EXIT_OK;
}

enum proto_exit manager_reconstruct(struct manager *m, bool dry_run, struct answer *answer)
{
	(void)m;
	(void)dry_run;
	return of_volume("", answer);
}

enum proto_exit manager_store_check(struct manager *m, struct answer *answer)
{
	(void)m;
	return of_volume("", answer);
}

enum proto_exit manager_store_dump(struct manager *m, struct answer *answer)
{
	(void)m;
	return of_volume("", answer);
}

enum proto_exit manager_store_restore(struct manager *m, json_t *dump, struct answer *answer)
{
	(void)m;
	REQUIRE(dump);
	return of_volume("", answer);
}

enum proto_exit manager_explain(struct manager *m, const char *path, struct answer *answer)
{
	(void)m;
	REQUIRE(path && path[0] == '/');
	return of_volume(path, answer);
}

bool manager_await_change(struct manager *m, uint64_t *io_generation, uint64_t timeout_ms)
{
	(void)m;
	(void)timeout_ms;
	++*io_generation;
	return false;
}

bool manager_is_stopping(struct manager *m)
{
	(void)m;
	return --looks < 0;
}

bool manager_has_target(struct manager *m, const char *target)
{
	(void)m;
	(void)target;
	return false;
}

enum proto_exit manager_unmount_all(struct manager *m, bool lazy,
				    void (*done)(void *arg, json_t *row), void *arg,
				    struct answer *answer)
{
	json_t *row = json_pack("{s:s}", "volume", "v");

	(void)m;
	(void)lazy;
	REQUIRE(row);
	done(arg, row);
	json_decref(row);
	return of_volume("", answer);
}

enum proto_exit manager_refresh(struct manager *m, enum front_end front, const char *volume,
				json_t *objects, const char *pod, bool dry_run,
				struct answer *answer)
{
	(void)m;
	(void)dry_run;
	(void)objects;
	REQUIRE((unsigned)front < FRONT_END_COUNT);
	require_text(pod);
	return of_volume(volume, answer);
}

enum proto_exit manager_metrics(struct manager *m, struct answer *answer)
{
	(void)m;
	asked++;
	answer->result = json_string("figures");
	return EXIT_OK;
}

enum proto_exit manager_upgrade(struct manager *m, const char *volume, struct answer *answer)
{
	(void)m;
	require_root();
	return reply(answer, volume);
}

void manager_meter(struct manager *m, const char *command, int exit, uint64_t us)
{
	(void)m;
	(void)us;
	REQUIRE(command && exit >= EXIT_OK && exit <= EXIT_NO_VOLUME);
}

/* ---- the client ---- */

/* The keys that the manager above puts into every result for the group not to see. */
static bool shows_secret(const json_t *result)
{
	const json_t *item;
	size_t i;

	json_array_foreach(result, i, item) {
		if (shows_secret(item))
			return true;
	}
	return json_is_string(json_object_get(result, "source")) ||
	       json_is_string(json_object_get(result, "message"));
}

/* What the replies to one request must be: any number with "more", then one without. */
static void read_replies(int fd)
{
	bool more = true;
	json_t *frame = NULL;

	for (unsigned i = 0; more; i++) {
		json_t *error, *exit;
		struct frame in = { .len = 0 };

		REQUIRE(frame_receive_header(&in, fd) == 1);
		REQUIRE(frame_receive_body(&in, fd, PROTO_FRAME_MAX) == 1);
		REQUIRE(proto_parse(in.text, in.have, &frame) == 0);
		frame_reset(&in);
		error = json_object_get(frame, "error");
		exit = json_object_get(frame, "exit");
		REQUIRE(json_is_integer(exit) && json_integer_value(exit) >= EXIT_OK &&
			json_integer_value(exit) <= EXIT_NO_VOLUME);
		REQUIRE((json_integer_value(exit) == EXIT_OK) == !error);
		REQUIRE(!error ||
			(json_string_length(error) > 0 && fuzz_is_line(json_string_value(error))));
		more = json_is_true(json_object_get(frame, "more"));
		REQUIRE(asking == PEER_ROOT || !shows_secret(json_object_get(frame, "result")));
		json_decref(frame);
	}
}

/* Whether the connection goes on. */
static bool ask(int here, int there, const struct frame *frame)
{
	char rest;
	bool more;

	asked = 0;
	looks = 8;
	more = request_serve(NULL, FRONT_CTL, asking, here, frame);
	REQUIRE(asked <= 1);
	read_replies(there);
	REQUIRE(recv(there, &rest, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	return more;
}

/* As the server receives them: what has come so far, and then more. */
static void ask_stream(int here, int there, const uint8_t *data, size_t size)
{
	struct frame frame = { .len = 0 };
	bool more = true;

	for (size_t at = 0; more && at < size;) {
		size_t piece = data[at] % 64 + 1u;
		int r;

		if (piece > size - at)
			piece = size - at;
		REQUIRE(send(there, data + at, piece, 0) == (ssize_t)piece);
		at += piece;
		do {
			r = frame_receive_header(&frame, here);
			if (r == 1)
				r = frame_receive_body(&frame, here, 16);
			REQUIRE(frame.room <= 2 * (frame.have + 4096));
			if (r == 1) {
				more = ask(here, there, &frame);
				frame_reset(&frame);
			}
		} while (r == 1 && more);
		REQUIRE(r == 1 || r == -EAGAIN || r == -EMSGSIZE);
		more = more && r != -EMSGSIZE;
	}
	frame_reset(&frame);
}

static void ask_one(int here, int there, const char *name, const uint8_t *data, size_t size)
{
	AUTO_FREE char *arguments = fuzz_text(data, size);
	AUTO_FREE char *text = NULL;
	int len = asprintf(&text, "{\"command\": \"%s\"%s%s}", name, *arguments ? ", " : "",
			   arguments);

	REQUIRE(len > 0);
	ask(here, there, &(struct frame){ .text = text, .have = (size_t)len });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fds[2];

	/* Streams wait for changes, in real time. */
	if (size < 2 || memmem(data, size, "watch", 5) || memmem(data, size, "follow", 6))
		return 0;
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	log_setup(LOG_ERROR, NULL);
	asking = data[0] & 1 ? PEER_STATUS : PEER_ROOT;
	if (data[0] & 2)
		ask_stream(fds[0], fds[1], data + 1, size - 1);
	else
		ask_one(fds[0], fds[1], names[data[1] % ARRAY_SIZE(names)], data + 2, size - 2);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
