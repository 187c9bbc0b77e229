// SPDX-License-Identifier: Apache-2.0
#include "fs/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/base/version.h"
#include "fs/channel.h"
#include "fs/explain.h"
#include "fs/listing.h"
#include "fs/mounting.h"
#include "fs/overlay.h"
#include "fs/pace.h"
#include "fs/retry.h"
#include "fs/ring.h"
#include "fs/recovery.h"
#include "fs/sandbox.h"
#include "fs/session.h"

/* Seconds; "exclusive": nobody but us changes the lower tree, so what the kernel knows stays true. */
static const double TIMEOUT_EXCLUSIVE = 3600, TIMEOUT_SHARED = 1;

static const int64_t SURVEY_EVERY_MS = 1000;

/*
 * How long users wait for one that gives way while a request takes its time: then it serves on, and tries
 * again.
 */
enum { DRAIN_MS = 50, DRAIN_REST_MS = 25, DRAIN_TRIES = 14 };

struct server {
	struct overlay ov;
	struct explainer explainer;
	int listing_timer_fd; /* listing.h */
	struct retry retry;   /* of a walk that left failures */
	uint64_t walk_began_ns;
	atomic_bool walk_finished; /* set by the walker, taken by the main thread */
	bool is_successor;	   /* of a server that died */
	bool wants_handoff;	   /* converged, nothing forbids it but users */
	bool is_recorded;	   /* the finished run is durably on record */
	bool was_swapped;
	int64_t surveyed_at_ms;	 /* 0: not yet, or not any more */
	uint64_t steps_surveyed; /* of the gate, before the survey; see gate_steps() */
	bool is_asking;		 /* a hand-off is under way */
	bool was_refused;	 /* by the keeper, which then says when to try again */
	bool drain_is_due;	 /* another server waits to follow */
	uint32_t drain_number;	 /* of the keeper's question */
	uint32_t heard;		 /* a bit for each kind of message, while nothing is served */
};

static void set_state(struct server *s, enum overlay_state state, const char *reason)
{
	atomic_store(&s->ov.shared.header->state, state);
	shared_set_reason(&s->ov.shared, reason);
	channel_send(s->ov.channel_fd, CHANNEL_CHANGED, 0, NULL);
}

/* ---- from the walker's thread ---- */

static void on_changed(void *context, uint64_t node_id)
{
	struct server *s = context;

	/* What is shown stays the same but for ctime. */
	if (node_id != 0)
		overlay_invalidate(&s->ov, node_id);
}

static void on_state_changed(void *context)
{
	channel_send(((struct server *)context)->ov.channel_fd, CHANNEL_CHANGED, 0, NULL);
}

static void on_finished(void *context)
{
	struct server *s = context;

	atomic_store(&s->walk_finished, true);
	session_poke(&s->ov);
}

static bool on_no_descriptor(void *context, uint64_t *io_began_ms)
{
	struct overlay *ov = &((struct server *)context)->ov;

	return descriptors_are_kept(&ov->descriptors) &&
	       descriptors_wait(&ov->descriptors, io_began_ms);
}

/* ---- hand-off ---- */

static void finish_hold(struct server *s, bool swapped)
{
	struct gate_request *parked = gate_finish(&s->ov.gate, swapped);

	while (parked) {
		struct gate_request *next = parked->next;

		if (swapped)
			session_answer_error(&s->ov, parked->bytes, parked->len, ESTALE);
		else
			session_serve(&s->ov, parked->bytes, parked->len);
		free(parked);
		parked = next;
	}
}

static void handle_message(struct server *s, const struct channel_message *message);

/* Asks the keeper and waits for its word: true for @wanted. */
static bool ask_keeper(struct server *s, enum channel_kind question, int error,
		       enum channel_kind wanted, char ret_reason[256])
{
	struct channel_message answer;

