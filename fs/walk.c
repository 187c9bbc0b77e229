// SPDX-License-Identifier: Apache-2.0
#include "fs/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/waits.h"

/* Directories this deep keep descriptor and entries while their thread is below; deeper ones read again. */
enum { DEPTH_KEPT = 16 };

enum {
	ENTRIES_BYTES = 64 * 1024,
	ENTRIES_BYTES_DEEP = 4 * 1024,
	ENTRIES_MAX = ENTRIES_BYTES / 24, /* offsetof(name) + 1, in steps of 8 */
	THREADS_MAX = 8,
	QUEUED_AHEAD = 2, /* directories for each other thread that wait for one */
};

/* A piece of a directory's listing, and the order in which its entries are visited. */
struct listing {
	uint32_t count, at;
	uint16_t order[ENTRIES_MAX]; /* places in bytes, in units of 8 */
	char bytes[ENTRIES_BYTES] __attribute__((aligned(8)));
};

struct walk_dir {
	struct walk_dir *parent; /* NULL: the first; lives as long as its children */
	struct walk_dir *next; /* in the queue, or below on the stack of the thread that lists it */
	struct walk_dir *all_prev, *all_next; /* guarded by walk->lock */
	atomic_uint pending; /* its own listing, and its subdirectories that are not left yet */
	unsigned depth;
	uint64_t state;
	struct tree_key key;
	int fd;	      /* O_RDONLY; -1 where it is suspended, and its handle can be opened */
	off_t cookie; /* where the next entries are read */
	struct listing *listing; /* or NULL */
	char name[];		 /* in its parent; "" for the first */
};

struct walk {
	const struct tree *tree;
	const struct walk_hooks *hooks;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_cond_t for_further; /* there is something for the further threads */
	struct walk_dir *queue;	    /* directories given away; guarded by lock */
	struct walk_dir *all;	    /* guarded by lock */
	bool is_done;		    /* the first directory is left; guarded by lock */
	atomic_uint idle;	    /* threads that wait for the queue, but for the further ones */
	atomic_uint queued;
	unsigned threads, further; /* at most */
	struct waits waits;	   /* the further ones walk while these are on */
	pthread_t helpers[2 * THREADS_MAX];
	unsigned started; /* guarded by lock */
	bool has_further; /* started, or could not be; guarded by lock */
	atomic_bool stop;
};

uint64_t walk_state(const struct walk_dir *dir)
{
	return dir->state;
}

bool walk_is_first(const struct walk_dir *dir)
{
	return dir->parent == NULL;
}

void walk_path(const struct walk_dir *dir, const char *name, char *ret_path, size_t size)
{
	size_t at = size - 1;

	/* From the end: what is cut is the beginning. */
	ret_path[at] = '\0';
	for (const char *part = name; part; dir = dir ? dir->parent : NULL) {
		size_t len = strlen(part), slash = ret_path[at] != '\0';

		if (len + slash > at)
			break;
		if (len > 0) {
			at -= slash;
			if (slash)
				ret_path[at] = '/';
			at -= len;
			memcpy(ret_path + at, part, len);
		}
		part = dir ? dir->name : NULL;
	}
	if (ret_path[at] == '\0')
		ret_path[--at] = '.';
	memmove(ret_path, ret_path + at, size - at);
}

/* ---- directories ---- */

static void dir_free(struct walk *w, struct walk_dir *dir)
{
	pthread_mutex_lock(&w->lock);
	if (dir->all_prev)
		dir->all_prev->all_next = dir->all_next;
	else
		w->all = dir->all_next;
	if (dir->all_next)
		dir->all_next->all_prev = dir->all_prev;
	pthread_mutex_unlock(&w->lock);
	free(dir->listing);
	cleanup_fd(&dir->fd);
	free(dir);
}

/* Opens a directory for reading; without touching its access time where that is allowed. */
static int open_listing(int fd, int *ret_fd)
{
	int r = tree_reopen(fd, S_IFDIR, O_RDONLY | O_DIRECTORY | O_NOATIME, ret_fd);

	/* O_NOATIME is for owners and CAP_FOWNER: in a user namespace a foreign owner refuses it. */
	if (r == -EPERM)
		r = tree_reopen(fd, S_IFDIR, O_RDONLY | O_DIRECTORY, ret_fd);
	return r;
}

