// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/run.h"
#include "tests/differential/hole.h"
#include "tests/differential/op.h"
#include "tests/differential/refresh.h"
#include "tests/differential/worker.h"

enum { STEPS_BETWEEN_LISTS = 40, STEPS_BETWEEN_TREES = 150, WRITTEN_MAX = 4096, MARKS_MS = 10000 };

/* What a step names: its paths, each followed by the directory that it lies in. */
enum { OBJECTS = 4 };

struct objects {
	char paths[OBJECTS][TREE_PATH_MAX];
	struct observed observed[OBJECTS];
};

struct scene {
	struct trial *trial;
	struct volume volume;
	int roots[SIDES];
	struct worker workers[WORKERS];
	struct generator generator;
	struct difference *difference;
	/* Of A: files that were ever opened for writing, and what slots are open on. */
	unsigned written_count;
	uint64_t written[WRITTEN_MAX], slot_inodes[WORKERS][SLOTS];
	/* Those of slot_inodes that no server knows to be open, else 0. */
	uint64_t pins[WORKERS][SLOTS];
	bool has_watches; /* inotify's: a worker has had one */
};

static void name_objects(const struct step *s, struct objects *o)
{
	const char *const paths[] = { s->path, s->path2 };

	memset(o, 0, sizeof(*o));
	/* What is relative only the worker can find; a symbolic link's target names nothing of the step. */
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char parent[TREE_PATH_MAX];

		if (s->relative || paths[i][0] == '\0' || (i == 1 && op_is(s->op, "symlink")))
			continue;
		strcpy(o->paths[2 * i], paths[i]);
		strcpy(parent, paths[i]);
		strcpy(o->paths[2 * i + 1], dirname(parent));
	}
}

/*
 * A path and the directory that it lies in, from one walk there: what has changed on the way is asked for once. When the
 * directory is none, or a symbolic link, each has its walk.
 */
static void observe_in_dir(int root_fd, const char *path, const char *dir,
			   struct observation *ret_path, struct observation *ret_dir)
{
	bool is_root = strcmp(dir, ".") == 0;
	size_t len = strlen(dir);
	const char *rest = strncmp(path, dir, len) == 0 && path[len] == '/' ?
				   path + len + strspn(path + len, "/") :
			   strcmp(path, ".") == 0 ? "" :
						    path;
	AUTO_FD int opened = is_root ? -1 : openat(root_fd, dir, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int fd = is_root ? root_fd : opened;

	memset(ret_dir, 0, sizeof(*ret_dir));
	if (fd >= 0)
		observe(fd, "", ret_dir);
	if (fd >= 0 && ret_dir->error == 0 && S_ISDIR(ret_dir->mode)) {
		observe(fd, rest, ret_path);
	} else {
		observe(root_fd, dir, ret_dir);
		observe(root_fd, path, ret_path);
	}
}

static void observe_objects(const struct scene *sc, struct objects *o, bool after)
{
	for (int i = 0; i < OBJECTS; i += 2) {
		for (int side = 0; side < SIDES && o->paths[i][0]; side++) {
			struct observed *path = &o->observed[i], *dir = &o->observed[i + 1];

			observe_in_dir(sc->roots[side], o->paths[i], o->paths[i + 1],
				       after ? &path->after[side] : &path->before[side],
				       after ? &dir->after[side] : &dir->before[side]);
		}
	}
}

/* The driver's own step: the converger is let loose, slowly or not, or paused. */
static int run_converge(struct scene *sc, const struct step *s)
{
	char request[64];
	int r;

	if (s->b)
		return volume_send(&sc->volume, "pause\n");
	snprintf(request, sizeof(request), "rate\nrate=%lld\n", (long long)s->a);
	r = volume_send(&sc->volume, request);
	return r < 0 ? r : volume_send(&sc->volume, "resume\n");
}

/*
 * A's file of a step, O_PATH: nothing is opened, because inotify would see that. B's is looked for too: what is
 * followed on the way has an access time. A slash behind the name of a file means nothing here: what refuses to
 * remove "file/" as a directory looks at the file first. Returns -1 when there is none.
 */
static int pin_object(const struct scene *sc, const char *name, int flags)
{
	char path[TREE_PATH_MAX];
	int fds[SIDES];

	strcpy(path, name);
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	for (int side = 0; side < SIDES; side++)
		fds[side] = openat(sc->roots[side], path, O_PATH | O_CLOEXEC | flags);
	cleanup_fd(&fds[SIDE_OVERLAY]);
	return fds[SIDE_EAGER];
}

static bool has_flags(int fd)
{
	struct statx stx;

	return statx(fd, "", AT_EMPTY_PATH, 0, &stx) == 0 &&
	       stx.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE);
}