	snprintf(ret_reason, 256, "the keeper is gone");
	if (channel_send(s->ov.channel_fd, question, error, NULL) < 0)
		return false;
	while (channel_receive(s->ov.channel_fd, &answer) > 0) {
		if (answer.kind == wanted)
			return true;
		if (answer.kind == CHANNEL_REFUSED) {
			snprintf(ret_reason, 256, "%s", answer.text);
			return false;
		}
		/* A TRY that crossed ours is being answered already. */
		if (answer.kind != CHANNEL_TRY)
			handle_message(s, &answer);
	}
	return false;
}

/* Once in a while is enough: where files are opened and closed all the time, each close comes by here. */
static bool survey(struct server *s, char ret_reason[256])
{
	uint64_t steps = gate_steps(&s->ov.gate);

	if (s->surveyed_at_ms != 0 && (int64_t)clock_now_ms() - s->surveyed_at_ms < SURVEY_EVERY_MS)
		return true;
	if (node_opens(s->ov.nodes) > 0)
		steps = 0; /* as good as opened later */
	if (!ask_keeper(s, CHANNEL_SURVEY, 0, CHANNEL_SURVEYED, ret_reason))
		return false;
	s->surveyed_at_ms = (int64_t)clock_now_ms();
	s->steps_surveyed = steps;
	return true;
}

/* Holds opens, and swaps if none is open. */
static bool hold_and_swap(struct server *s, uint64_t *ret_open, char ret_reason[256])
{
	bool swapped = false;

	gate_hold(&s->ov.gate);
	*ret_open = node_opens(s->ov.nodes);
	if (*ret_open == 0) {
		swapped = ask_keeper(s, CHANNEL_SWAP, gate_steps(&s->ov.gate) != s->steps_surveyed,
				     CHANNEL_SWAPPED, ret_reason);
		s->was_refused = !swapped;
		s->surveyed_at_ms = 0; /* what kept it may be a mapping, or a mount */
	}
	s->was_swapped = swapped;
	finish_hold(s, swapped);
	return swapped;
}

static const char *describe_opens(uint64_t open, char ret_reason[256])
{
	ret_reason[0] = '\0';
	if (open > 0)
		snprintf(ret_reason, 256, "%llu open file%s", (unsigned long long)open,
			 open == 1 ? "" : "s");
	return ret_reason;
}

static void try_handoff(struct server *s)
{
	char reason[256] = "";
	uint64_t open;
	bool swapped = false;

	if (!s->wants_handoff || s->was_swapped || s->was_refused || !s->is_recorded ||
	    s->is_asking)
		return;
	open = node_opens(s->ov.nodes);
	if (open == 0) {
		s->is_asking = true;
		s->was_refused = !survey(s, reason);
		if (!s->was_refused)
			swapped = hold_and_swap(s, &open, reason);
		s->is_asking = false;
	}
	if (open > 0)
		describe_opens(open, reason);
	if (swapped)
		set_state(s, OVERLAY_NATIVE, "");
	else if (strcmp(reason, s->ov.shared.header->reason) != 0)
		set_state(s, OVERLAY_CONVERGED, reason);
}

/* ---- the run ---- */

static const char *describe_failures(struct server *s, char ret_reason[256])
{
	/* Written by this process, in a walk that has ended: as it stands in the shared memory. */
	const struct shared_failure *failures = s->ov.shared.header->failures;
	unsigned long long total = atomic_load(&s->ov.shared.header->failed);
	size_t count = s->ov.shared.header->failure_count;
	bool all_same = count > 0, all_immutable = count > 0;

	for (size_t i = 0; i < count; i++) {
		all_same = all_same && failures[i].error == failures[0].error;
		all_immutable = all_immutable && failures[i].is_immutable;
	}
	if (all_immutable)
		snprintf(ret_reason, 256, "%llu immutable file%s", total, total == 1 ? "" : "s");
	else if (all_same && failures[0].error == EROFS)
		snprintf(ret_reason, 256, "read-only file system");
	else
		snprintf(ret_reason, 256, "%llu file%s could not be changed%s%s", total,
			 total == 1 ? "" : "s", all_same ? ": " : "",
			 all_same ? strerror(failures[0].error) : "");
	return ret_reason;
}