/* @io_fd: open for reading, taken over on success. */
static int dir_new(struct walk *w, struct walk_dir *parent, int *io_fd, const char *name,
		   uint64_t state, struct walk_dir **ret_dir)
{
	struct walk_dir *dir;
	struct tree_key key;
	struct stat st;
	int r = tree_stat(*io_fd, &st);

	if (r == 0)
		r = tree_key_get(w->tree, *io_fd, &st, &key);
	if (r < 0)
		return r;
	dir = calloc(1, sizeof(*dir) + strlen(name) + 1);
	if (!dir)
		return -ENOMEM;
	dir->parent = parent;
	dir->pending = 1;
	dir->depth = parent ? parent->depth + 1 : 0;
	dir->state = state;
	dir->key = key;
	dir->fd = take_fd(io_fd);
	strcpy(dir->name, name);
	pthread_mutex_lock(&w->lock);
	dir->all_next = w->all;
	if (w->all)
		w->all->all_prev = dir;
	w->all = dir;
	pthread_mutex_unlock(&w->lock);
	*ret_dir = dir;
	return 0;
}

/* What a directory need not hold while nobody reads it. */
static void dir_suspend(struct walk_dir *dir)
{
	if (dir->key.is_handle)
		cleanup_fd(&dir->fd);
	free(dir->listing);
	dir->listing = NULL;
}

static int dir_open(struct walk *w, struct walk_dir *dir)
{
	AUTO_FD int fd = -1;
	int r;

	if (dir->fd >= 0)
		return 0;
	r = tree_open_dir_handle(w->tree, &dir->key, &fd);
	return r < 0 ? r : open_listing(fd, &dir->fd);
}

static struct tree_entry *entry_at(const struct listing *l, uint16_t place)
{
	return (struct tree_entry *)(l->bytes + 8 * (size_t)place);
}

static int compare_inodes(const void *a, const void *b, void *context)
{
	ino64_t x = entry_at(context, *(const uint16_t *)a)->ino;
	ino64_t y = entry_at(context, *(const uint16_t *)b)->ino;

	return x < y ? -1 : x > y;
}

/* Reads the next piece: 1, 0 at the directory's end, or -errno. */
static int dir_read(struct walk_dir *dir)
{
	bool is_kept = dir->depth < DEPTH_KEPT;
	struct listing *l = dir->listing;
	bool is_sorted = true;
	ino64_t last = 0;
	ssize_t n;
	int r;

	if (!l)
		dir->listing = l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->count = l->at = 0;
	r = tree_seek(dir->fd, dir->cookie);
	if (r < 0)
		return r;
	n = tree_read_entries(dir->fd, l->bytes, is_kept ? ENTRIES_BYTES : ENTRIES_BYTES_DEEP);
	if (n <= 0)
		return (int)n;
	for (ssize_t at = 0; at < n && l->count < ENTRIES_MAX;) {
		const struct tree_entry *entry = entry_at(l, (uint16_t)(at / 8));

		is_sorted = is_sorted && entry->ino >= last;
		last = entry->ino;
		l->order[l->count++] = (uint16_t)(at / 8);
		at += entry->reclen;
		dir->cookie = entry->next;
	}
	/* Where the piece is read again, from an entry's own cookie on, it must come in its order. */
	if (is_kept && !is_sorted)
		qsort_r(l->order, l->count, sizeof(l->order[0]), compare_inodes, l);
	return 1;
}

/* The next entry of the directory: 1, 0 at its end, or -errno. */
static int dir_next(struct walk *w, struct walk_dir *dir, struct tree_entry **ret_entry)
{
	struct listing *l = dir->listing;

	if (!l || l->at >= l->count) {
		int r = dir_open(w, dir);

		if (r == 0)
			r = dir_read(dir);
		if (r <= 0)
			return r;
		l = dir->listing;
	}
	*ret_entry = entry_at(l, l->order[l->at++]);
	return 1;
}

/* Lock held. */
static void wake_all(struct walk *w)
{
	pthread_cond_broadcast(&w->changed);
	pthread_cond_broadcast(&w->for_further);
}

