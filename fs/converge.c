// SPDX-License-Identifier: Apache-2.0
#include "fs/converge.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/ownership/apply.h"

enum {
	ENTRIES_BYTES = 32 * 1024,
	FRAMES_WITH_BUFFER = 64, /* deeper directories read their entries again when the walk returns */
	MOVED_MAX = 256,	 /* directories remembered to be walked again; more: the whole tree is */
	PATH_FOR_FAILURE = 4096,
	RATE_WINDOW_MS = 1000,
};

/* One directory on the way from the root of a walk to where it is. */
struct frame {
	struct tree_key key;
	struct stat st;
	int fd;		/* O_RDONLY while it is the deepest, or where handles cannot be opened; else -1 */
	uint64_t exclude;
	off_t next;	/* where the next entries are read */
	char *entries;	/* ENTRIES_BYTES, or NULL */
	ssize_t filled, at;
	size_t path_len; /* of the path buffer before this directory's name */
};

struct moved {
	int fd; /* O_PATH */
	uint64_t exclude;
};

struct walk {
	struct frame *frames;
	size_t depth, capacity;
	char path[PATH_FOR_FAILURE]; /* for messages only; cut when too long */
	size_t path_len;
};

struct converger {
	struct run *run;
	struct converge_events events;
	pthread_t thread;
	bool is_running;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;			/* guarded by lock */
	bool again;			/* guarded by lock: the whole tree must be walked again */
	bool is_done;			/* guarded by lock */
	struct moved moved[MOVED_MAX];	/* guarded by lock */
	size_t moved_count;		/* guarded by lock */

	/* Of the walking thread only. */
	struct timespec window_start;
	uint64_t window_seen;
};

int converge_new(struct run *run, const struct converge_events *events, struct converger **ret)
{
	struct converger *c = calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;

	if (!c)
		return -ENOMEM;
	c->run = run;
	c->events = *events;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*ret = c;
	return 0;
}

static struct shared_header *header(const struct converger *c)
{
	return c->run->shared->header;
}

/* ---- pace: pause, rate, stop ---- */

static int64_t elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static void begin_window(struct converger *c)
{
	clock_gettime(CLOCK_MONOTONIC, &c->window_start);
	c->window_seen = 0;
}

/* Waits out the rest of a window whose share of files is used up. Lock held. */
static void wait_for_rate(struct converger *c)
{
	uint64_t rate = atomic_load(&header(c)->converge_rate);
	struct timespec until = c->window_start;

	if (rate == 0 || c->window_seen < rate)
		return;
	until.tv_sec += RATE_WINDOW_MS / 1000;
	while (!c->stop && !atomic_load(&header(c)->paused)) {
		if (pthread_cond_timedwait(&c->wake, &c->lock, &until) == ETIMEDOUT)
			break;
		rate = atomic_load(&header(c)->converge_rate);
		if (rate == 0 || c->window_seen < rate)
			return;
	}
}

static void set_state(struct converger *c, enum overlay_state state)
{
	if (atomic_exchange(&header(c)->state, state) != state)
		c->events.state_changed(c->events.context);
}

/* While it is paused nothing walks, and the state says so. Lock held. */
static void wait_while_paused(struct converger *c)
{
	if (c->stop || !atomic_load(&header(c)->paused))
		return;
	atomic_store(&header(c)->rate, 0);
	set_state(c, OVERLAY_PRESENTED);
	while (!c->stop && atomic_load(&header(c)->paused))
		pthread_cond_wait(&c->wake, &c->lock);
	set_state(c, OVERLAY_CONVERGING);
	begin_window(c);
}

/* Before each entry. Returns false when the walk must end. */
static bool may_go_on(struct converger *c)
{
	bool stop;

	pthread_mutex_lock(&c->lock);
	wait_for_rate(c);
	wait_while_paused(c);
	stop = c->stop;
	pthread_mutex_unlock(&c->lock);
	if (c->window_seen % 64 == 0 || atomic_load(&header(c)->converge_rate) != 0) {
		int64_t ms = elapsed_ms(&c->window_start);

		if (ms >= RATE_WINDOW_MS) {
			atomic_store(&header(c)->rate, c->window_seen * 1000 / (uint64_t)ms);
			begin_window(c);
		}
	}
	c->window_seen++;
	return !stop;
}

/* ---- one entry ---- */