static bool is_default_acl_removal(const struct step *s)
{
	return op_is(s->op, "removexattr") && strcmp(s->name, "system.posix_acl_default") == 0;
}

/* Both fail, and on A it is the immutable or append-only flag that comes first (compare.h). */
static bool is_flag_error(const struct scene *sc, const struct step *s, const struct objects *o,
			  const struct result *a, const struct result *b)
{
	if (a->value >= 0 || a->error != EPERM ||
	    (b->value >= 0 && !op_is(s->op, "access") && !is_default_acl_removal(s)))
		return false;
	if (s->relative)
		return true; /* only the worker knows which file it was */
	if (strchr(op_get(s->op)->arguments, 's') && (a->before.has_flags || a->after.has_flags))
		return true;
	for (int i = 0; i < OBJECTS; i++) {
		AUTO_FD int fd = o->paths[i][0] ? pin_object(sc, o->paths[i], 0) : -1;

		if (fd >= 0 && has_flags(fd))
			return true;
	}
	return false;
}

/* Both are right, of either file, depending on what the page cache has of it. All files are looked at: inotify sees it. */
static bool is_seek_by_chance(const struct scene *sc, const struct step *s,
			      const struct result results[SIDES])
{
	int64_t answers[SIDES];
	bool is_by_chance = true;

	if (!op_is(s->op, "lseek") || (s->flags != SEEK_DATA && s->flags != SEEK_HOLE))
		return false;
	for (int side = 0; side < SIDES; side++) {
		answers[side] = results[side].value;
		if (answers[side] < 0 && results[side].error != ENXIO)
			return false;
	}
	for (int side = 0; side < SIDES; side++) {
		AUTO_FD int fd = worker_borrow(&sc->workers[s->worker], results[side].fd);

		is_by_chance &=
			fd >= 0 && hole_is_by_chance(fd, s->flags, s->offset, answers, SIDES);
	}
	return is_by_chance;
}

/* Results that may differ (compare.h). */
static bool is_known(const struct scene *sc, const struct step *s, const struct objects *o,
		     const struct result results[SIDES])
{
	if (results[0].error != results[1].error &&
	    is_flag_error(sc, s, o, &results[0], &results[1]))
		return true;
	return results[0].value != results[1].value && is_seek_by_chance(sc, s, results);
}

/* Remembers what is needed to tell the chown(-1, -1) that no server can tell from a write (compare.h). */
static void note_opened(struct scene *sc, const struct step *s, const struct result *a)
{
	bool *is_open = &sc->generator.slot_is_open[s->worker][s->slot % SLOTS];

	if (a->value < 0 || !strchr(op_get(s->op)->arguments, 's'))
		return;
	*is_open = !op_is(s->op, "close") && (*is_open || a->value == 0);
	if (a->fd < 0)
		return;
	sc->slot_inodes[s->worker][s->slot % SLOTS] = a->after.ino;
	if (strchr(op_get(s->op)->arguments, 'F'))
		sc->pins[s->worker][s->slot % SLOTS] =
			s->flags & O_PATH || !S_ISREG(a->after.mode) ? a->after.ino : 0;
	if (strchr(op_get(s->op)->arguments, 'F') && (s->flags & O_ACCMODE) != O_RDONLY &&
	    sc->written_count < WRITTEN_MAX)
		sc->written[sc->written_count++] = a->after.ino;
}

/* Capabilities, and set-ID bits or a flag that forbids to change them. @fd: O_PATH. */
static bool has_both_privileges(int fd, const struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return getxattr(path, "security.capability", NULL, 0) > 0 &&
	       (st->st_mode & (S_ISUID | S_ISGID) || has_flags(fd));
}

static bool was_written(const struct scene *sc, uint64_t ino)
{
	for (unsigned i = 0; i < sc->written_count; i++) {
		if (sc->written[i] == ino)
			return true;
	}
	return false;
}

/*
 * Calls that no FUSE server can tell from another (compare.h): these chown(2), and what is refused of an immutable or
 * append-only file: a truncate(2) when it has capabilities, which the kernel has us remove before it asks, and to
 * remove a default ACL when it is no directory, which the kernel does not pass on, so that inotify tells of it.
 */
