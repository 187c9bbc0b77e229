// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/compare.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

enum {
	INODES_MAX = 1024,
	NAMES_MAX = 4096,
	SAME_TICK_NS = 12 * 1000 * 1000,
	ONE_CONVERSION_NS = 500 * 1000 * 1000, /* of one file, on a busy machine */
	LONG_AGO = 1500000000
};

void difference_set(struct difference *d, const char *kind, const char *what, const char *format,
		    ...)
{
	va_list arguments;

	if (d->is_found)
		return;
	d->is_found = true;
	snprintf(d->kind, sizeof(d->kind), "%.40s: %.36s", kind, what);
	va_start(arguments, format);
	vsnprintf(d->text, sizeof(d->text), format, arguments);
	va_end(arguments);
}

static bool is_equal(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int64_t ns_between(const struct timespec *from, const struct timespec *to)
{
	return (int64_t)(to->tv_sec - from->tv_sec) * 1000000000 + (to->tv_nsec - from->tv_nsec);
}

/* One time of an object: a value set long ago is the same; else both or neither side changed it. */
static void compare_time(const char *op, const char *what, const char *name,
			 const struct timespec *before[2], const struct timespec *after[2],
			 const struct timespec *began, const bool may_change[2],
			 struct difference *d)
{
	bool changed[2];
	char text[2 * TREE_PATH_MAX];

	snprintf(text, sizeof(text), "%s %s", what, name);
	if (after[0]->tv_sec < LONG_AGO || after[1]->tv_sec < LONG_AGO) {
		if (!is_equal(after[0], after[1]))
			difference_set(d, op, name, "%s: A %lld.%09ld B %lld.%09ld", text,
				       (long long)after[0]->tv_sec, after[0]->tv_nsec,
				       (long long)after[1]->tv_sec, after[1]->tv_nsec);
		return;
	}
	if (!before[0])
		return;
	for (int i = 0; i < 2; i++)
		changed[i] = !is_equal(before[i], after[i]);
	if (changed[0] == changed[1] || (changed[0] ? may_change[0] : may_change[1]))
		return;
	/* Within one tick of the clock a change need not be seen. */
	if (ns_between(before[changed[0] ? 1 : 0], began) < SAME_TICK_NS)
		return;
	difference_set(d, op, name, "%s: %s", text,
		       changed[0] ? "changed on A only" : "changed on B only");
}

/*
 * With relatime an access is seen when the last one was not later than ctime: the converger's ctime makes it be seen
 * on B, where nothing has become of A's. The kernel may have learned that ctime with the access only.
 */
static bool is_atime_of_converged(const struct observation before[2],
				  const struct observation after[2])
{
	return ns_between(&before[0].ctime, &before[0].atime) > 0 &&
	       (ns_between(&before[1].ctime, &before[1].atime) <= 0 ||
		ns_between(&after[1].ctime, &before[1].atime) <= 0);
}

/*
 * With relatime an access is seen when the last one was not later than the last change (relatime_need_update): not
 * when it came with the next tick of the clock, and when it came with the same one, which is chance. So is the order of an
 * access and a change after it in one tick: the first may have a finer time, which does not hold for the second
 * (current_time() and inode_set_ctime_current(), since Linux 6.13).
 */
static bool is_atime_of_one_tick(const struct observation before[2], int seen)
{
	int64_t ns[2]; /* from the change to the access */

	for (int i = 0; i < 2; i++) {
		int64_t from_mtime = ns_between(&before[i].mtime, &before[i].atime);
		int64_t from_ctime = ns_between(&before[i].ctime, &before[i].atime);

		ns[i] = from_mtime < from_ctime ? from_mtime : from_ctime;
	}
	return ns[!seen] > 0 && (ns[seen] == 0 || (ns[seen] < 0 && ns[seen] > -SAME_TICK_NS &&
						   ns[!seen] < SAME_TICK_NS));
}

/* Both set by it: how far they are apart is how long it took, and on a busy machine that is many ticks. */
static bool is_of_one_step(const struct timespec *began, const struct timespec *mtime,
			   const struct timespec *ctime)
{
	return llabs(ns_between(mtime, ctime)) < SAME_TICK_NS ||
	       (ns_between(began, mtime) >= 0 && ns_between(began, ctime) >= 0);
}

static void add_time(struct difference *d, const char *name, const struct timespec *before,
		     const struct timespec *after)
{
	size_t len = strlen(d->text);

	snprintf(d->text + len, sizeof(d->text) - len, "  %s %lld.%09ld -> %lld.%09ld", name,
		 (long long)before->tv_sec, before->tv_nsec, (long long)after->tv_sec,
		 after->tv_nsec);
}

/* What was seen once, by chance, is not seen again when its steps are run. */
static void add_times(struct difference *d, const struct observed *o)
{
	for (int i = 0; i < 2; i++) {
		size_t len = strlen(d->text);

		snprintf(d->text + len, sizeof(d->text) - len, "\n%c", "AB"[i]);
		add_time(d, "atime", &o->before[i].atime, &o->after[i].atime);
		add_time(d, "mtime", &o->before[i].mtime, &o->after[i].mtime);
		add_time(d, "ctime", &o->before[i].ctime, &o->after[i].ctime);
	}
}

static void compare_times(const char *op, const char *what, const struct observed *o,
			  const struct timespec *began, struct compare_mode mode,
			  struct difference *d)
{
	const struct observation *before = o->before, *after = o->after;
	/* Another file by the same name was not changed by the step. */
	bool has_before = before[0].error == 0 && before[1].error == 0 &&
			  before[0].ino == after[0].ino && before[1].ino == after[1].ino;
	bool is_near[2], is_both_now = true, was_found = d->is_found;
	const struct {
		const char *name;
		const struct timespec *before[2], *after[2];
	} times[] = {
#define TIME(field)                                                                                \
	{                                                                                          \
#field, { &before[0].field, &before[1].field },                                    \
		{                                                                                  \
			&after[0].field, &after[1].field                                           \
		}                                                                                  \
	}
		TIME(atime),
		TIME(mtime),
		TIME(ctime),
#undef TIME
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		const struct timespec *none[2] = { NULL, NULL };
		bool is_atime = i == 0 && mode.is_relatime, is_ctime = i == 2;
		const bool may_change[2] = { is_atime && is_atime_of_one_tick(before, 0),
					     (is_atime && (is_atime_of_one_tick(before, 1) ||
							   is_atime_of_converged(before, after))) ||
						     (is_ctime && mode.converges) };

		if (i == 0 && S_ISREG(after[0].mode) && (d->is_cached || d->is_read_by_chance))
			continue;
		compare_time(op, what, times[i].name,
			     has_before ? (const struct timespec **)times[i].before : none,
			     (const struct timespec **)times[i].after, began, may_change, d);
	}
	/* What one step changed; what two steps changed lies any time apart. */
	for (int i = 0; i < 2 && has_before; i++)
		is_both_now &= !is_equal(&before[i].mtime, &after[i].mtime) &&
			       !is_equal(&before[i].ctime, &after[i].ctime);
	for (int i = 0; i < 2 && !has_before; i++)
		is_both_now &= ns_between(began, &after[i].mtime) >= 0;
	for (int i = 0; i < 2; i++)
		is_near[i] = is_of_one_step(began, &after[i].mtime, &after[i].ctime);
	if (is_both_now && is_near[0] != is_near[1] &&
	    !(mode.converges && is_near[0] && ns_between(&after[1].mtime, &after[1].ctime) > 0))
		difference_set(d, op, DIFFERENCE_APART, "%s: mtime and ctime %s on A, %s on B",
			       what, is_near[0] ? "equal" : "differ",
			       is_near[1] ? "equal" : "differ");
	if (d->is_found && !was_found)
		add_times(d, o);
}

/*
 * XFS has a small directory in its inode, where its attributes leave room for it; how much they leave depends on the
 * order in which attributes and names came. Then one has the length of its names for a size, and the other is in blocks.
 */
static bool is_size_of_layout(const struct observation *a, const struct observation *b)
{
	bool is_in_inode[2] = { a->size < a->blksize, b->size < b->blksize };

	return S_ISDIR(a->mode) && S_ISDIR(b->mode) && is_in_inode[0] != is_in_inode[1] &&
	       (is_in_inode[0] ? b : a)->size % a->blksize == 0;
}

void compare_set_ids(const char *what, const struct observation look[2], struct difference *d)
{
	const struct observation *a = &look[0], *b = &look[1];
	uint32_t set_ids = S_ISUID | S_ISGID;

	if (d->is_found || !d->converges || a->error || b->error || !S_ISREG(a->mode) ||
	    a->mode == b->mode || (a->mode & ~set_ids) != (b->mode & ~set_ids) ||
	    b->mode & ~a->mode & set_ids ||
	    llabs(ns_between(&b->mtime, &b->ctime)) > ONE_CONVERSION_NS)
		return;
	difference_set(d, "set-ID bits", "written meanwhile", "%s: mode: A %o B %o", what, a->mode,
		       b->mode);
	d->is_deliberate = true;
}

void compare_observed(const char *op, const char *what, const struct observed *o,
		      const struct timespec *began, struct compare_mode mode, struct difference *d)
{
	const struct observation *a = &o->after[0], *b = &o->after[1];

	if (a->error != b->error) {
		difference_set(d, op, "stat", "%s: stat on A: %s, on B: %s", what,
			       strerror(a->error), strerror(b->error));
		return;
	}
	if (a->error)
		return;
	compare_set_ids(what, o->after, d);
#define FIELD(name, format)                                                                        \
	if (a->name != b->name)                                                                    \
	difference_set(d, op, #name, "%s: " #name ": A " format " B " format, what,                \
		       (unsigned long long)a->name, (unsigned long long)b->name)
	FIELD(mode, "%llo");
	FIELD(uid, "%llu");
	FIELD(gid, "%llu");
	FIELD(nlink, "%llu");
	if (!is_size_of_layout(a, b))
		FIELD(size, "%llu");
	FIELD(rdev, "%llx");
	FIELD(blksize, "%llu");
#undef FIELD
	/* A FUSE inode's times are the server's business, and a FIFO's data never comes to it. */
	if (!S_ISFIFO(a->mode))
		compare_times(op, what, o, began, mode, d);
}

void compare_results(const char *op, const struct result *a, const struct result *b,
		     struct difference *d)
{
	if (a->value != b->value || a->error != b->error)
		difference_set(d, op, "result", "A %lld (%s) %s\nB %lld (%s) %s",
			       (long long)a->value, strerror(a->error), a->text,
			       (long long)b->value, strerror(b->error), b->text);
	else if (strcmp(a->text, b->text) != 0)
		difference_set(d, op, "data", "A %s\nB %s", a->text, b->text);
}

/* ---- whole trees ---- */

struct comparison {
	const char *kind;
	struct difference *d;
	unsigned inode_count;
	uint64_t inodes[INODES_MAX][2];
};

/* The same files are the same inodes. */
static void compare_inodes(struct comparison *c, const char *path, uint64_t a, uint64_t b)
{
	for (unsigned i = 0; i < c->inode_count; i++) {
		if (c->inodes[i][0] != a && c->inodes[i][1] != b)
			continue;
		if (c->inodes[i][0] != a || c->inodes[i][1] != b)
			difference_set(c->d, c->kind, "inode",
				       "%s: is another file's link on one side", path);
		return;
	}
	if (c->inode_count < INODES_MAX) {
		c->inodes[c->inode_count][0] = a;
		c->inodes[c->inode_count++][1] = b;
	}
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A file of both sides, O_PATH, and when it has data or names, open to be read; else -1 with the error. */
struct pair {
	int fds[2], opened[2], errors[2];
};

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		cleanup_fd(&p->fds[i]);
		cleanup_fd(&p->opened[i]);
	}
}