/* @fd: of the file, to see whether an attribute of it is the cause; -1: it could not be opened. */
static void note_failure(struct converger *c, const struct walk *w, const char *name, int fd,
			 int error)
{
	char path[PATH_FOR_FAILURE + TREE_NAME_MAX + 2];

	snprintf(path, sizeof(path), "%.*s%s%s", (int)w->path_len, w->path,
		 w->path_len > 0 && *name ? "/" : "", *name ? name : w->path_len > 0 ? "" : ".");
	atomic_fetch_add(&header(c)->failed, 1);
	shared_add_failure(c->run->shared, path, error,
			   error == EPERM && fd >= 0 && tree_is_immutable(fd));
}

/*
 * Brings one inode to what is shown, under its lock. The attributes are read again there: what the
 * caller saw may be a user's change ago.
 * Returns APPLY_RIGHT, APPLY_CHANGED or -errno; *ret_node is what the table has, id 0 for nothing.
 */
static int converge_inode(struct converger *c, int fd, uint64_t ino, uint64_t exclude, bool is_root,
			  struct node_info *ret_node)
{
	struct run *run = c->run;
	struct stat st;
	int r;

	node_lock(run->nodes, ino);
	r = tree_stat(fd, &st);
	if (r == 0 && node_find(run->nodes, fd, &st, ret_node) < 0)
		*ret_node = (struct node_info){ .id = is_root ? NODE_ROOT : 0, .exclude = exclude };
	if (r == 0 && run_is_pending(run, ret_node, fd, &st)) {
		if (run->is_durable)
			run_unmark_void(run, fd);
		r = apply_entry(fd, TREE_FD_DIR, &run->options->rule, NULL);
	}
	node_unlock(run->nodes, ino);
	return r;
}

static void converge_entry(struct converger *c, const struct walk *w, const char *name, int fd,
			   const struct stat *st, uint64_t exclude, bool is_root)
{
	struct shared_header *h = header(c);
	struct node_info node = { .id = 0 };
	int r;

	atomic_fetch_add(&h->seen, 1);
	if (exclude & EXCLUDE_MATCHED) {
		atomic_fetch_add(&h->excluded, 1);
		return;
	}
	if (present_is_right(&c->run->options->rule, st)) {
		atomic_fetch_add(&h->correct, 1);
		return;
	}
	/* What a user is making this moment is not pending, though the table does not know it yet. */
	run_creation_wait(c->run);
	r = converge_inode(c, fd, st->st_ino, exclude, is_root, &node);
	if (r == APPLY_RIGHT) {
		atomic_fetch_add(&h->correct, 1);
	} else if (r == APPLY_CHANGED) {
		atomic_fetch_add(&h->changed, 1);
		c->events.changed(c->events.context, node.id);
	} else if (r == -ESTALE || r == -ENOENT) {
		/* Deleted under the walk. */
		atomic_fetch_add(&h->correct, 1);
	} else {
		note_failure(c, w, name, fd, -r);
	}
}

/* ---- the walk ---- */

static void frame_close(struct frame *f)
{
	free(f->entries);
	f->entries = NULL;
	cleanup_fd(&f->fd);
}

static int walk_push(struct converger *c, struct walk *w, int fd, const struct stat *st,
		     uint64_t exclude, const char *name)
{
	struct frame *f;
	int r;

	if (w->depth == w->capacity) {
		size_t capacity = w->capacity ? 2 * w->capacity : 64;
		struct frame *frames = reallocarray(w->frames, capacity, sizeof(*frames));

		if (!frames)
			return -ENOMEM;
		w->frames = frames;
		w->capacity = capacity;
	}
	f = &w->frames[w->depth];
	*f = (struct frame){ .st = *st, .fd = -1, .exclude = exclude, .path_len = w->path_len };
	r = tree_key_get(c->run->tree, fd, st, &f->key);
	if (r == 0)
		r = tree_reopen(fd, st->st_mode, O_RDONLY | O_DIRECTORY | O_NOATIME, &f->fd);
	if (r == -EPERM)
		/* O_NOATIME is for owners and CAP_FOWNER: in a user namespace a foreign owner refuses it. */
		r = tree_reopen(fd, st->st_mode, O_RDONLY | O_DIRECTORY, &f->fd);
	if (r < 0)
		return r;
	if (w->depth > 0 && f->key.is_handle)
		cleanup_fd(&w->frames[w->depth - 1].fd);
	if (w->depth >= FRAMES_WITH_BUFFER) {
		struct frame *parent = &w->frames[w->depth - 1];

		free(parent->entries);
		parent->entries = NULL;
		parent->filled = parent->at = 0;
	}
	w->depth++;
	if (w->path_len + strlen(name) + 2 < sizeof(w->path)) {
		w->path_len += (size_t)sprintf(w->path + w->path_len, "%s%s",
					       w->path_len > 0 ? "/" : "", name);
	}
	return 0;
}