static void forget_retry(struct server *s)
{
	retry_forget(&s->retry);
	atomic_store(&s->ov.shared.header->retry_delay_ms, 0);
	atomic_store(&s->ov.shared.header->retry_due_ns, 0);
}

/* A walk left failures. */
static void plan_retry(struct server *s)
{
	struct shared_header *h = s->ov.shared.header;
	uint64_t now = pace_now_ns();

	/* A server that has not walked itself keeps to the plan of the one that has. */
	if (s->walk_began_ns == 0) {
		s->retry.delay_ms = atomic_load(&h->retry_delay_ms);
		s->retry.due_ns = atomic_load(&h->retry_due_ns);
		return;
	}
	retry_schedule(&s->retry, h->failures, h->failure_count, (now - s->walk_began_ns) / 1000000,
		       now);
	atomic_store(&h->retry_delay_ms, s->retry.delay_ms);
	atomic_store(&h->retry_due_ns, s->retry.due_ns);
}

/* What others have removed or moved away directly, before the walk came to it, and somebody has open. */
static void converge_open(void *context, int fd, const struct node_info *node)
{
	struct server *s = context;
	struct stat st;

	if (fstat(fd, &st) == 0)
		converge_moved(s->ov.converger, fd, &st, node->exclude);
}

/* The walk reached the root: what is left decides what the volume is. */
static void conclude(struct server *s)
{
	struct shared_header *h = s->ov.shared.header;
	const struct overlay_options *o = s->ov.options;
	char reason[256];

	if (atomic_load(&h->failed) > 0) {
		plan_retry(s);
		set_state(s, OVERLAY_CONVERGED, describe_failures(s, reason));
		return;
	}
	forget_retry(s);
	if (s->ov.converger && !run_is_over(&s->ov.run))
		node_each_open(s->ov.nodes, converge_open, s);
	/* Nothing is pending any more; the marks stay until the finished run is on record. */
	atomic_store(&h->run_over, 1);
	if (o->run_id[0] == '\0' || atomic_load(&h->run_recorded)) {
		run_finish(&s->ov.run);
		s->is_recorded = true;
	}
	if (atomic_load(&h->excluded) > 0) {
		set_state(s, OVERLAY_CONVERGED, "excluded paths");
		return;
	}
	if (!o->handoff) {
		set_state(s, OVERLAY_CONVERGED, "hand-off is off");
		return;
	}
	s->wants_handoff = true;
	/* Known before the run is on record: whoever waits for "converged" reads why it is not more. */
	set_state(s, OVERLAY_CONVERGED, describe_opens(node_opens(s->ov.nodes), reason));
	try_handoff(s);
}

/* "Converge now": a walk that is paused or throttled goes on, one that left failures begins again. */
static void converge_now(struct server *s)
{
	struct shared_header *h = s->ov.shared.header;
	int r;

	if (!s->ov.converger)
		return;
	converge_wake(s->ov.converger);
	if (atomic_load(&h->failed) == 0)
		return;
	if (!atomic_load(&h->walk_done)) {
		/* What failed already lies behind the walk. */
		converge_again(s->ov.converger);
		return;
	}
	converge_stop(s->ov.converger);
	/* Of what is walked now nothing is known yet: what the walk before has said since is void. */
	atomic_store(&s->walk_finished, false);
	atomic_store(&h->walk_done, 0);
	shared_set_reason(&s->ov.shared, "");
	s->walk_began_ns = pace_now_ns();
	r = converge_start(s->ov.converger);
	if (r < 0)
		set_state(s, OVERLAY_CONVERGED, strerror(-r));
	else
		on_state_changed(s);
}