static void pair_reopen(struct pair *p, int flags)
{
	for (int i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fds[i]);
		p->opened[i] = open(path, flags | O_RDONLY | O_CLOEXEC);
		p->errors[i] = p->opened[i] < 0 ? errno : 0;
	}
}

/* Names and values of all extended attributes, in order. @opened: the file; -1: it is @fd, O_PATH, only. */
static char *attributes(int fd, int opened)
{
	char list[4096], path[64], *names[128], *text = NULL;
	size_t count = 0, size;
	FILE *out;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = opened >= 0 ? flistxattr(opened, list, sizeof(list)) :
			    listxattr(path, list, sizeof(list));
	if (len == 0)
		return strdup("");
	out = open_memstream(&text, &size);
	if (len < 0)
		fprintf(out, "%s", strerror(errno));
	for (char *at = list; len > 0 && at < list + len && count < ARRAY_SIZE(names);
	     at += strlen(at) + 1)
		names[count++] = at;
	qsort(names, count, sizeof(names[0]), compare_strings);
	for (size_t i = 0; i < count; i++) {
		unsigned char value[256];
		ssize_t n = opened >= 0 ? fgetxattr(opened, names[i], value, sizeof(value)) :
					  getxattr(path, names[i], value, sizeof(value));

		fprintf(out, "%s=", names[i]);
		if (n < 0)
			fprintf(out, "(%s)", strerror(errno));
		for (ssize_t k = 0; k < n; k++)
			fprintf(out, "%02x", value[k]);
		fputc(' ', out);
	}
	fclose(out);
	return text;
}

