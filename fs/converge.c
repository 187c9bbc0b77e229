// SPDX-License-Identifier: Apache-2.0
#include "fs/converge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/scheduling.h"
#include "fs/ownership/apply.h"
#include "fs/pace.h"
#include "fs/walk.h"

enum {
	WALK_THREADS_MAX = 4,
	WAITING_THREADS_MAX = 4, /* beside those, while what they walk in makes them wait */
	MOVED_MAX = 256, /* directories remembered to be walked again; more: the whole tree is */
	PATH_FOR_FAILURE = 4096,
};

static const uint64_t CONVERGE_SLICE_NS = 10 * 1000 * 1000;

struct moved {
	int fd; /* O_PATH */
	uint64_t exclude;
};

struct converger {
	struct run *run;
	struct converge_events events;
	pthread_t thread;
	bool is_running;
	ino_t root_ino; /* of the walking threads, constant while they run */
	dev_t root_dev;

	struct pace pace;
	pthread_mutex_t lock;
	bool again;		       /* guarded by lock: the whole tree must be walked again */
	bool is_done;		       /* guarded by lock */
	struct moved moved[MOVED_MAX]; /* guarded by lock */
	size_t moved_count;	       /* guarded by lock */
	pthread_mutex_t failure_lock;  /* one writer of the failure list at a time */
};

int converge_new(struct run *run, struct brake *brake, const struct converge_events *events,
		 struct converger **ret)
{
	struct converger *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->run = run;
	c->events = *events;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->failure_lock, NULL);
	pace_init(&c->pace, run->shared->header, brake, events->state_changed, events->context);
	*ret = c;
	return 0;
}

static struct shared_header *header(const struct converger *c)
{
	return c->run->shared->header;
}

static bool may_go_on(void *context, bool *io_rested)
{
	return pace_wait(&((struct converger *)context)->pace, io_rested);
}

static bool find_descriptor(void *context, uint64_t *io_began_ms)
{
	const struct converge_events *events = &((struct converger *)context)->events;

	return events->find_descriptor(events->context, io_began_ms);
}

/* ---- one entry ---- */

/* @fd: of the file, to see whether an attribute of it is the cause; -1: it could not be opened. */
static void note_failure(struct converger *c, const struct walk_dir *dir, const char *name, int fd,
			 int error)
{
	bool is_immutable = error == EPERM && fd >= 0 && tree_is_immutable(fd);
	char path[PATH_FOR_FAILURE] = ".";

	if (dir)
		walk_path(dir, name, path, sizeof(path));
	pthread_mutex_lock(&c->failure_lock);
	atomic_fetch_add(&header(c)->failed, 1);
	shared_add_failure(c->run->shared, path, error, is_immutable);
	pthread_mutex_unlock(&c->failure_lock);
}

/* An inode that is to be brought to what is shown. */
struct visited {
	int fd;
	uint64_t ino; /* what the caller thinks its inode number is */
	uint64_t exclude;
	enum { PLACE_ROOT, PLACE_DIRECTORY, PLACE_ENTRY } place;
	const struct walk_dir
		*dir;	  /* where it was met; NULL: the root by itself, or not in a walk */
	const char *name; /* in @dir; "": @dir itself */
	int dir_fd;	  /* the directory that has @name; -1: none */
};

/* What the table knows of an inode; most pending files nobody has looked at. */
static void find_node(struct converger *c, const struct visited *v, const struct stat *st,
		      struct node_info *ret_node)
{
	struct node_table *nodes = c->run->nodes;

	if (!node_may_have(nodes, st->st_ino) || node_find(nodes, v->fd, st, ret_node) < 0)
		*ret_node = (struct node_info){ .id = v->place == PLACE_ROOT ? node_root(nodes) : 0,
						.exclude = v->exclude };
}

/* Whether no name in the directory has changed since the last call of this thread for it. */
static bool names_are_unchanged(int dir_fd)
{
	static __thread struct stat last;
	struct stat now;
	bool same;

	if (tree_stat(dir_fd, &now) < 0)
		return false;
	same = now.st_ino == last.st_ino && now.st_dev == last.st_dev &&
	       now.st_ctim.tv_sec == last.st_ctim.tv_sec &&
	       now.st_ctim.tv_nsec == last.st_ctim.tv_nsec;
	last = now;
	return same;
}

/*
 * A look through /proc at what an O_PATH descriptor is open on costs a fifth of all that converging a file
 * does. A look by name is good as well if the name still is this file's: if the directory is as it was at
 * the entry before.
 */
