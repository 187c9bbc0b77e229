// SPDX-License-Identifier: Apache-2.0
#include "plugins/atomic_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "fs/base/io.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/ownership/apply.h"
#include "plugins/tree_remove.h"

static const char DATA[] = "..data";
static const char DATA_NEW[] = "..data_tmp"; /* on its way to DATA */
static const char LINK_NEW[] = "..link_tmp"; /* on its way to a visible name */

enum { STAMP_SIZE = 64, COMPARE_BYTES = 65536 };

/* A write under way. */
struct writing {
	const struct atomic_write *w;
	int root_fd;		/* readable */
	char stamp[STAMP_SIZE]; /* the directory that DATA points to, or "" */
	char fresh[STAMP_SIZE]; /* the one that is being written, or "" */
	bool changed;
	char *error;
	size_t error_size;
};

static int fail(struct writing *x, int error, const char *what, const char *path)
{
	char quoted[160];

	snprintf(x->error, x->error_size, "%s %s: %s", what,
		 log_quote(path, quoted, sizeof(quoted)), strerror(-error));
	return error;
}

/* Before each change. */
static void step(struct writing *x)
{
	x->changed = true;
	if (x->w->on_step)
		x->w->on_step(x->w->arg);
}

/* @path below @dir_fd: no symbolic link, no other mount. */
static int open_below(int dir_fd, const char *path, int flags, mode_t mode, int *ret_fd)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* ---- what is there ---- */

/* "..2026_11_22_": what a directory of ours begins with. */
static bool is_stamp(const char *name)
{
	static const char form[] = "..dddd_dd_dd_";

	for (size_t i = 0; form[i]; i++) {
		bool digit = name[i] >= '0' && name[i] <= '9';

		if (form[i] == 'd' ? !digit : name[i] != form[i])
			return false;
	}
	return strlen(name) < STAMP_SIZE && !strchr(name, '/');
}

/* The directory that DATA points to; "" when there is none of ours. */
static void read_stamp(int dir_fd, char ret_stamp[STAMP_SIZE])
{
	char text[STAMP_SIZE];
	ssize_t len = readlinkat(dir_fd, DATA, text, sizeof(text) - 1);

	text[len > 0 ? len : 0] = '\0';
	snprintf(ret_stamp, STAMP_SIZE, "%s", is_stamp(text) ? text : "");
}

/* What an entry is to look like; only mode and gid are filled in. */
static struct stat wanted_of(const struct writing *x, const struct payload_entry *entry, gid_t gid)
{
	struct stat st = {
		.st_mode = (entry->is_dir ? S_IFDIR : S_IFREG) | entry->mode,
		.st_gid = gid,
	};

	present(&x->w->rule, &st);
	return st;
}

static bool attributes_are_right(const struct writing *x, const struct payload_entry *entry,
				 const struct stat *st)
{
	struct stat wanted = wanted_of(x, entry, st->st_gid);

	return st->st_mode == wanted.st_mode && st->st_gid == wanted.st_gid &&
	       st->st_uid == geteuid();
}

static bool has_bytes(int fd, const struct payload_entry *entry)
{
	AUTO_FREE unsigned char *buffer = malloc(COMPARE_BYTES);
	size_t done = 0;

	while (buffer && done < entry->len) {
		size_t want = entry->len - done < COMPARE_BYTES ? entry->len - done : COMPARE_BYTES;
		ssize_t n = pread(fd, buffer, want, (off_t)done);

		if (n <= 0 || memcmp(buffer, entry->bytes + done, (size_t)n) != 0)
			break;
		done += (size_t)n;
	}
	if (buffer)
		explicit_bzero(buffer, COMPARE_BYTES);
	return done == entry->len;
}

static bool entry_is_right(const struct writing *x, int stamp_fd, const struct payload_entry *entry)
{
	AUTO_FD int fd = -1;
	struct stat st;

	if (open_below(stamp_fd, entry->path, O_PATH, 0, &fd) < 0 || fstat(fd, &st) < 0 ||
	    !attributes_are_right(x, entry, &st))
		return false;
	if (entry->is_dir)
		return true;
	if ((size_t)st.st_size != entry->len)
		return false;
	cleanup_fd(&fd); /* a regular file: opening it has no effect of its own */
	return open_below(stamp_fd, entry->path, O_RDONLY | O_NOATIME | O_NONBLOCK, 0, &fd) == 0 &&
	       has_bytes(fd, entry);
}

