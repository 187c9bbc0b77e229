// SPDX-License-Identifier: Apache-2.0
#include "fs/run.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/parse.h"
#include "fs/journal.h"
#include "fs/ownership/apply.h"

/* The epoch of a run whose file system has no birth times: what is created in it is marked. */
static const char EPOCH_NONE[] = "none";

static const long CLOCK_STEP_NS = 500 * 1000; /* how often the file system's clock is read */
static const int CLOCK_STEPS = 400;	      /* coarser clocks than 200 ms are taken as none */

static int compare(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

/*
 * Files that were there before have a birth time at or before the first probe's; the epoch is a later
 * tick, so that equal times cannot be mistaken. Nobody can use the overlay yet.
 */
static int find_epoch(const struct tree *tree, struct timespec *ret_epoch)
{
	struct timespec first, now;
	int r = tree_probe_clock(tree, &first);

	for (int i = 0; r == 0 && i < CLOCK_STEPS; i++) {
		const struct timespec step = { .tv_nsec = CLOCK_STEP_NS };

		r = tree_probe_clock(tree, &now);
		if (r == 0 && compare(&now, &first) > 0) {
			*ret_epoch = now;
			return 0;
		}
		/* A clock is waited for: it has no event but its own ticking. */
		nanosleep(&step, NULL);
	}
	return r < 0 ? r : -ETIME;
}

static int parse_epoch(const char *text, struct timespec *ret_epoch)
{
	uint64_t seconds = 0, nanoseconds = 0;
	char copy[40];
	char *point;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	point = strchr(copy, '.');
	if (!point || strlen(point + 1) != 9)
		return -EINVAL;
	*point = '\0';
	if (parse_u64(copy, &seconds) < 0 || parse_u64(point + 1, &nanoseconds) < 0 ||
	    seconds > INT64_MAX)
		return -EINVAL;
	ret_epoch->tv_sec = (time_t)seconds;
	ret_epoch->tv_nsec = (long)nanoseconds;
	return 0;
}

static bool has_epoch(const struct run *run)
{
	return run->epoch.tv_sec != 0 || run->epoch.tv_nsec != 0;
}

static int add_settled(void *context, const struct tree_key *key, uint64_t ino)
{
	struct run *run = context;

	return node_settle_key(run->nodes, key, ino, NODE_SETTLED);
}

/*
 * The first server of a run, or of a run that a new keeper resumes. No epoch is not an error: then
 * creations are marked like changes.
 */
static int begin(struct run *run)
{
	struct shared_header *h = run->shared->header;

	if (run->journal_fd >= 0) {
		int r = journal_read(run->journal_fd, add_settled, run);

		if (r < 0)
			return r;
	}
	if (run->resumed || !run->is_durable)
		return 0;
	if (run->tree->has_btime && find_epoch(run->tree, &run->epoch) == 0)
		snprintf(h->epoch, sizeof(h->epoch), "%lld.%09ld", (long long)run->epoch.tv_sec,
			 run->epoch.tv_nsec);
	else
		strcpy(h->epoch, EPOCH_NONE);
	return 0;
}

int run_start(struct run *ret_run, const struct overlay_options *options, struct shared *shared,
	      const struct tree *tree, struct node_table *nodes)
{
	struct run run = {
		.options = options,
		.shared = shared,
		.tree = tree,
		.nodes = nodes,
		.resumed = options->epoch != NULL,
		.is_durable = options->run_id[0] != '\0',
		.journal_fd = options->journal_fd,
		.journal_lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct shared_header *h = shared->header;
	int r = 0;

	if (options->epoch && strlen(options->epoch) >= sizeof(h->epoch))
		return -EINVAL;
	if (options->epoch)
		strcpy(h->epoch, options->epoch);
	if (h->epoch[0] != '\0' && strcmp(h->epoch, EPOCH_NONE) != 0)
		r = parse_epoch(h->epoch, &run.epoch);
	if (r < 0)
		return r;
	if (options->ownership == OWNERSHIP_CONVERGE && h->init_request_len == 0) {
		r = begin(&run);
		if (r < 0)
			return r;
	}
	*ret_run = run;
	pthread_mutex_init(&ret_run->creating.lock, NULL);
	pthread_cond_init(&ret_run->creating.ended, NULL);
	return 0;
}

unsigned run_creation_begin(struct run *run)
{
	unsigned at = 0;

	pthread_mutex_lock(&run->creating.lock);
	atomic_fetch_add(&run->creating.count, 1);
	while (run->creating.numbers[at] != 0) {
		at++;
		assert(at < RUN_CREATIONS_MAX);
	}
	run->creating.numbers[at] = ++run->creating.begun;
	pthread_mutex_unlock(&run->creating.lock);
	return at;
}

void run_creation_end(struct run *run, unsigned creation)
{
	pthread_mutex_lock(&run->creating.lock);
	run->creating.numbers[creation] = 0;
	atomic_fetch_sub(&run->creating.count, 1);
	pthread_cond_broadcast(&run->creating.ended);
	pthread_mutex_unlock(&run->creating.lock);
}

void run_creation_wait(struct run *run)
{
	uint64_t last;

	/* Whoever made what the walker has seen had counted itself before. */
	if (atomic_load(&run->creating.count) == 0)
		return;
	pthread_mutex_lock(&run->creating.lock);
	last = run->creating.begun;
	for (unsigned at = 0; at < RUN_CREATIONS_MAX; at++) {
		while (run->creating.numbers[at] != 0 && run->creating.numbers[at] <= last)
			pthread_cond_wait(&run->creating.ended, &run->creating.lock);
	}
	pthread_mutex_unlock(&run->creating.lock);
}

bool run_is_over(const struct run *run)
{
	return atomic_load(&run->shared->header->run_over) != 0;
}

bool run_has_birth(const struct run *run, int fd)
{
	struct timespec born, now;

	if (!has_epoch(run) || tree_btime(fd, &born) < 0 || compare(&born, &run->epoch) < 0)
		return false;
	/* A birth time ahead of the file system's clock proves nothing: a clock was set back. */
	return tree_probe_clock(run->tree, &now) == 0 && compare(&born, &now) <= 0;
}

static bool has_mark(const struct run *run, int fd)
{
	char path[TREE_FD_PATH_MAX], id[RUN_ID_LEN];

	return getxattr(tree_fd_path(fd, path), RUN_MARK, id, sizeof(id)) == RUN_ID_LEN &&
	       memcmp(id, run->options->run_id, RUN_ID_LEN) == 0;
}

enum run_reason run_reason(struct run *run, const struct node_info *node, int fd,
			   const struct stat *real)
{
	const struct overlay_options *o = run->options;

	if (o->ownership == OWNERSHIP_NONE)
		return RUN_UNMANAGED;
	if (node->exclude & EXCLUDE_MATCHED)
		return RUN_EXCLUDED;
	if (o->ownership == OWNERSHIP_VIRTUAL)
		return RUN_VIRTUAL;
	if (run_is_over(run))
		return RUN_OVER;
	if (node->flags & NODE_SETTLED)
		return RUN_SETTLED;
	if (o->policy == POLICY_ROOT_ONLY && node->id != node_root(run->nodes))
		return RUN_NOT_ROOT;
	if (present_is_right(&o->rule, real))
		return RUN_RIGHT;
	if (run->resumed && run->is_durable) {
		bool marked = has_mark(run, fd);

		if (marked || run_has_birth(run, fd)) {
			/* Without memory for a slot the next look asks the file again. */
			node_settle(run->nodes, fd, real,
				    NODE_SETTLED | (marked ? NODE_MARKED : 0));
			return marked ? RUN_MARKED : RUN_BORN;
		}
	}
	return RUN_PENDING;
}

bool run_is_pending(struct run *run, const struct node_info *node, int fd, const struct stat *real)
{
	enum run_reason reason = run_reason(run, node, fd, real);

	return reason == RUN_PENDING || reason == RUN_VIRTUAL;
}

void run_show(struct run *run, const struct node_info *node, int fd, struct stat *io_st)
{
	if (run_is_pending(run, node, fd, io_st))
		present(&run->options->rule, io_st);
}

uint64_t run_look(const struct run *run)
{
	return atomic_load(&run->applying.ended);
}

bool run_has_applied(const struct run *run, uint64_t look)
{
	/* Whatever had begun by now had ended by then. */
	return atomic_load(&run->applying.begun) != look;
}

int run_apply(struct run *run, struct halfway_record *record, int fd, const struct stat *before,
	      bool has_no_xattr, struct stat *ret_st)
{
	bool is_visible = !has_no_xattr || before->st_mode & (S_ISUID | S_ISGID);
	bool has_none = has_no_xattr;
	int r;

	if (is_visible)
		atomic_fetch_add(&run->applying.begun, 1);
	if (is_visible)
		has_none = halfway_note(record, run->tree, fd, before, has_no_xattr);
	r = apply_seen(fd, TREE_FD_DIR, &run->options->rule, before, has_none, ret_st);
	halfway_done(record);
	if (is_visible)
		atomic_fetch_add(&run->applying.ended, 1);
	return r;
}

/* Puts the mark on the inode, or into the journal where marks are refused. */
static int make_durable(struct run *run, int fd, const struct stat *st, uint32_t *io_flags)
{
	char path[TREE_FD_PATH_MAX];
	struct tree_key key;
	int r;

	if (setxattr(tree_fd_path(fd, path), RUN_MARK, run->options->run_id, RUN_ID_LEN, 0) == 0) {
		*io_flags |= NODE_MARKED;
		return 0;
	}
	if (errno != EPERM && errno != EOPNOTSUPP)
		return -errno;
	if (run->journal_fd < 0)
		return 0;
	r = tree_key_get(run->tree, fd, st, &key);
	if (r < 0)
		return r;
	pthread_mutex_lock(&run->journal_lock);
	r = journal_append(run->journal_fd, &key, st->st_ino);
	pthread_mutex_unlock(&run->journal_lock);
	return r;
}

int run_note_created(struct run *run, int fd, const struct stat *st, uint32_t *ret_flags)
{
	uint32_t flags = NODE_SETTLED;
	int r;

	*ret_flags = 0;
	/* A run that is over may yet be resumed, which its birth then tells. */
	if (run->options->ownership != OWNERSHIP_CONVERGE || atomic_load(&run->is_finished) ||
	    (run_is_over(run) && has_epoch(run)))
		return 0;
	if (run->is_durable && !has_epoch(run)) {
		r = make_durable(run, fd, st, &flags);
		if (r < 0)
			return r;
	}
	*ret_flags = flags;
	return 0;
}

int run_settle_created(struct run *run, int fd, const struct stat *st)
{
	uint32_t flags;
	int r = run_note_created(run, fd, st, &flags);

	return r < 0 || flags == 0 ? r : node_settle(run->nodes, fd, st, flags);
}

static int settle_changed(struct run *run, struct node_info *io_node, int fd, const struct stat *st)
{
	const struct overlay_options *o = run->options;
	uint32_t flags = NODE_SETTLED;
	int r;

	/* Over is not enough: what is not on record is walked again after the death of all. */
	if (o->ownership != OWNERSHIP_CONVERGE || atomic_load(&run->is_finished) ||
	    io_node->exclude & EXCLUDE_MATCHED || io_node->flags & NODE_SETTLED)
		return 0;
	if (o->policy == POLICY_ROOT_ONLY && io_node->id != node_root(run->nodes))
		return 0;
	if (run_is_pending(run, io_node, fd, st)) {
		struct halfway_record *record = halfway_begin(run->shared, 0);

		r = run_apply(run, record, fd, st, false, NULL);
		halfway_end(record);
		if (r < 0)
			return r;
	}
	if (run->is_durable) {
		r = make_durable(run, fd, st, &flags);
		if (r < 0)
			return r;
	}
	r = node_settle_id(run->nodes, io_node->id, flags);
	if (r == 0)
		io_node->flags |= flags;
	return r;
}

int run_settle_changed(struct run *run, struct node_info *io_node, int fd, const struct stat *st)
{
	/* A run that finishes waits for this: a mark that nobody knows of would stay for ever. */
	unsigned creation = run_creation_begin(run);
	int r = settle_changed(run, io_node, fd, st);

	run_creation_end(run, creation);
	return r;
}

static void unmark(void *context, int fd)
{
	char path[TREE_FD_PATH_MAX];

	(void)context;
	/* A mark that stays is void: no later run has this id. */
	removexattr(tree_fd_path(fd, path), RUN_MARK);
}

void run_note_mark(struct run *run, int fd, const struct stat *st)
{
	if (has_mark(run, fd))
		/* Without memory for a slot the mark stays: it is void for any other run. */
		node_settle(run->nodes, fd, st, NODE_SETTLED | NODE_MARKED);
}

void run_unmark_void(struct run *run, int fd)
{
	char path[TREE_FD_PATH_MAX], id[RUN_ID_LEN];
	ssize_t len = getxattr(tree_fd_path(fd, path), RUN_MARK, id, sizeof(id));

	/* ERANGE: longer than any id. */
	if (len < 0 ? errno == ERANGE :
		      len != RUN_ID_LEN || memcmp(id, run->options->run_id, RUN_ID_LEN) != 0)
		unmark(run, fd);
}

void run_finish(struct run *run)
{
	atomic_store(&run->shared->header->run_over, 1);
	atomic_store(&run->is_finished, true);
	run_creation_wait(run);
	node_release_settled(run->nodes, unmark, run);
}