static bool has_no_xattr(struct converger *c, const struct visited *v)
{
	bool has_none;

	if (v->dir_fd >= 0 && c->run->tree->has_fine_times) {
		has_none = tree_entry_has_no_xattr(v->dir_fd, v->name);
		if (names_are_unchanged(v->dir_fd))
			return has_none;
	}
	return tree_has_no_xattr(v->fd);
}

/* Whether files that are right may carry the run's mark: of an earlier server. */
static bool may_have_marks(const struct converger *c)
{
	return c->run->resumed && c->run->is_durable;
}

/*
 * Brings one inode to what is shown, under its lock. The attributes are read there: what was seen
 * before may be a user's change ago.
 * Returns APPLY_RIGHT, APPLY_CHANGED, -EISDIR (a directory as PLACE_ENTRY) or -errno; *ret_node is what
 * the table has, id 0 for nothing.
 */
static int converge_inode(struct converger *c, struct visited *v, struct node_info *ret_node)
{
	const struct ownership_rule *rule = &c->run->options->rule;
	struct run *run = c->run;
	struct halfway_record *record = NULL;
	struct stat st;
	int r;

	ret_node->id = 0;
	node_lock(run->nodes, v->ino);
	r = tree_stat(v->fd, &st);
	if (r == 0 && st.st_ino != v->ino) {
		/* Some file systems list other numbers than they show. */
		node_unlock(run->nodes, v->ino);
		v->ino = st.st_ino;
		return converge_inode(c, v, ret_node);
	}
	if (r == 0 && S_ISDIR(st.st_mode) && v->place == PLACE_ENTRY)
		r = -EISDIR;
	if (r == 0 && !present_is_right(rule, &st)) {
		find_node(c, v, &st, ret_node);
		if (run_is_pending(run, ret_node, v->fd, &st)) {
			bool has_none = has_no_xattr(c, v);

			if (run->is_durable && !has_none)
				run_unmark_void(run, v->fd);
			record = halfway_begin(run->shared, ret_node->id);
			r = run_apply(run, record, v->fd, &st, has_none, NULL);
		}
	} else if (r == 0 && may_have_marks(c) && !has_no_xattr(c, v)) {
		run_note_mark(run, v->fd, &st);
	}
	node_unlock(run->nodes, v->ino);
	if (r == APPLY_CHANGED)
		c->events.changed(c->events.context, ret_node->id);
	if (record)
		halfway_end(record);
	return r;
}

/* Returns APPLY_RIGHT, APPLY_CHANGED, or -EISDIR and -errno like converge_inode(); counted but for -EISDIR. */
static int converge_entry(struct converger *c, struct visited *v)
{
	struct shared_header *h = header(c);
	struct node_info node;
	uint64_t began_ms = 0;
	int r;

	/* What a user is making this moment is not pending, though the table does not know it yet. */
	run_creation_wait(c->run);
	do
		r = converge_inode(c, v, &node);
	while (r == -EMFILE && find_descriptor(c, &began_ms));
	if (r == -EISDIR)
		return r;
	atomic_fetch_add(&h->seen, 1);
	if (r == APPLY_CHANGED) {
		atomic_fetch_add(&h->changed, 1);
	} else if (r == APPLY_RIGHT || r == -ESTALE || r == -ENOENT) {
		/* Right, or deleted under the walk. */
		atomic_fetch_add(&h->correct, 1);
	} else {
		note_failure(c, v->dir, v->name, v->fd, -r);
	}
	return r;
}

static void count_excluded(struct converger *c)
{
	atomic_fetch_add(&header(c)->seen, 1);
	atomic_fetch_add(&header(c)->excluded, 1);
}

/* ---- the walk ---- */

/*
 * A file that is right costs one stat and no descriptor, a file that is not no stat but the one under its
 * lock: what the last file was the next one probably is.
 */