/* A readable stream of a directory's entries; NULL with errno. */
static DIR *open_dir(int dir_fd, const char *path)
{
	AUTO_FD int fd = -1;
	int r = open_below(dir_fd, path, O_RDONLY | O_DIRECTORY, 0, &fd);
	DIR *dir;

	if (r < 0) {
		errno = -r;
		return NULL;
	}
	dir = fdopendir(fd);
	if (dir)
		take_fd(&fd);
	return dir;
}

static struct dirent *next_of(DIR *dir)
{
	struct dirent *entry;

	do {
		entry = readdir(dir);
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry;
}

/* Adds the entries of one directory to *io_count; false: they cannot be read. */
static bool count_entries(int stamp_fd, const char *path, size_t *io_count)
{
	DIR *dir = open_dir(stamp_fd, path);

	if (!dir)
		return false;
	while (next_of(dir))
		(*io_count)++;
	closedir(dir);
	return true;
}

/* Whether what is seen now is the payload, with nothing beside it. */
static bool is_current(const struct writing *x)
{
	const struct payload_entry top = { .is_dir = true, .mode = 0755 };
	const struct payload *p = x->w->payload;
	AUTO_FD int fd = -1;
	size_t count = 0;
	struct stat st;

	if (!x->stamp[0] || open_below(x->root_fd, x->stamp, O_PATH | O_DIRECTORY, 0, &fd) < 0 ||
	    fstat(fd, &st) < 0 || !attributes_are_right(x, &top, &st) ||
	    !count_entries(fd, ".", &count))
		return false;
	for (size_t i = 0; i < p->count; i++) {
		const struct payload_entry *entry = &p->entries[i];

		if (!entry_is_right(x, fd, entry) ||
		    (entry->is_dir && !count_entries(fd, entry->path, &count)))
			return false;
	}
	return count == p->count;
}

/* ---- writing ---- */

static int make_stamp(struct writing *x)
{
	char date[32];
	uint64_t number;
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "..%Y_%m_%d_%H_%M_%S", &tm);
	for (int i = 0; i < 10; i++) {
		char name[STAMP_SIZE];

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -EIO;
		snprintf(name, sizeof(name), "%s.%016" PRIx64, date, number);
		step(x);
		if (mkdirat(x->root_fd, name, 0700) == 0) {
			strcpy(x->fresh, name);
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* Ownership before mode: chown clears set-ID bits. */
static int own(struct writing *x, int fd, const struct payload_entry *entry)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	struct stat wanted = wanted_of(x, entry, st.st_gid);

	step(x);
	if (wanted.st_gid != st.st_gid && fchown(fd, (uid_t)-1, wanted.st_gid) < 0)
		return -errno;
	if (fchmod(fd, wanted.st_mode & 07777) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

static int write_file(struct writing *x, int stamp_fd, const struct payload_entry *entry)
{
	AUTO_FD int fd = -1;
	int r;

	step(x);
	r = open_below(stamp_fd, entry->path, O_WRONLY | O_CREAT | O_EXCL, 0600, &fd);
	if (r < 0)
		return r;
	step(x);
	r = io_write_all(fd, entry->bytes, entry->len);
	return r < 0 ? r : own(x, fd, entry);
}

/* The directory is made by its last name in its parent. */
static int make_dir(struct writing *x, int stamp_fd, const struct payload_entry *entry)
{
	const char *slash = strrchr(entry->path, '/');
	AUTO_FREE char *parent =
		slash ? strndup(entry->path, (size_t)(slash - entry->path)) : strdup(".");
	AUTO_FD int fd = -1;
	int r;

	if (!parent)
		return -ENOMEM;
	r = open_below(stamp_fd, parent, O_PATH | O_DIRECTORY, 0, &fd);
	if (r < 0)
		return r;
	step(x);
	return mkdirat(fd, slash ? slash + 1 : entry->path, 0700) < 0 ? -errno : 0;
}

static int finish_dir(struct writing *x, int stamp_fd, const struct payload_entry *entry)
{
	AUTO_FD int fd = -1;
	int r = open_below(stamp_fd, entry->path, O_RDONLY | O_DIRECTORY, 0, &fd);

	return r < 0 ? r : own(x, fd, entry);
}

/* Everything in a directory that nobody looks into yet, with its final ownership. */
static int write_payload(struct writing *x)
{
	const struct payload_entry top = { .path = (char *)".", .is_dir = true, .mode = 0755 };
	const struct payload *p = x->w->payload;
	AUTO_FD int fd = -1;
	int r = make_stamp(x);

	if (r == 0)
		r = open_below(x->root_fd, x->fresh, O_RDONLY | O_DIRECTORY, 0, &fd);
	if (r < 0)
		return fail(x, r, "making a directory in", "the volume");
	for (size_t i = 0; i < p->count; i++) {
		const struct payload_entry *entry = &p->entries[i];

		r = entry->is_dir ? make_dir(x, fd, entry) : write_file(x, fd, entry);
		if (r < 0)
			return fail(x, r, "writing", entry->path);
	}
	/* From below: a directory's mode may forbid what comes before it. */
	for (size_t i = p->count; i > 0; i--) {
		const struct payload_entry *entry = &p->entries[i - 1];

		if (entry->is_dir && (r = finish_dir(x, fd, entry)) < 0)
			return fail(x, r, "owning", entry->path);
	}
	r = finish_dir(x, fd, &top);
	return r < 0 ? fail(x, r, "owning", "the payload's directory") : 0;
}

/* Puts a link at @name in one step, whatever link or file is there now. */
static int put_link(struct writing *x, const char *target, const char *temporary, const char *name)
{
	step(x);
	if (unlinkat(x->root_fd, temporary, 0) < 0 && errno != ENOENT)
		return -errno;
	step(x);
	if (symlinkat(target, x->root_fd, temporary) < 0)
		return -errno;
	/* The group of the link itself shows in a listing only; it is made right all the same. */
	if (x->w->rule.gid != GID_UNSET &&
	    fchownat(x->root_fd, temporary, (uid_t)-1, x->w->rule.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	step(x);
	if (renameat(x->root_fd, temporary, x->root_fd, name) < 0) {
		int r = -errno;

		unlinkat(x->root_fd, temporary, 0);
		return r == -EISDIR || r == -EBUSY ? -EEXIST : r;
	}
	return 0;
}

/* Flushes the root directory, where that means anything. */
static int flush_root(struct writing *x)
{
	return fsync(x->root_fd) < 0 ? -errno : 0;
}

static int swap(struct writing *x)
{
	int r = flush_root(x);

	if (r == 0)
		r = put_link(x, x->fresh, DATA_NEW, DATA);
	if (r == 0) {
		strcpy(x->stamp, x->fresh);
		x->fresh[0] = '\0';
		r = flush_root(x);
	}
	return r < 0 ? fail(x, r, "swapping", DATA) : 0;
}

/* ---- links that people see ---- */

/* The length of a path's first name. */
static size_t first_name(const struct payload_entry *entry)
{
	return strcspn(entry->path, "/");
}

/* "..data/NAME": where the link at NAME leads. */
static void link_target(const char *name, char ret_target[PATH_MAX])
{
	snprintf(ret_target, PATH_MAX, "%s/%s", DATA, name);
}

static bool link_is_right(const struct writing *x, const char *name, const char *target)
{
	char found[PATH_MAX];
	ssize_t len = readlinkat(x->root_fd, name, found, sizeof(found) - 1);
	struct stat st;

	if (len < 0)
		return false;
	found[len] = '\0';
	return strcmp(found, target) == 0 &&
	       fstatat(x->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (x->w->rule.gid == GID_UNSET || st.st_gid == x->w->rule.gid);
}

static int put_visible_links(struct writing *x)
{
	const struct payload *p = x->w->payload;
	char name[NAME_MAX + 1], target[PATH_MAX];

	for (size_t i = 0; i < p->count; i++) {
		size_t len = first_name(&p->entries[i]);
		int r;

		/* Only the entry that is the first name itself: a file, or a directory of others. */
		if (p->entries[i].path[len] != '\0')
			continue;
		snprintf(name, sizeof(name), "%s", p->entries[i].path);
		link_target(name, target);
		if (link_is_right(x, name, target))
			continue;
		r = put_link(x, target, LINK_NEW, name);
		if (r < 0)
			return fail(x, r, "linking", name);
	}
	return 0;
}

/* Whether @name is a visible link of ours. */
static bool is_our_link(const struct writing *x, const char *name)
{
	char found[PATH_MAX], target[PATH_MAX];
	ssize_t len = readlinkat(x->root_fd, name, found, sizeof(found) - 1);

	if (len < 0)
		return false;
	found[len] = '\0';
	link_target(name, target);
	return strcmp(found, target) == 0;
}

static bool is_stale(const struct writing *x, const char *name)
{
	return strcmp(name, DATA_NEW) == 0 || strcmp(name, LINK_NEW) == 0 ||
	       (is_our_link(x, name) && !payload_find(x->w->payload, name));
}

static int remove_name(struct writing *x, const char *name)
{
	if (is_stale(x, name)) {
		step(x);
		if (unlinkat(x->root_fd, name, 0) < 0 && errno != ENOENT)
			return fail(x, -errno, "removing", name);
		return 0;
	}
	if (is_stamp(name) && strcmp(name, x->stamp) != 0) {
		step(x);
		return tree_remove(x->root_fd, name, x->error, x->error_size);
	}
	return 0;
}

/* What an earlier payload had, and what a crash left. */
static int remove_stale(struct writing *x)
{
	DIR *dir = open_dir(x->root_fd, ".");
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return fail(x, -errno, "reading", "the volume");
	while (r == 0 && (entry = next_of(dir)) != NULL)
		r = remove_name(x, entry->d_name);
	closedir(dir);
	return r;
}

/* ---- all of it ---- */

static int own_root(struct writing *x)
{
	struct stat st;
	int r;

	if (x->w->rule.gid == GID_UNSET)
		return 0;
	if (fstat(x->root_fd, &st) < 0)
		return fail(x, -errno, "owning", "the volume");
	if (present_is_right(&x->w->rule, &st))
		return 0;
	step(x);
	AUTO_FD int fd = openat(x->root_fd, ".", O_PATH | O_CLOEXEC);

	r = fd < 0 ? -errno : apply_entry(fd, "/proc/self/fd", &x->w->rule, NULL);
	return r < 0 ? fail(x, r, "owning", "the volume") : 0;
}

static int write_and_swap(struct writing *x)
{
	bool current = is_current(x);
	int r = own_root(x);

	if (r == 0 && !current)
		r = write_payload(x);
	if (r == 0)
		r = put_visible_links(x);
	if (r == 0 && !current)
		r = swap(x);
	return r;
}

/* After a failure before the swap: what was written goes, and the links that lead nowhere. */
static void undo(struct writing *x)
{
	const struct payload *p = x->w->payload;
	AUTO_FD int fd = -1;
	char ignored[256];
	struct stat st;

	if (!x->fresh[0])
		return;
	(void)tree_remove(x->root_fd, x->fresh, ignored, sizeof(ignored));
	if (x->stamp[0])
		(void)open_below(x->root_fd, x->stamp, O_PATH | O_DIRECTORY, 0, &fd);
	for (size_t i = 0; i < p->count; i++) {
		const char *name = p->entries[i].path;

		if (!strchr(name, '/') && is_our_link(x, name) &&
		    (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0))
			(void)unlinkat(x->root_fd, name, 0);
	}
}

int atomic_write(const struct atomic_write *w, bool *ret_changed, char *ret_error, size_t size)
{
	struct writing x = { .w = w, .error = ret_error, .error_size = size };
	AUTO_FD int root_fd = openat(w->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root_fd < 0)
		return fail(&x, -errno, "opening", "the volume");
	x.root_fd = root_fd;
	read_stamp(root_fd, x.stamp);
	r = write_and_swap(&x);
	if (r < 0) {
		undo(&x);
		return r;
	}
	r = remove_stale(&x);
	if (r < 0)
		return r;
	*ret_changed = x.changed;
	return 0;
}

bool atomic_write_is_done(int dir_fd)
{
	char stamp[STAMP_SIZE];

	read_stamp(dir_fd, stamp);
	return stamp[0] != '\0';
}