static char *link_target(int fd)
{
	char target[4096];
	ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strdup(target);
}

static bool has_same_content(const struct pair *p)
{
	static unsigned char bytes[2][65536];
	ssize_t n, m;

	if (p->opened[0] < 0 || p->opened[1] < 0)
		return p->opened[0] < 0 && p->opened[1] < 0 && p->errors[0] == p->errors[1];
	do {
		n = read(p->opened[0], bytes[0], sizeof(bytes[0]));
		m = read(p->opened[1], bytes[1], sizeof(bytes[1]));
		if (n != m || (n > 0 && memcmp(bytes[0], bytes[1], (size_t)n) != 0))
			return false;
	} while (n > 0);
	return true;
}

static void compare_dirs(struct comparison *c, const char *path, struct pair *p);

static void compare_entry(struct comparison *c, const char *path, const int dirs[2],
			  const char *name)
{
	const struct timespec never = { .tv_sec = INT32_MAX };
	struct observed o = { .before[0].error = ESTALE };
	__attribute__((cleanup(pair_close))) struct pair p = { .opened = { -1, -1 } };

	for (int i = 0; i < 2; i++) {
		p.fds[i] = openat(dirs[i], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		observe(p.fds[i], "", &o.after[i]);
	}
	compare_observed(c->kind, path, &o, &never, (struct compare_mode){ .converges = true },
			 c->d);
	if (c->d->is_found || o.after[0].error)
		return;
	compare_inodes(c, path, o.after[0].ino, o.after[1].ino);
	if (S_ISLNK(o.after[0].mode)) {
		AUTO_FREE char *target_a = link_target(p.fds[0]);
		AUTO_FREE char *target_b = link_target(p.fds[1]);

		if (strcmp(target_a, target_b) != 0)
			difference_set(c->d, c->kind, "target", "%s: A -> %s B -> %s", path,
				       target_a, target_b);
		return;
	}
	if (S_ISREG(o.after[0].mode))
		pair_reopen(&p, O_NOATIME);
	if (S_ISDIR(o.after[0].mode))
		pair_reopen(&p, O_DIRECTORY);
	AUTO_FREE char *attributes_a = attributes(p.fds[0], p.opened[0]);
	AUTO_FREE char *attributes_b = attributes(p.fds[1], p.opened[1]);

	if (strcmp(attributes_a, attributes_b) != 0)
		difference_set(c->d, c->kind, "attributes", "%s:\nA %s\nB %s", path, attributes_a,
			       attributes_b);
	if (S_ISREG(o.after[0].mode) && !has_same_content(&p))
		difference_set(c->d, c->kind, "content", "%s: content differs", path);
	if (S_ISDIR(o.after[0].mode))
		compare_dirs(c, path, &p);
}

/* The sorted names in a directory, and how many they are; -1: it cannot be read. Closes it. */
static int read_names(int *io_fd, char *ret_names[NAMES_MAX])
{
	DIR *dir = *io_fd >= 0 ? fdopendir(*io_fd) : NULL;
	struct dirent *entry;
	int count = 0;

	if (!dir)
		return -1;
	*io_fd = -1;
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		assert(count < NAMES_MAX);
		ret_names[count++] = strdup(entry->d_name);
	}
	closedir(dir);
	qsort(ret_names, (size_t)count, sizeof(ret_names[0]), compare_strings);
	return count;
}

static void compare_dirs(struct comparison *c, const char *path, struct pair *p)
{
	char *names[2][NAMES_MAX];
	int counts[2];

	for (int i = 0; i < 2; i++)
		counts[i] = read_names(&p->opened[i], names[i]);
	if (counts[0] != counts[1])
		difference_set(c->d, c->kind, "names", "%s: A has %d entries, B %d", path,
			       counts[0], counts[1]);
	for (int i = 0; i < counts[0] && i < counts[1] && !c->d->is_found; i++) {
		char child[2 * TREE_PATH_MAX];

		snprintf(child, sizeof(child), "%.300s/%.300s", path, names[0][i]);
		if (strcmp(names[0][i], names[1][i]) != 0)
			difference_set(c->d, c->kind, "names", "%s: A has %s, B %s", path,
				       names[0][i], names[1][i]);
		else
			compare_entry(c, child, p->fds, names[0][i]);
	}
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < counts[i]; k++)
			free(names[i][k]);
	}
}

void compare_trees(const char *kind, int eager_fd, int overlay_fd, struct difference *d)
{
	const int roots[2] = { eager_fd, overlay_fd };
	AUTO_FREE struct comparison *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	c->kind = kind;
	c->d = d;
	compare_entry(c, ".", roots, ".");
}