static bool on_file(void *context, const struct walk_dir *dir, int dir_fd,
		    const struct tree_entry *entry)
{
	static __thread bool expects_right;
	struct converger *c = context;
	struct shared_header *h = header(c);
	uint64_t exclude =
		exclude_child(c->run->options->exclude, walk_state(dir), entry->name, false);
	AUTO_FD int fd = -1;
	uint64_t began_ms = 0;
	struct stat st;
	int r = 0;

	if (exclude & EXCLUDE_MATCHED) {
		count_excluded(c);
		return true;
	}
	if (expects_right) {
		r = tree_stat_entry(dir_fd, entry->name, &st);
		if (r == 0 && S_ISDIR(st.st_mode))
			return false;
		if (r == 0 && present_is_right(&c->run->options->rule, &st) &&
		    (!may_have_marks(c) || tree_entry_has_no_xattr(dir_fd, entry->name))) {
			atomic_fetch_add(&h->seen, 1);
			atomic_fetch_add(&h->correct, 1);
			return true;
		}
	}
	if (r == 0) {
		do
			r = tree_pin(dir_fd, entry->name, &fd, NULL);
		while (r == -EMFILE && find_descriptor(c, &began_ms));
	}
	if (r == 0) {
		struct visited v = {
			fd, entry->ino, exclude, PLACE_ENTRY, dir, entry->name, dir_fd
		};

		r = converge_entry(c, &v);
		expects_right = r == APPLY_RIGHT;
		return r != -EISDIR;
	}
	if (r != -ENOENT) {
		atomic_fetch_add(&h->seen, 1);
		note_failure(c, dir, entry->name, -1, -r);
	}
	return true;
}

static bool on_enter(void *context, const struct walk_dir *dir, const char *name,
		     uint64_t *ret_state)
{
	struct converger *c = context;

	*ret_state = exclude_child(c->run->options->exclude, walk_state(dir), name, true);
	if (!(*ret_state & EXCLUDE_MATCHED))
		return true;
	count_excluded(c);
	return false;
}

/* Only the walk of the whole tree begins at the root; one of what was moved begins elsewhere. */
static void on_leave(void *context, const struct walk_dir *dir, int fd, const struct stat *st)
{
	struct converger *c = context;
	bool is_root = walk_is_first(dir) && st->st_ino == c->root_ino && st->st_dev == c->root_dev;
	struct visited v = {
		fd, st->st_ino, walk_state(dir), is_root ? PLACE_ROOT : PLACE_DIRECTORY, dir, "", -1
	};

	converge_entry(c, &v);
}

static void on_failed(void *context, const struct walk_dir *dir, const char *name, int error)
{
	struct converger *c = context;

	if (name[0])
		atomic_fetch_add(&header(c)->seen, 1);
	note_failure(c, dir, name, -1, error);
}

static unsigned thread_count(void)
{
	unsigned n = scheduling_processors();

	return n > WALK_THREADS_MAX ? WALK_THREADS_MAX : n;
}

/* Walks the tree below @fd. Returns false when it was stopped. */
static bool walk_below(struct converger *c, int fd, uint64_t exclude)
{
	const struct walk_hooks hooks = { may_go_on, on_file,	      on_enter, on_leave,
					  on_failed, find_descriptor, c };
	int r = walk_tree(c->run->tree, fd, exclude, thread_count(), WAITING_THREADS_MAX, &hooks);

	if (r < 0 && r != -ESTALE)
		note_failure(c, NULL, "", -1, -r);
	return r != 0;
}

static bool take_moved(struct converger *c, struct moved *ret_moved)
{
	bool found;

	pthread_mutex_lock(&c->lock);
	found = c->moved_count > 0;
	if (found)
		*ret_moved = c->moved[--c->moved_count];
	pthread_mutex_unlock(&c->lock);
	return found;
}

/*
 * What was moved while the tree was walked. Returns false when it was stopped before all of that was walked; whoever goes
 * on then begins at the root, and comes by there.
 */
static bool walk_moved(struct converger *c)
{
	struct moved moved;

	while (take_moved(c, &moved)) {
		bool go_on = walk_below(c, moved.fd, moved.exclude);

		cleanup_fd(&moved.fd);
		if (!go_on)
			return false;
	}
	return true;
}

/* Once around the tree. Only the root's own policy spares the walk. */
static bool walk_all(struct converger *c)
{
	const struct overlay_options *o = c->run->options;
	struct shared_header *h = header(c);
	int root = c->run->tree->root_fd, r;
	struct stat st;

	atomic_store(&h->failed, 0);
	atomic_store(&h->seen, 0);
	atomic_store(&h->correct, 0);
	atomic_store(&h->excluded, 0);
	shared_clear_failures(c->run->shared);
	r = tree_stat(root, &st);
	if (r < 0) {
		note_failure(c, NULL, "", -1, -r);
		return true;
	}
	if (o->policy == POLICY_ROOT_ONLY) {
		struct visited v = { root, st.st_ino, 0, PLACE_ROOT, NULL, "", -1 };

		converge_entry(c, &v);
		return true;
	}
	c->root_ino = st.st_ino;
	c->root_dev = st.st_dev;
	return walk_below(c, root, exclude_root(o->exclude));
}