static void handle_message(struct server *s, const struct channel_message *message)
{
	switch (message->kind) {
	case CHANNEL_CONTROLS:
		if (s->ov.converger)
			converge_wake(s->ov.converger);
		break;
	case CHANNEL_CONVERGE:
		forget_retry(s);
		atomic_store(&s->ov.shared.header->converge_asked, 0);
		converge_now(s);
		break;
	case CHANNEL_FINISHED:
		if (run_is_over(&s->ov.run) && !s->is_recorded) {
			run_finish(&s->ov.run);
			s->is_recorded = true;
		}
		try_handoff(s);
		break;
	case CHANNEL_TRY:
		s->was_refused = false;
		try_handoff(s);
		break;
	case CHANNEL_DRAIN:
		/* Not in the middle of a hand-off. */
		s->drain_is_due = true;
		s->drain_number = message->slot;
		break;
	case CHANNEL_GO_ON: /* we have gone on already */
		break;
	case CHANNEL_STASHED:
		stash_note_shared(&s->ov.stash, message->slot);
		break;
	case CHANNEL_EXPLAIN:
		break; /* without its descriptor: whoever asked will ask again */
	default:
		log_line(LOG_WARNING, "channel", "unexpected message %u (ignoring)", message->kind);
	}
}

/* ---- start ---- */

/* What there is to do decides the first state; *ret_walk: a walker is needed. */
static void choose_first_state(struct server *s, bool *ret_walk)
{
	struct overlay *ov = &s->ov;
	const struct overlay_options *o = ov->options;
	struct stat root;

	*ret_walk = false;
	if (o->ownership != OWNERSHIP_CONVERGE) {
		set_state(s, OVERLAY_VIRTUAL,
			  o->ownership == OWNERSHIP_NONE ? "ownership=none" :
			  o->rule.read_only		 ? "read-only" :
							   "ownership=virtual");
		return;
	}
	if (o->policy == POLICY_ON_ROOT_MISMATCH && tree_stat(ov->tree.root_fd, &root) == 0 &&
	    present_root_matches(&o->rule, &root)) {
		atomic_store(&ov->shared.header->walk_done, 1);
		atomic_store(&s->walk_finished, true);
		set_state(s, OVERLAY_CONVERGED, "");
		session_poke(ov);
		return;
	}
	*ret_walk = true;
}

/* What is to be done where another server has been: its word on the walk stands in the header. */
static void choose_next_state(struct server *s, bool *ret_walk)
{
	struct overlay *ov = &s->ov;
	struct shared_header *h = ov->shared.header;

	*ret_walk = false;
	if (atomic_load(&h->swapped)) {
		s->was_swapped = true;
		ov->gate.state = GATE_SWAPPED;
		set_state(s, OVERLAY_NATIVE, "");
	} else if (atomic_exchange(&h->converge_asked, 0) && s->ov.converger &&
		   !atomic_load(&h->run_over)) {
		atomic_store(&h->walk_done, 0);
		*ret_walk = true;
	} else if (atomic_load(&h->walk_done)) {
		atomic_store(&s->walk_finished, true);
		session_poke(ov);
	} else if (ov->options->ownership == OWNERSHIP_CONVERGE) {
		/* A root that matches by now says nothing: the first server chose to walk. */
		*ret_walk = true;
	} else {
		choose_first_state(s, ret_walk);
	}
}

static enum overlay_atime lower_atime(const struct tree *tree)
{
	struct statvfs st;

	if (fstatvfs(tree->mount_fd, &st) < 0)
		return ATIME_ALWAYS;
	if (st.f_flag & (ST_NOATIME | ST_NODIRATIME | ST_RDONLY))
		return ATIME_NEVER;
	return st.f_flag & ST_RELATIME ? ATIME_RELATIVE : ATIME_ALWAYS;
}