/* Opens the deepest directory again after its child was left. */
static int frame_reopen(struct converger *c, struct frame *f)
{
	AUTO_FD int fd = -1;
	int r;

	if (f->fd >= 0)
		return 0;
	r = tree_open_handle(c->run->tree, &f->key, &fd);
	if (r == 0)
		r = tree_reopen(fd, f->st.st_mode, O_RDONLY | O_DIRECTORY | O_NOATIME, &f->fd);
	return r;
}

struct linux_dirent64 {
	ino64_t d_ino;
	off64_t d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

/* The next entry of the directory: 1, 0 at its end, or -errno. */
static int frame_next(struct converger *c, struct frame *f, struct linux_dirent64 **ret_entry)
{
	int r;

	if (f->at >= f->filled) {
		r = frame_reopen(c, f);
		if (r < 0)
			return r;
		if (!f->entries)
			f->entries = malloc(ENTRIES_BYTES);
		if (!f->entries)
			return -ENOMEM;
		if (lseek(f->fd, f->next, SEEK_SET) < 0)
			return -errno;
		f->filled = syscall(SYS_getdents64, f->fd, f->entries, ENTRIES_BYTES);
		f->at = 0;
		if (f->filled < 0) {
			f->filled = 0;
			return -errno;
		}
		if (f->filled == 0)
			return 0;
	}
	*ret_entry = (struct linux_dirent64 *)(f->entries + f->at);
	f->at += (*ret_entry)->d_reclen;
	f->next = (*ret_entry)->d_off;
	return 1;
}

/*
 * Most files of most runs are right already: one stat, no descriptor, no lock. Directories are walked
 * whatever they look like.
 */
static bool is_settled_by_sight(struct converger *c, const struct frame *f, const char *name,
				const struct stat *st)
{
	struct shared_header *h = header(c);
	const struct exclude *exclude = c->run->options->exclude;

	if (S_ISDIR(st->st_mode) || !present_is_right(&c->run->options->rule, st))
		return false;
	atomic_fetch_add(&h->seen, 1);
	if (!exclude_is_empty(exclude) &&
	    exclude_child(exclude, f->exclude, name, false) & EXCLUDE_MATCHED)
		atomic_fetch_add(&h->excluded, 1);
	else
		atomic_fetch_add(&h->correct, 1);
	return true;
}

static void visit(struct converger *c, struct walk *w, const char *entry_name)
{
	struct frame *f = &w->frames[w->depth - 1];
	AUTO_FD int fd = -1;
	char name[TREE_NAME_MAX + 1];
	struct stat st;
	uint64_t exclude;
	int r;

	if (!tree_name_is_valid(entry_name))
		return;
	/* walk_push() may free the buffer that the entry lies in. */
	strcpy(name, entry_name);
	r = frame_reopen(c, f);
	if (r == 0)
		r = tree_stat_entry(f->fd, name, &st);
	if (r == 0 && is_settled_by_sight(c, f, name, &st))
		return;
	if (r == 0)
		r = tree_pin(f->fd, name, &fd, &st);
	if (r == -ENOENT)
		return;
	if (r < 0) {
		atomic_fetch_add(&header(c)->seen, 1);
		note_failure(c, w, name, -1, -r);
		return;
	}
	exclude = exclude_child(c->run->options->exclude, f->exclude, name, S_ISDIR(st.st_mode));
	if (!S_ISDIR(st.st_mode) || exclude & EXCLUDE_MATCHED) {
		converge_entry(c, w, name, fd, &st, exclude, false);
		return;
	}
	r = walk_push(c, w, fd, &st, exclude, name);
	if (r < 0 && r != -ENOENT && r != -ESTALE) {
		/* What lies below is not seen: the directory itself can still be right. */
		note_failure(c, w, name, -1, -r);
		converge_entry(c, w, name, fd, &st, exclude, false);
	}
}

/* Leaves the deepest directory: its children are done, so now it is its turn. */
static void leave(struct converger *c, struct walk *w, bool is_whole_tree)
{
	struct frame *f = &w->frames[w->depth - 1];
	AUTO_FD int fd = -1;
	struct stat st;
	int r = 0;

	if (f->fd >= 0)
		fd = take_fd(&f->fd);
	else
		r = tree_open_handle(c->run->tree, &f->key, &fd);
	if (r == 0)
		r = tree_stat(fd, &st);
	if (r == 0)
		converge_entry(c, w, "", fd, &st, f->exclude, is_whole_tree && w->depth == 1);
	else if (r != -ESTALE)
		note_failure(c, w, "", -1, -r);
	w->path_len = f->path_len;
	w->path[w->path_len] = '\0';
	frame_close(f);
	w->depth--;
}

/* Walks the tree below @fd. Returns false when it was stopped. */
static bool walk_tree(struct converger *c, int fd, uint64_t exclude, bool is_whole_tree)
{
	AUTO_FREE struct walk *w = calloc(1, sizeof(*w));
	struct stat st;
	bool go_on = true;
	int r;

	if (!w) {
		atomic_fetch_add(&header(c)->failed, 1);
		return true;
	}
	r = tree_stat(fd, &st);
	if (r == 0)
		r = walk_push(c, w, fd, &st, exclude, "");
	if (r < 0 && r != -ESTALE)
		note_failure(c, w, "", -1, -r);
	while (w->depth > 0 && (go_on = may_go_on(c))) {
		struct linux_dirent64 *entry = NULL;

		r = frame_next(c, &w->frames[w->depth - 1], &entry);
		if (r > 0) {
			visit(c, w, entry->d_name);
			continue;
		}
		if (r < 0 && r != -ESTALE && r != -ENOENT)
			note_failure(c, w, "", -1, -r);
		leave(c, w, is_whole_tree);
	}
	while (w->depth > 0)
		frame_close(&w->frames[--w->depth]);
	free(w->frames);
	return go_on;
}

static bool take_moved(struct converger *c, struct moved *ret_moved)
{
	bool found;

	pthread_mutex_lock(&c->lock);
	found = c->moved_count > 0 && !c->stop;
	if (found)
		*ret_moved = c->moved[--c->moved_count];
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* What was moved while the tree was walked. Returns false when it was stopped. */
static bool walk_moved(struct converger *c)
{
	struct moved moved;

	while (take_moved(c, &moved)) {
		bool go_on = walk_tree(c, moved.fd, moved.exclude, false);

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
	int root = c->run->tree->root_fd;

	atomic_store(&h->failed, 0);
	atomic_store(&h->seen, 0);
	atomic_store(&h->correct, 0);
	atomic_store(&h->excluded, 0);
	shared_clear_failures(c->run->shared);
	if (o->policy == POLICY_ROOT_ONLY) {
		struct walk w = { .depth = 0 };
		struct stat st;
		int r = tree_stat(root, &st);

		if (r == 0)
			converge_entry(c, &w, "", root, &st, 0, true);
		else
			note_failure(c, &w, "", -1, -r);
		return true;
	}
	return walk_tree(c, root, exclude_root(o->exclude), true);
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

static void *run_walk(void *argument)
{
	struct converger *c = argument;
	bool go_on = true, whole = true;

	begin_window(c);
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

	c->stop = false;
	c->is_done = false;
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
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->is_running = false;
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

void converge_wake(struct converger *c)
{
	pthread_mutex_lock(&c->lock);
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
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
	if (!S_ISDIR(st->st_mode)) {
		int r = converge_inode(c, fd, st->st_ino, exclude, false, &node);

		if (r == APPLY_CHANGED) {
			atomic_fetch_add(&header(c)->changed, 1);
			c->events.changed(c->events.context, node.id);
			return;
		}
		if (r >= 0 || r == -ENOENT || r == -ESTALE)
			return;
	}
	pthread_mutex_lock(&c->lock);
	if (!c->is_done) {
		int copy = S_ISDIR(st->st_mode) && c->moved_count < MOVED_MAX ?
				   fcntl(fd, F_DUPFD_CLOEXEC, 0) :
				   -1;

		if (copy >= 0)
			c->moved[c->moved_count++] = (struct moved){ .fd = copy, .exclude = exclude };
		else
			c->again = true;
	}
	pthread_mutex_unlock(&c->lock);
}