/* All below it is done, so now it is its turn; and perhaps its parent's. */
static void dir_leave(struct walk *w, struct walk_dir *dir)
{
	while (dir && atomic_fetch_sub(&dir->pending, 1) == 1) {
		struct walk_dir *parent = dir->parent;
		AUTO_FD int fd = -1;
		struct stat st;
		int r = 0;

		if (dir->fd >= 0)
			fd = take_fd(&dir->fd);
		else
			r = tree_open_dir_handle(w->tree, &dir->key, &fd);
		if (r == 0)
			r = tree_stat(fd, &st);
		if (r == 0)
			w->hooks->leave(w->hooks->context, dir, fd, &st);
		else if (r != -ESTALE)
			w->hooks->failed(w->hooks->context, dir, "", -r);
		dir_free(w, dir);
		if (!parent) {
			pthread_mutex_lock(&w->lock);
			w->is_done = true;
			wake_all(w);
			pthread_mutex_unlock(&w->lock);
		}
		dir = parent;
	}
}

/* ---- threads ---- */

/*
 * Gives a directory to a thread that has nothing to do, or soon will have: this one may be long in the next, and
 * nobody else can give. False when there is enough for all.
 */
static bool give_away(struct walk *w, struct walk_dir *dir)
{
	unsigned others = w->threads - 1 + (waits_are_on(&w->waits) ? w->further : 0);

	if (atomic_load(&w->queued) >= atomic_load(&w->idle) + QUEUED_AHEAD * others)
		return false;
	pthread_mutex_lock(&w->lock);
	dir->next = w->queue;
	w->queue = dir;
	atomic_fetch_add(&w->queued, 1);
	pthread_cond_signal(&w->changed);
	if (waits_are_on(&w->waits))
		pthread_cond_signal(&w->for_further);
	pthread_mutex_unlock(&w->lock);
	return true;
}

static bool is_over(const struct walk *w)
{
	return w->is_done || atomic_load(&w->stop);
}

/* The next directory to list for a thread that has none: NULL when the walk is over. */
static struct walk_dir *take(struct walk *w, bool is_further)
{
	struct walk_dir *dir;

	pthread_mutex_lock(&w->lock);
	atomic_fetch_add(&w->idle, !is_further);
	while (!is_over(w) && (!w->queue || (is_further && !waits_are_on(&w->waits))))
		pthread_cond_wait(is_further ? &w->for_further : &w->changed, &w->lock);
	atomic_fetch_sub(&w->idle, !is_further);
	dir = atomic_load(&w->stop) ? NULL : w->queue;
	if (dir) {
		w->queue = dir->next;
		atomic_fetch_sub(&w->queued, 1);
	}
	pthread_mutex_unlock(&w->lock);
	return dir;
}

static void end(struct walk *w)
{
	pthread_mutex_lock(&w->lock);
	atomic_store(&w->stop, true);
	wake_all(w);
	pthread_mutex_unlock(&w->lock);
}

/* Opens the entry @name: -ENOTDIR when it is no directory (any more). */
static int open_entry(int dir_fd, const char *name, int *ret_fd)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir_fd, name, flags | O_NOATIME);

	if (fd < 0 && errno == EPERM)
		fd = openat(dir_fd, name, flags);
	if (fd < 0)
		/* A symbolic link. */
		return errno == ELOOP ? -ENOTDIR : -errno;
	*ret_fd = fd;
	return 0;
}

/* The type of an entry whose listing does not say it. */
static unsigned char look_up_type(int dir_fd, const char *name)
{
	struct stat st;

	return tree_stat_entry(dir_fd, name, &st) == 0 && S_ISDIR(st.st_mode) ? DT_DIR : DT_UNKNOWN;
}

/*
 * One entry of the deepest directory of this thread. A subdirectory becomes the deepest, or goes to
 * another thread. Returns the deepest.
 */
static struct walk_dir *visit(struct walk *w, struct walk_dir *dir, struct tree_entry *entry)
{
	const struct walk_hooks *hooks = w->hooks;
	struct walk_dir *child = NULL;
	AUTO_FD int fd = -1;
	uint64_t state = 0, began_ms = 0;
	int r;