static bool is_ambiguous(const struct scene *sc, const struct step *s)
{
	bool is_chown = op_is(s->op, "chown"), is_truncate = op_is(s->op, "truncate");
	bool is_default_acl = is_default_acl_removal(s);
	AUTO_FD int fd = -1;
	struct stat st;

	if (op_is(s->op, "fchown"))
		return s->a == -1 && s->b == -1 &&
		       was_written(sc, sc->slot_inodes[s->worker][s->slot % SLOTS]);
	if (!is_chown && !is_truncate && !is_default_acl)
		return false;
	if (s->relative)
		return is_chown || is_truncate; /* only the worker knows which file it is */
	fd = pin_object(sc, s->path, is_chown && s->flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (is_default_acl)
		return has_flags(fd) && !S_ISDIR(st.st_mode);
	if (is_truncate)
		return has_flags(fd) && has_both_privileges(fd, &st);
	return has_both_privileges(fd, &st) ||
	       (s->a == -1 && s->b == -1 && was_written(sc, st.st_ino));
}

/* The driver's own step: what lies below changes, and is seen when the kernel's second is over. */
static int run_refresh(struct scene *sc, const struct step *s)
{
	/* A time-out of the kernel is waited for: it has no event. */
	const struct timespec timeout = { .tv_sec = 1, .tv_nsec = 50 * 1000 * 1000 };
	struct refresh refresh = { .eager_fd = sc->volume.eager_fd,
				   .lower_fd = sc->volume.lower_fd,
				   .converges = sc->trial->volume.converges,
				   .pins = &sc->pins[0][0],
				   .pin_count = WORKERS * SLOTS };

	sc->trial->changes += refresh_run(&refresh, (uint64_t)s->a, sc->difference);
	nanosleep(&timeout, NULL);
	compare_trees("tree after a refresh", sc->roots[0], sc->roots[1], sc->difference);
	return 0;
}

static void report_failure(struct scene *sc, const char *op, unsigned side, int error)
{
	difference_set(sc->difference, op, "no answer", "on %s: %s", side == SIDE_EAGER ? "A" : "B",
		       strerror(-error));
}

static int run_step(struct scene *sc, const struct step *s)
{
	const char *op = op_get(s->op)->name;
	/* What is moved is converged at once, also while the walk is paused. */
	const struct compare_mode mode = {
		.converges = sc->trial->volume.converges || op_is(s->op, "rename") ||
			     op_is(s->op, "unlink"),
		.is_relatime = strcmp(sc->trial->volume.atime, "relatime") == 0,
	};
	const struct result *results;
	struct observed slot;
	struct objects objects;
	struct timespec began;
	bool has_slot;
	unsigned at;
	int r;

	if (!op_get(s->op)->run)
		return op_is(s->op, "refresh") ? run_refresh(sc, s) : run_converge(sc, s);
	/* Before the looks: they follow links as the step does, and what that changes of access times is seen after it. */
	clock_gettime(CLOCK_REALTIME_COARSE, &began);
	if (is_ambiguous(sc, s))
		return 0;
	name_objects(s, &objects);
	observe_objects(sc, &objects, false);
	for (int i = 0; i < OBJECTS; i++)
		compare_set_ids(objects.paths[i], objects.observed[i].before, sc->difference);
	if (sc->difference->is_found)
		return 0;
	r = worker_run(&sc->workers[s->worker], s, &results, &at);
	if (r < 0) {
		report_failure(sc, op, at, r);
		return 0;
	}
	if (results[0].is_direct && strcmp(sc->trial->volume.type, "btrfs") == 0)
		sc->difference->is_read_by_chance = true;
	observe_objects(sc, &objects, true);
	slot = (struct observed){ .before = { results[0].before, results[1].before },
				  .after = { results[0].after, results[1].after } };
	has_slot = results[0].fd >= 0 && results[1].fd >= 0;
	if (has_slot)
		compare_set_ids("descriptor", slot.before, sc->difference);
	if (!is_known(sc, s, &objects, results))
		compare_results(op, &results[0], &results[1], sc->difference);
	for (int i = 0; i < OBJECTS; i++) {
		if (objects.paths[i][0])
			compare_observed(op, objects.paths[i], &objects.observed[i], &began, mode,
					 sc->difference);
	}
	if (has_slot)
		compare_observed(op, "descriptor", &slot, &began, mode, sc->difference);
	note_opened(sc, s, &results[0]);
	sc->has_watches |= op_is(s->op, "inotify_add_watch") && results[0].value >= 0;
	return 0;
}

/* Immutable files cannot be converged (README): at the end there are none. */
static void clear_flags(struct scene *sc)
{
	struct tree_paths *paths = &sc->generator.paths;

	tree_list(sc->roots[SIDE_EAGER], paths);
	for (unsigned i = 0; i < paths->count; i++) {
		if (!S_ISREG(paths->entries[i].type) && !S_ISDIR(paths->entries[i].type))
			continue;
		for (int side = 0; side < SIDES; side++) {
			AUTO_FD int fd =
				openat(sc->roots[side], paths->entries[i].path,
				       O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
			int flags = 0, wanted;

			if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
				continue;
			wanted = flags & ~(FS_APPEND_FL | FS_IMMUTABLE_FL);
			if (wanted != flags)
				ioctl(fd, FS_IOC_SETFLAGS, &wanted);
		}
	}
}

/* A's is last and stays. B's is listed for inotify, which sees it: when nobody has a watch, nothing tells of it. */
static void list_trees(struct scene *sc)
{
	for (int side = sc->has_watches ? SIDES - 1 : SIDE_EAGER; side >= 0; side--)
		tree_list(sc->roots[side], &sc->generator.paths);
}

static int run_steps(struct scene *sc, bool makes_up)
{
	struct trial *t = sc->trial;
	int r = 0;

	for (unsigned i = 0; i < t->count && r == 0 && !sc->difference->is_found; i++) {
		sc->difference->at = i;
		if (i % STEPS_BETWEEN_LISTS == 0)
			list_trees(sc);
		if (makes_up)
			op_generate(&sc->generator, &t->steps[i]);
		r = run_step(sc, &t->steps[i]);
		if (r == 0 && (i + 1) % STEPS_BETWEEN_TREES == 0)
			compare_trees("tree", sc->roots[0], sc->roots[1], sc->difference);
	}
	return r;
}

static bool has_marks(struct scene *sc)
{
	struct tree_paths *paths = &sc->generator.paths;
	char path[TREE_PATH_MAX + 32];

	tree_list(sc->volume.lower_fd, paths);
	for (unsigned i = 0; i < paths->count; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", sc->volume.lower_fd,
			 paths->entries[i].path);
		if (lgetxattr(path, RUN_MARK, NULL, 0) >= 0)
			return true;
	}
	return false;
}

/* The server takes the marks away when the end of the run is on record, which has no event. */
static void wait_for_end_of_marks(struct scene *sc)
{
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };

	for (int ms = 0; ms < MARKS_MS && has_marks(sc); ms += 5)
		nanosleep(&pause, NULL);
}