static void log_pin(int error)
{
	if (error < 0)
		log_line(LOG_DEBUG, "pin", "%s (ignoring)", strerror(-error));
}

/* What the next server will need, in the stash or at the keeper. */
static void hold_pin(void *context, uint32_t slot, int fd)
{
	log_pin(stash_hold(&((struct overlay *)context)->stash, slot, fd));
}

static void let_go_of_pin(void *context, uint32_t slot, int *io_fd)
{
	log_pin(stash_let_go(&((struct overlay *)context)->stash, slot, io_fd));
}

/*
 * What is built from the shared memory, and changes it: when no other server serves. A successor takes first
 * what its predecessor has left.
 */
static int attach(struct server *s, const char **ret_step)
{
	struct overlay *ov = &s->ov;
	const struct overlay_options *options = ov->options;
	const struct converge_events events = { on_changed, on_state_changed, on_finished,
						on_no_descriptor, s };
	struct shared_header *h = ov->shared.header;
	int r;

	*ret_step = "shared memory";
	r = shared_refresh(&ov->shared);
	if (r < 0)
		return r;
	gate_init(&ov->gate, &h->gate_retries);
	memcpy(ov->brake.resting, h->brake_resting, sizeof(ov->brake.resting));
	if (atomic_load(&h->data_path_cached))
		atomic_store(&ov->has_passthrough, false);
	ov->atime = lower_atime(&ov->tree);
	*ret_step = "node table";
	r = node_table_new(&ov->shared, &ov->tree, exclude_root(options->exclude), &ov->nodes);
	if (r < 0)
		return r;
	if (ov->tree.has_handles)
		node_keep_at(ov->nodes, &(struct node_keeper){ hold_pin, let_go_of_pin, ov });
	if (ov->is_exclusive)
		node_keep_directories(ov->nodes);
	*ret_step = "run";
	r = run_start(&ov->run, options, &ov->shared, &ov->tree, ov->nodes);
	if (r == 0 && options->ownership == OWNERSHIP_CONVERGE)
		r = converge_new(&ov->run, &ov->brake, &events, &ov->converger);
	return r;
}

/* It must not keep a volume from being served. */
static void open_cpu_latency(struct overlay *ov)
{
	int r;

	cpu_latency_init(&ov->cpu_latency);
	if (ov->options->cpu_latency_us < 0)
		return;
	r = cpu_latency_open(&ov->cpu_latency, CPU_LATENCY_PATH,
			     (uint32_t)ov->options->cpu_latency_us);
	if (r < 0)
		log_line(LOG_WARNING, "cpu_latency", "ignoring cpu_latency=%lld: %s: %s",
			 (long long)ov->options->cpu_latency_us, CPU_LATENCY_PATH, strerror(-r));
}

/* Accesses of the kernel's own are to change no times (tree.h). On tmpfs it forgets no name. */
static void open_quiet(struct tree *tree)
{
	int r = tree->has_handles && !tree->is_tmpfs ?
			mounting_clone_quiet(tree->mount_fd, &tree->quiet_fd) :
			0;

	if (r < 0)
		log_line(LOG_DEBUG, "serve", "a mount without access times: %s (ignoring)",
			 strerror(-r));
}