/* Whether all is walked; decided under the lock, against converge_moved(). */
static bool is_all_walked(struct converger *c)
{
	bool done;

	pthread_mutex_lock(&c->lock);
	done = c->moved_count == 0 && !c->again;
	if (done)
		c->is_done = true;
	pthread_mutex_unlock(&c->lock);
	return done;
}

/*
 * This thread and those that it makes: disk and processors are first for the threads that serve users, with which
 * they share what the system gives to the server. Schedulers without I/O classes do not heed the first.
 *
 * The slice is longer than anybody's who did not ask for one: a thread that wakes takes the processor from who has
 * the longer slice at once (Linux 6.12), and else waits out what is left of the walker's, milliseconds.
 */
static void step_back(void)
{
	struct scheduling scheduling = {
		.size = sizeof(scheduling),
		.policy = SCHED_BATCH,
		.nice = CONVERGE_NICE,
		.slice_ns = CONVERGE_SLICE_NS,
	};
	int r;

	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		    IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)) < 0)
		log_line(LOG_DEBUG, "converge", "idle I/O class: %m (ignoring)");
	r = scheduling_set(&scheduling);
	if (r < 0)
		log_line(LOG_DEBUG, "converge", "priority: %s (ignoring)", strerror(-r));
}

static void *run_walk(void *argument)
{
	struct converger *c = argument;
	bool go_on = true, whole = true;

	step_back();
	while (go_on) {
		if (whole)
			go_on = walk_all(c);
		go_on = go_on && walk_moved(c);
		if (!go_on || is_all_walked(c))
			break;
		pthread_mutex_lock(&c->lock);
		whole = c->again;
		c->again = false;
		pthread_mutex_unlock(&c->lock);
	}
	brake_set(c->pace.brake, false);
	if (go_on) {
		atomic_store(&header(c)->rate, 0);
		atomic_store(&header(c)->walk_done, 1);
		c->events.finished(c->events.context);
	}
	return NULL;
}

int converge_start(struct converger *c)
{
	int r;

	pace_start(&c->pace);
	pthread_mutex_lock(&c->lock);
	c->is_done = false;
	pthread_mutex_unlock(&c->lock);
	atomic_store(&header(c)->state,
		     atomic_load(&header(c)->paused) ? OVERLAY_PRESENTED : OVERLAY_CONVERGING);
	r = pthread_create(&c->thread, NULL, run_walk, c);

	c->is_running = r == 0;
	return -r;
}

void converge_stop(struct converger *c)
{
	if (!c || !c->is_running)
		return;
	pace_stop(&c->pace);
	pthread_join(c->thread, NULL);
	c->is_running = false;
}

bool converge_is_running(const struct converger *c)
{
	return c->is_running;
}

void converge_free(struct converger *c)
{
	if (!c)
		return;
	assert(!c->is_running);
	while (c->moved_count > 0)
		cleanup_fd(&c->moved[--c->moved_count].fd);
	free(c);
}

void converge_again(struct converger *c)
{
	pthread_mutex_lock(&c->lock);
	c->again = true;
	pthread_mutex_unlock(&c->lock);
}

void converge_wake(struct converger *c)
{
	pace_wake(&c->pace);
}

bool converge_is_done(struct converger *c)
{
	bool done;

	pthread_mutex_lock(&c->lock);
	done = c->is_done;
	pthread_mutex_unlock(&c->lock);
	return done;
}

void converge_moved(struct converger *c, int fd, const struct stat *st, uint64_t exclude)
{
	struct node_info node;

	if (run_is_over(c->run) || exclude & EXCLUDE_MATCHED)
		return;
	/* A removed directory has nothing below. */
	if (!S_ISDIR(st->st_mode) || st->st_nlink == 0) {
		struct visited v = { fd, st->st_ino, exclude, PLACE_DIRECTORY, NULL, "", -1 };
		int r = converge_inode(c, &v, &node);

		if (r == APPLY_CHANGED) {
			atomic_fetch_add(&header(c)->changed, 1);
			return;
		}
		if (r >= 0 || r == -ENOENT || r == -ESTALE || st->st_nlink == 0)
			return;
	}
	pthread_mutex_lock(&c->lock);
	if (!c->is_done) {
		int copy = S_ISDIR(st->st_mode) && c->moved_count < MOVED_MAX ?
				   fcntl(fd, F_DUPFD_CLOEXEC, 0) :
				   -1;

		if (copy >= 0)
			c->moved[c->moved_count++] =
				(struct moved){ .fd = copy, .exclude = exclude };
		else
			c->again = true;
	}
	pthread_mutex_unlock(&c->lock);
}