	if (!tree_name_is_valid(entry->name))
		return dir;
	if (entry->type == DT_UNKNOWN)
		entry->type = look_up_type(dir->fd, entry->name);
	if (entry->type != DT_DIR && hooks->file(hooks->context, dir, dir->fd, entry))
		return dir;
	if (!hooks->enter(hooks->context, dir, entry->name, &state))
		return dir;
	do
		r = open_entry(dir->fd, entry->name, &fd);
	while (r == -EMFILE && hooks->find_descriptor(hooks->context, &began_ms));
	if (r == -ENOTDIR) {
		/* Replaced since it was listed; who replaces it again and again is not followed. */
		entry->type = DT_UNKNOWN;
		if (hooks->file(hooks->context, dir, dir->fd, entry))
			return dir;
		r = -EAGAIN;
	}
	if (r == 0)
		r = dir_new(w, dir, &fd, entry->name, state, &child);
	if (r < 0) {
		if (r != -ENOENT && r != -ESTALE)
			hooks->failed(hooks->context, dir, entry->name, -r);
		return dir;
	}
	atomic_fetch_add(&dir->pending, 1);
	if (give_away(w, child))
		return dir;
	if (dir->depth >= DEPTH_KEPT) {
		dir->cookie = entry->next;
		dir_suspend(dir);
	}
	child->next = dir;
	return child;
}

static void *work_further(void *argument);

/* Threads beside the caller's; what cannot be had is done without. Lock held. */
static void start_threads(struct walk *w, unsigned count, void *(*function)(void *))
{
	for (; count > 0 && w->started < ARRAY_SIZE(w->helpers); count--) {
		if (pthread_create(&w->helpers[w->started], NULL, function, w) != 0)
			return;
		w->started++;
	}
}

/* After a directory: where threads have begun to wait for the file system, further ones may walk. */
static void note_waits(struct walk *w, struct visits *io_visits)
{
	if (!waits_note(&w->waits, visits_end(io_visits)))
		return;
	pthread_mutex_lock(&w->lock);
	if (!w->has_further && !is_over(w))
		start_threads(w, w->further, work_further);
	w->has_further = true;
	pthread_cond_broadcast(&w->for_further);
	pthread_mutex_unlock(&w->lock);
}

static void work_on(struct walk *w, bool is_further)
{
	struct visits visits;
	struct walk_dir *dir;

	while ((dir = take(w, is_further))) {
		dir->next = NULL;
		visits_begin(&visits);
		while (dir) {
			struct tree_entry *entry = NULL;
			struct walk_dir *above;
			int r;

			if (atomic_load(&w->stop))
				return;
			if (!w->hooks->go_on(w->hooks->context, &visits.has_rested)) {
				end(w);
				return;
			}
			r = dir_next(w, dir, &entry);
			if (r > 0) {
				visits.entries++;
				dir = visit(w, dir, entry);
				continue;
			}
			if (r < 0 && r != -ESTALE && r != -ENOENT)
				w->hooks->failed(w->hooks->context, dir, "", -r);
			above = dir->next;
			/* While others are still below, it may take long until it is left. */
			if (atomic_load(&dir->pending) > 1)
				dir_suspend(dir);
			dir_leave(w, dir);
			dir = above;
			note_waits(w, &visits);
		}
	}
}

static void *work(void *argument)
{
	work_on(argument, false);
	return NULL;
}

static void *work_further(void *argument)
{
	work_on(argument, true);
	return NULL;
}

/* The others may start further ones until they end themselves. */
static void join_threads(struct walk *w)
{
	unsigned joined = 0;

	pthread_mutex_lock(&w->lock);
	while (joined < w->started) {
		pthread_t thread = w->helpers[joined++];

		pthread_mutex_unlock(&w->lock);
		pthread_join(thread, NULL);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
}

int walk_tree(const struct tree *tree, int fd, uint64_t state, unsigned threads, unsigned further,
	      const struct walk_hooks *hooks)
{
	struct walk w = { .tree = tree, .hooks = hooks };
	struct walk_dir *first;
	AUTO_FD int listing_fd = -1;
	uint64_t began_ms = 0;
	int r;

	do
		r = open_listing(fd, &listing_fd);
	while (r == -EMFILE && hooks->find_descriptor(hooks->context, &began_ms));
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	pthread_cond_init(&w.for_further, NULL);
	if (r == 0)
		r = dir_new(&w, NULL, &listing_fd, "", state, &first);
	if (r < 0)
		return r;
	w.queue = first;
	w.queued = 1;
	w.threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
	w.further = further > THREADS_MAX ? THREADS_MAX : further;
	pthread_mutex_lock(&w.lock);
	start_threads(&w, w.threads - 1, work);
	pthread_mutex_unlock(&w.lock);
	work(&w);
	join_threads(&w);
	r = w.is_done;
	while (w.all)
		dir_free(&w, w.all);
	return r;
}