static int prepare(struct server *s, const struct overlay_options *options,
		   const struct server_fds *fds, const char **ret_step)
{
	struct overlay *ov = &s->ov;
	bool exclusive = options->coherence == COHERENCE_EXCLUSIVE &&
			 options->ownership != OWNERSHIP_VIRTUAL;
	bool over_ring = options->transport == TRANSPORT_IO_URING;
	pid_t raised[LEDGER_THREADS_MAX];
	struct sandbox_uses uses = { .rings = over_ring,
				     .mounts = options->idmap,
				     .raised = raised };
	int root_fd = -1, r;

	ov->options = options;
	ov->device_fd = fds->device;
	ov->channel_fd = fds->channel;
	ov->is_exclusive = exclusive;
	ov->entry_timeout = ov->attr_timeout = exclusive ? TIMEOUT_EXCLUSIVE : TIMEOUT_SHARED;
	explainer_init(&s->explainer, ov);
	prctl(PR_SET_NAME, "fsgroupfs-srv");
	rest_init(&ov->rest);
	descriptors_init(&ov->descriptors);
	cursors_init(&ov->cursors);
	primed_init(&ov->primed, ov->entry_timeout);
	signal(SIGIO, SIG_IGN);		       /* tree_has_no_writer() */
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); /* the keeper's own thrift */

	*ret_step = "shared memory";
	r = shared_attach(fds->shared, &ov->shared);
	if (r < 0)
		return r;
	s->is_successor = ov->shared.header->init_request_len > 0;
	open_cpu_latency(ov);
	*ret_step = "queues of io_uring";
	r = over_ring ? ring_queues(&ov->ring_queues) : 0;
	if (r < 0)
		return r;
	r = sandbox_enter(fds->lower, &ov->proc_fd, &root_fd, ret_step);
	close(fds->lower);
	if (r < 0)
		return r;
	r = sandbox_drop_capabilities(ret_step);
	if (r < 0)
		return r;
	*ret_step = "lower tree";
	r = tree_init(root_fd, &ov->tree);
	if (r < 0)
		return r;
	open_quiet(&ov->tree);
	if (!s->is_successor)
		r = attach(s, ret_step);
	if (r < 0)
		return r;
	*ret_step = "stash";
	r = stash_open(ov->channel_fd, &ov->stash);
	if (r < 0)
		return r;
	*ret_step = "timer";
	r = listing_open_timer(&s->listing_timer_fd);
	if (r < 0)
		return r;
	*ret_step = over_ring ? "session over io_uring" : "session";
	r = session_open(ov);
	if (r == 0) {
		uses.raised_count = session_affine_threads(ov, raised);
		uses.freed = session_follower(ov);
		r = sandbox_lock(&uses, ret_step);
	}
	if (r < 0 || !s->is_successor)
		return r;
	*ret_step = "INIT would be answered otherwise";
	r = session_replay_init(ov);
	if (r == 0)
		shared_touch(&ov->shared);
	return r;
}

/* Waits for the keeper to mount the overlay, and answers INIT. */
static int connect_kernel(struct server *s, const char **ret_step)
{
	struct channel_message message;
	int r, pin = -1;

	*ret_step = "keeper";
	r = channel_send(s->ov.channel_fd, CHANNEL_PREPARED, 0, FSGROUPFS_VERSION);
	if (r < 0)
		return r;
	r = channel_receive_pin(s->ov.channel_fd, &message, &pin);
	/* Whatever the keeper says, it says when nobody else serves any more. */
	if (r > 0 && s->is_successor) {
		int error = attach(s, ret_step);

		if (error < 0)
			return error;
		*ret_step = "keeper";
	}
	while (r > 0 && message.kind == CHANNEL_PIN) {
		node_adopt(s->ov.nodes, message.slot, take_fd(&pin));
		r = channel_receive_pin(s->ov.channel_fd, &message, &pin);
	}
	cleanup_fd(&pin);
	if (r <= 0 || message.kind != CHANNEL_MOUNTED)
		return r < 0 ? r : -ECONNRESET;
	if (s->is_successor) {
		/* Of one that has given way nothing is half done. */
		if (atomic_exchange(&s->ov.shared.header->drained, 0) == 0)
			recovery_run(&s->ov);
		return 0;
	}
	*ret_step = "INIT";
	r = session_answer_init(&s->ov);
	if (r == -ENOSYS)
		*ret_step = "idmap=yes: this kernel has no idmapped FUSE mounts";
	if (r == 0)
		backing_probe(&s->ov);
	return r;
}