static void converge_and_compare(struct scene *sc)
{
	struct difference *d = sc->difference;
	char reason[256];
	int r;

	/* Else the last step has done it. */
	if (sc->trial->count == 0 || sc->trial->count % STEPS_BETWEEN_TREES != 0)
		compare_trees("tree", sc->roots[0], sc->roots[1], d);
	if (d->is_found)
		return;
	clear_flags(sc);
	sc->trial->kills = volume_spare(&sc->volume);
	sc->trial->upgrades = sc->volume.killer.upgrades;
	r = volume_converge(&sc->volume, reason, sizeof(reason));
	if (r < 0)
		difference_set(d, "converging", "failure", "%s: %s", strerror(-r), reason);
	compare_trees("converged tree", sc->roots[0], sc->roots[1], d);
	wait_for_end_of_marks(sc);
	compare_trees("converged lower tree", sc->volume.settled_fd, sc->volume.lower_fd, d);
}

static int run_scene(struct scene *sc, bool makes_up)
{
	int r = 0;

	for (unsigned i = 0; i < WORKERS && r == 0; i++)
		r = worker_start(i, &sc->volume, sc->roots, &sc->workers[i]);
	if (r == 0)
		compare_trees("tree at the start", sc->roots[0], sc->roots[1], sc->difference);
	if (r == 0)
		r = run_steps(sc, makes_up);
	if (r == 0 && !sc->difference->is_found)
		converge_and_compare(sc);
	workers_stop(sc->workers);
	return r;
}

int trial_run(struct trial *t, bool makes_up, struct difference *ret_difference)
{
	AUTO_FREE struct scene *sc = calloc(1, sizeof(*sc));
	int r;

	if (!sc)
		return -ENOMEM;
	memset(ret_difference, 0, sizeof(*ret_difference));
	ret_difference->is_cached = t->volume.userns != USERNS_NONE;
	ret_difference->converges = t->volume.converges;
	r = volume_open(&t->volume, t->seed, &sc->volume);
	if (r < 0)
		return r;
	sc->trial = t;
	sc->difference = ret_difference;
	sc->roots[SIDE_EAGER] = sc->volume.eager_fd;
	sc->roots[SIDE_OVERLAY] = sc->volume.overlay_fd;
	sc->generator.random.state = t->seed;
	sc->generator.converges = t->volume.converges;
	sc->generator.refreshes = t->volume.refreshes;
	sc->generator.is_cached = t->volume.userns != USERNS_NONE;
	sc->generator.has_zero_range = sc->generator.has_mapped_times =
		strcmp(t->volume.type, "tmpfs") != 0;
	for (unsigned i = 0; i < WORKERS; i++)
		sc->workers[i].fd = -1;
	r = run_scene(sc, makes_up);
	if (t->has_next && !ret_difference->is_found)
		volume_leave(&sc->volume, t->next_seed);
	else
		volume_close(&sc->volume);
	return r;
}