/* The keeper asks for the volume's root, and mounts it. Nothing of the tree changes before. */
static int wait_for_target(struct server *s)
{
	struct channel_message message;
	int r = channel_send(s->ov.channel_fd, CHANNEL_SERVING, 0, NULL);

	if (r == 0)
		r = channel_receive(s->ov.channel_fd, &message);
	return r > 0 && message.kind == CHANNEL_ATTACHED ? 0 : r < 0 ? r : -ECONNRESET;
}

/* ---- giving way ---- */

/* Waits until no request is under way. -ETIMEDOUT: one takes too long; they are served on. */
static int drain_requests(struct server *s)
{
	int r = -ETIMEDOUT;

	for (int i = 0; r == -ETIMEDOUT && i < DRAIN_TRIES; i++) {
		if (i > 0) /* users first: nothing tells when the slow one ends */
			poll(NULL, 0, DRAIN_REST_MS);
		r = session_drain(&s->ov, DRAIN_MS);
	}
	return r;
}

/* What of this process's own memory the next server has use for. */
static void leave_behind(struct server *s)
{
	struct shared_header *h = s->ov.shared.header;

	memcpy(h->brake_resting, s->ov.brake.resting, sizeof(h->brake_resting));
	atomic_store(&h->drained, 1);
}

/* The keeper's word: true: the other one serves. Without a keeper there is none. */
static bool is_followed(struct server *s)
{
	struct channel_message message;

	while (channel_receive(s->ov.channel_fd, &message) > 0) {
		if (message.kind == CHANNEL_LEAVE)
			return true;
		if (message.kind == CHANNEL_GO_ON && message.slot == s->drain_number)
			return false;
		if (message.kind == CHANNEL_STASHED) {
			stash_note_shared(&s->ov.stash, message.slot);
			continue;
		}
		/* What stands in the shared memory as well, for the next server to find; who asked for an answer asks again. */
		if (message.kind < 32 && message.kind != CHANNEL_EXPLAIN)
			s->heard |= 1u << message.kind;
	}
	return false;
}

static void handle_heard(struct server *s)
{
	for (uint32_t kind = 0; kind < 32; kind++) {
		if (s->heard & 1u << kind)
			handle_message(s, &(struct channel_message){ .kind = kind });
	}
	s->heard = 0;
}

/* The threads that ask the kernel to forget. */
static int start_asking(struct server *s)
{
	int r = rest_start(&s->ov);

	return r < 0 ? r : descriptors_start(&s->ov);
}

static void stop_asking(struct server *s)
{
	descriptors_stop(&s->ov.descriptors);
	rest_stop(&s->ov.rest);
}

/* Another server waits. Returns whether it has taken over: then this one ends. */
static bool give_way(struct server *s)
{
	bool walks = s->ov.converger && !atomic_load(&s->ov.shared.header->walk_done);
	int r;

	s->drain_is_due = false;
	walks = walks && converge_is_running(s->ov.converger);
	/* First: to end between two files may take as long as a file does, and users go on meanwhile. */
	converge_stop(s->ov.converger);
	walks = walks && !atomic_load(&s->ov.shared.header->walk_done);
	explainer_wait(&s->explainer);
	stop_asking(s);
	r = drain_requests(s);
	if (r == 0)
		leave_behind(s);
	channel_send_drain(s->ov.channel_fd, CHANNEL_DRAINED, s->drain_number, -r);
	if (r == 0 && is_followed(s))
		return true;
	atomic_store(&s->ov.shared.header->drained, 0);
	if (r == 0)
		session_go_on(&s->ov);
	if ((r = start_asking(s)) < 0)
		log_line(LOG_ERROR, "a thread", "%s (ignoring)", strerror(-r));
	if (walks && (r = converge_start(s->ov.converger)) < 0)
		log_line(LOG_ERROR, "converge", "%s", strerror(-r));
	handle_heard(s);
	return false;
}

/* Until the connection's end, or another server takes over: then it returns true. */
static bool serve(struct server *s)
{
	struct pollfd fds[] = {
		{ .fd = session_event_fd(&s->ov), .events = POLLIN },
		{ .fd = s->ov.channel_fd, .events = POLLIN },
		{ .fd = s->listing_timer_fd, .events = POLLIN },
		{ .fd = s->ov.cpu_latency.timer_fd, .events = POLLIN },
	};

	while (!session_has_ended(&s->ov)) {
		struct channel_message message;

		if (poll(fds, ARRAY_SIZE(fds), retry_timeout_ms(&s->retry, pace_now_ns())) < 0)
			continue;
		if (retry_take(&s->retry, pace_now_ns()))
			converge_now(s);
		if (fds[0].revents) {
			uint64_t count;

			if (read(fds[0].fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				log_line(LOG_WARNING, "serve", "eventfd: %m");
			if (atomic_exchange(&s->walk_finished, false))
				conclude(s);
			else
				try_handoff(s);
		}
		if (fds[1].revents) {
			AUTO_FD int sent_fd = -1;

			if (channel_receive_pin(s->ov.channel_fd, &message, &sent_fd) > 0) {
				if (message.kind == CHANNEL_EXPLAIN && sent_fd >= 0)
					explainer_answer(&s->explainer, take_fd(&sent_fd));
				else
					handle_message(s, &message);
			} else {
				log_line(LOG_WARNING, "serve", "the keeper is gone; serving on");
				fds[1].fd = -1;
			}
		}
		if (fds[2].revents)
			listing_drop_due(&s->ov, s->listing_timer_fd);
		if (fds[3].revents)
			cpu_latency_rest(&s->ov.cpu_latency, clock_now_ns());
		if (s->drain_is_due && give_way(s))
			return true;
	}
	return false;
}

int server_main(const struct overlay_options *options, const struct server_fds *fds)
{
	AUTO_FREE struct server *s = calloc(1, sizeof(*s));
	const char *step = "memory";
	bool must_walk = false;
	int r = s ? prepare(s, options, fds, &step) : -ENOMEM;

	if (r == 0)
		r = connect_kernel(s, &step);
	if (r == 0 && s->is_successor) {
		step = "resend";
		choose_next_state(s, &must_walk);
		r = session_resend(&s->ov);
		/* The connection has ended meanwhile: the threads will see. */
		r = r == -ENODEV || r == -ENOTCONN ? 0 : r;
	} else if (r == 0) {
		choose_first_state(s, &must_walk);
	}
	if (r == 0) {
		step = "requests over io_uring";
		r = session_run(&s->ov);
	}
	if (r == 0 && !s->is_successor) {
		step = "keeper";
		r = wait_for_target(s);
	}
	if (r == 0) {
		step = "timer";
		r = listing_start_timer(&s->ov, s->listing_timer_fd);
	}
	if (r == 0) {
		step = "a thread";
		r = start_asking(s);
	}
	if (r == 0) {
		step = "converger";
		if (must_walk) {
			s->walk_began_ns = pace_now_ns();
			r = converge_start(s->ov.converger);
		}
	}
	if (r < 0) {
		channel_send(fds->channel, CHANNEL_FAILED, -r, step);
		return EXIT_FAILURE;
	}
	channel_send(fds->channel, CHANNEL_READY, 0, NULL);
	if (s->ov.tree.has_handles)
		log_pin(stash_offer(&s->ov.stash));
	if (serve(s))
		return CHANNEL_EXIT_DRAINED;
	explainer_wait(&s->explainer);
	converge_stop(s->ov.converger);
	stop_asking(s);
	session_close(&s->ov);
	cpu_latency_close(&s->ov.cpu_latency);
	converge_free(s->ov.converger);
	cursors_fini(&s->ov.cursors);
	node_table_free(s->ov.nodes);
	tree_fini(&s->ov.tree);
	shared_fini(&s->ov.shared);
	return EXIT_SUCCESS;
}
