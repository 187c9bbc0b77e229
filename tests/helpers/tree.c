// SPDX-License-Identifier: Apache-2.0

/*
 * tree: real trees for integration tests, as a shell cannot write or read them.
 *
 *     tree make DIR        fills DIR with every kind of file, name and depth
 *     tree copy FROM TO    a copy down to owners, modes, xattrs, hard links and times
 *     tree apply DIR GID   the eager change of ownership, as a node agent does it today
 *     tree dump DIR        one line an entry, sorted by path: all that a program can see of it
 *     tree remove DIR      what is in DIR, however deep
 *
 * What the file system refuses (ACLs, capabilities, devices in a user namespace) is left out. The eager
 * change keeps file capabilities, unlike chown(2): that is this project's documented deviation.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"

enum { DEPTH = 1500, LIST_MAX = 65536 };

static void die(const char *what)
{
	fprintf(stderr, "tree: %s: %m\n", what);
	exit(EXIT_FAILURE);
}

static void must(int result, const char *what)
{
	if (result < 0)
		die(what);
}

/* An entry by directory and name, for calls that know only paths; does not follow. */
static const char *entry_path(int dir, const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	return path;
}

static int open_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	must(fd, name);
	return fd;
}

/* ---- make ---- */

static void make_file(int dir, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	AUTO_FD int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	must(fd, name);
	must(dprintf(fd, "content of %s\n", name), name);
	must(fchown(fd, uid, gid), "chown");
	must(fchmod(fd, mode), "chmod");
}

static int make_dir(int dir, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	int fd;

	must(mkdirat(dir, name, 0700), name);
	fd = open_dir(dir, name);
	must(fchown(fd, uid, gid), "chown");
	must(fchmod(fd, mode), "chmod");
	return fd;
}

static void set_xattr(int dir, const char *name, const char *key, const void *value, size_t len)
{
	if (lsetxattr(entry_path(dir, name), key, value, len, 0) < 0 && errno != EOPNOTSUPP &&
	    errno != EPERM)
		die(key);
}

static void make_names(int root)
{
	AUTO_FD int dir = make_dir(root, "names", 0755, 1000, 1000);
	char name[256] = "x";

	for (int byte = 1; byte < 256; byte++) {
		if (byte == '/')
			continue;
		name[1] = (char)byte;
		name[2] = '\0';
		make_file(dir, name, 0640, 1000, 1000);
	}
	memset(name, 'L', 255);
	name[255] = '\0';
	make_file(dir, name, 0604, 1001, 1001);
	make_file(dir, " ", 0600, 0, 0);
	make_file(dir, "...", 0600, 0, 0);
	make_file(dir, "-rf", 0600, 0, 0);
}

static void make_modes(int root)
{
	static const mode_t modes[] = { 0,     0111,  0200,  0400,  0444,  0600,  0604,	 0644,
					0660,  0666,  0700,  0755,  0777,  01644, 02644, 02755,
					04711, 04755, 06755, 06711, 06777, 07777 };
	AUTO_FD int dir = make_dir(root, "modes", 01777, 0, 0);
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		AUTO_FD int sub = -1;

		snprintf(name, sizeof(name), "f%04o", (unsigned)modes[i]);
		make_file(dir, name, modes[i], 1000 + (uid_t)i % 3, 1000 + (gid_t)i % 2);
		name[0] = 'd';
		sub = make_dir(dir, name, modes[i], 1000 + (uid_t)i % 3, 1000 + (gid_t)i % 2);
		make_file(sub, "inside", 0640, 1000, 1000);
	}
}

static void make_types(int root)
{
	AUTO_FD int dir = make_dir(root, "types", 0711, 1000, 1000);
	AUTO_FD int other = make_dir(root, "links", 0750, 1001, 1000);
	AUTO_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	must(symlinkat("nowhere/at/all", dir, "dangling"), "symlink");
	must(symlinkat("/etc/passwd", dir, "absolute"), "symlink");
	must(symlinkat("../names", dir, "relative"), "symlink");
	must(symlinkat("loop", dir, "loop"), "symlink");
	must(fchownat(dir, "dangling", 1000, 1000, AT_SYMLINK_NOFOLLOW), "lchown");
	must(mknodat(dir, "fifo", S_IFIFO | 0600, 0), "mkfifo");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/socket", dir);
	must(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), "bind");
	if (mknodat(dir, "char", S_IFCHR | 0644, makedev(1, 3)) < 0 && errno != EPERM)
		die("mknod");
	if (mknodat(dir, "block", S_IFBLK | 0600, makedev(7, 250)) < 0 && errno != EPERM)
		die("mknod");
	make_file(dir, "linked", 0600, 1000, 1000);
	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "link%d", i);
		must(linkat(dir, "linked", i % 2 ? dir : other, name, 0), "link");
	}
	must(linkat(dir, "fifo", other, "fifo", 0), "link");
}

/* An access ACL: owner rw, user 1002 rwx, group r, group 1003 rw, mask r, others nothing. */
static const unsigned char acl[] = {
	2,  0, 0, 0, 1,	  0,   6,   0,	 255, 255, 255, 255, 2,	  0,   7,    0,	  0xea, 3,
	0,  0, 4, 0, 4,	  0,   255, 255, 255, 255, 8,	0,   6,	  0,   0xeb, 3,	  0,	0,
	16, 0, 4, 0, 255, 255, 255, 255, 32,  0,   0,	0,   255, 255, 255,  255,
};

static void make_xattrs(int root)
{
	/* VFS_CAP_REVISION_2, effective; CAP_NET_BIND_SERVICE permitted */
	static const unsigned char capability[20] = { 1, 0, 0, 2, 0, 4 };
	AUTO_FD int dir = make_dir(root, "xattrs", 0755, 1000, 1000);
	AUTO_FD int defaults = make_dir(dir, "defaults", 0750, 1000, 1000);
	char value[1000];

	memset(value, 'v', sizeof(value));
	make_file(dir, "user", 0644, 1000, 1000);
	set_xattr(dir, "user", "user.empty", "", 0);
	set_xattr(dir, "user", "user.long", value, sizeof(value));
	set_xattr(dir, "user", "trusted.other", "t", 1);
	make_file(dir, "capability", 0755, 1000, 1000);
	set_xattr(dir, "capability", "security.capability", capability, sizeof(capability));
	make_file(dir, "acl", 0600, 1000, 1000);
	set_xattr(dir, "acl", "system.posix_acl_access", acl, sizeof(acl));
	set_xattr(dir, "defaults", "system.posix_acl_access", acl, sizeof(acl));
	set_xattr(dir, "defaults", "system.posix_acl_default", acl, sizeof(acl));
	make_file(defaults, "inside", 0640, 1000, 1000);
}

static void make_deep(int root)
{
	AUTO_FD int dir = make_dir(root, "deep", 0700, 1000, 1000);

	for (int i = 0; i < DEPTH; i++) {
		int next = make_dir(dir, "level-name", 0700, 1000, 1000);

		close(dir);
		dir = next;
	}
	make_file(dir, "bottom", 0600, 1000, 1000);
}

static void make_many(int root)
{
	AUTO_FD int dir = make_dir(root, "many", 0755, 1000, 1000);
	char name[32];

	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "file-%d", i);
		make_file(dir, name, i % 2 ? 0600 : 0644, 1000, 1000);
	}
}

static void make(int root)
{
	AUTO_FD int right = -1;

	make_names(root);
	make_modes(root);
	make_types(root);
	make_xattrs(root);
	make_deep(root);
	make_many(root);
	make_file(root, "sparse", 0600, 1000, 1000);
	must(truncate(entry_path(root, "sparse"), 1 << 20), "truncate");
	right = make_dir(root, "right", 02770, 1000, 4242);
	make_file(right, "right", 0660, 1000, 4242);
}

/* ---- the walk: one descriptor a level ---- */

struct entry {
	char *path; /* quoted, from the root */
	const char *name;
	int dir;
	struct stat st;
};

typedef void (*visitor)(void *context, const struct entry *entry);

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **read_names(int dir, size_t *ret_count)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	size_t count = 0, capacity = 0;
	char **names = NULL;

	if (!stream)
		die("opendir");
	while ((errno = 0, entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : 64;
			names = reallocarray(names, capacity, sizeof(*names));
		}
		if (!names || !(names[count++] = strdup(entry->d_name)))
			die("memory");
	}
	if (errno)
		die("readdir");
	closedir(stream);
	if (names)
		qsort(names, count, sizeof(*names), compare_names);
	*ret_count = count;
	return names;
}

/* Depth first; @before its children, @after them (either may be NULL). */
static void walk(int dir, const char *path, visitor before, visitor after, void *context)
{
	size_t count;
	char **names = read_names(dir, &count);

	for (size_t i = 0; i < count; i++) {
		char quoted[1100];
		struct entry e = { .name = names[i], .dir = dir };

		must(asprintf(&e.path, "%s/%s", path, log_quote(names[i], quoted, sizeof(quoted))),
		     "memory");
		must(fstatat(dir, names[i], &e.st, AT_SYMLINK_NOFOLLOW), e.path);
		if (before)
			before(context, &e);
		if (S_ISDIR(e.st.st_mode)) {
			AUTO_FD int sub = open_dir(dir, names[i]);

			walk(sub, e.path, before, after, context);
		}
		if (after)
			after(context, &e);
		free(e.path);
		free(names[i]);
	}
	free(names);
}

/* ---- apply ---- */

static void apply_one(int dir, const char *name, const struct stat *st, gid_t gid)
{
	mode_t mask = S_ISDIR(st->st_mode) ? 02770 : 0660;
	char capability[64];
	ssize_t len = -1;

	if (st->st_gid == gid && (S_ISLNK(st->st_mode) || (st->st_mode & mask) == mask))
		return;
	if (S_ISREG(st->st_mode))
		len = lgetxattr(entry_path(dir, name), "security.capability", capability,
				sizeof(capability));
	must(fchownat(dir, name, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW), "lchown");
	if (S_ISLNK(st->st_mode))
		return;
	must(fchmodat(dir, name, (st->st_mode & 07777) | mask, 0), "chmod");
	if (len > 0)
		set_xattr(dir, name, "security.capability", capability, (size_t)len);
}

static void apply_entry(void *context, const struct entry *e)
{
	apply_one(e->dir, e->name, &e->st, *(const gid_t *)context);
}

/* ---- dump ---- */

static uint64_t hash(uint64_t h, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ULL;
	return h;
}

static uint64_t hash_content(const struct entry *e)
{
	AUTO_FD int fd = openat(e->dir, e->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t h = 0xcbf29ce484222325ULL;
	char buffer[65536];
	ssize_t n;

	must(fd, e->path);
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		h = hash(h, buffer, (size_t)n);
	must((int)n, e->path);
	return h;
}

static void dump_xattrs(const struct entry *e)
{
	static char list[LIST_MAX], value[LIST_MAX];
	ssize_t len = llistxattr(entry_path(e->dir, e->name), list, sizeof(list));
	size_t count = 0;
	char *names[256], quoted[1100];

	if (len < 0 && errno == EOPNOTSUPP)
		return;
	must((int)len, e->path);
	for (char *at = list; at < list + len; at += strlen(at) + 1) {
		/* xfs shows an ACL once more, in its own form: not presented (a known limit). */
		if (strncmp(at, "trusted.SGI_ACL_", strlen("trusted.SGI_ACL_")) != 0)
			names[count++] = at;
	}
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++) {
		ssize_t n = lgetxattr(entry_path(e->dir, e->name), names[i], value, sizeof(value));

		must((int)n, names[i]);
		printf(" %s=%zd:%016" PRIx64, log_quote(names[i], quoted, sizeof(quoted)), n,
		       hash(0xcbf29ce484222325ULL, value, (size_t)n));
	}
}

static void dump_entry(void *context, const struct entry *e)
{
	const struct stat *st = &e->st;
	char target[4097], quoted[4 * 4097];

	(void)context;
	printf("%s type=%o mode=%04o uid=%u gid=%u nlink=%ju", e->path, (unsigned)st->st_mode >> 12,
	       (unsigned)st->st_mode & 07777, st->st_uid, st->st_gid,
	       /* a directory's links and size are its file system's own business */
	       S_ISDIR(st->st_mode) ? (uintmax_t)0 : (uintmax_t)st->st_nlink);
	if (S_ISREG(st->st_mode))
		printf(" size=%jd content=%016" PRIx64, (intmax_t)st->st_size, hash_content(e));
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		printf(" rdev=%u:%u", major(st->st_rdev), minor(st->st_rdev));
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(e->dir, e->name, target, sizeof(target) - 1);

		must((int)n, e->path);
		target[n] = '\0';
		printf(" target=%s", log_quote(target, quoted, sizeof(quoted)));
	}
	dump_xattrs(e);
	printf(" mtime=%jd.%09ld\n", (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

static void dump_root(int root)
{
	struct entry e = { .path = (char[]){ "." }, .name = ".", .dir = root };

	must(fstat(root, &e.st), "root");
	dump_entry(NULL, &e);
}

/* ---- copy ---- */

struct copy {
	int *dirs; /* of the copy, on the way from its root */
	size_t depth, capacity;
	int links_dir; /* a directory on the same file system, where first links are found again */
};

static void copy_xattrs(const struct entry *e, int to)
{
	static char list[LIST_MAX], value[LIST_MAX];
	ssize_t len = llistxattr(entry_path(e->dir, e->name), list, sizeof(list));

	for (char *at = list; at < list + len; at += strlen(at) + 1) {
		ssize_t n = lgetxattr(entry_path(e->dir, e->name), at, value, sizeof(value));

		must((int)n, at);
		set_xattr(to, e->name, at, value, (size_t)n);
	}
}

static void copy_content(const struct entry *e, int to)
{
	AUTO_FD int in = openat(e->dir, e->name, O_RDONLY | O_CLOEXEC);
	AUTO_FD int out = openat(to, e->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char buffer[65536];
	ssize_t n;

	must(in, e->path);
	must(out, e->path);
	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		must((int)write(out, buffer, (size_t)n), e->path);
	must((int)n, e->path);
}

/* Owner, mode, xattrs and times: after the content, for a directory after its children. */
static void copy_attributes(const struct entry *e, int to)
{
	const struct timespec times[2] = { e->st.st_atim, e->st.st_mtim };

	must(fchownat(to, e->name, e->st.st_uid, e->st.st_gid, AT_SYMLINK_NOFOLLOW), "lchown");
	if (!S_ISLNK(e->st.st_mode))
		must(fchmodat(to, e->name, e->st.st_mode & 07777, 0), "chmod");
	copy_xattrs(e, to);
	must(utimensat(to, e->name, times, AT_SYMLINK_NOFOLLOW), "utimensat");
}

static void copy_before(void *context, const struct entry *e)
{
	struct copy *c = context;
	int to = c->dirs[c->depth - 1];
	char name[32], target[4097];
	ssize_t n;

	if (S_ISDIR(e->st.st_mode)) {
		if (c->depth == c->capacity) {
			c->capacity *= 2;
			c->dirs = reallocarray(c->dirs, c->capacity, sizeof(*c->dirs));
			if (!c->dirs)
				die("memory");
		}
		must(mkdirat(to, e->name, 0700), e->path);
		c->dirs[c->depth] = open_dir(to, e->name);
		c->depth++;
		return;
	}
	snprintf(name, sizeof(name), "%ju", (uintmax_t)e->st.st_ino);
	if (e->st.st_nlink > 1 && linkat(c->links_dir, name, to, e->name, 0) == 0)
		return;
	if (S_ISREG(e->st.st_mode)) {
		copy_content(e, to);
	} else if (S_ISLNK(e->st.st_mode)) {
		n = readlinkat(e->dir, e->name, target, sizeof(target) - 1);
		must((int)n, e->path);
		target[n] = '\0';
		must(symlinkat(target, to, e->name), e->path);
	} else {
		must(mknodat(to, e->name, e->st.st_mode, e->st.st_rdev), e->path);
	}
	copy_attributes(e, to);
	if (e->st.st_nlink > 1)
		must(linkat(to, e->name, c->links_dir, name, 0), e->path);
}

static void copy_after(void *context, const struct entry *e)
{
	struct copy *c = context;

	if (!S_ISDIR(e->st.st_mode))
		return;
	close(c->dirs[--c->depth]);
	copy_attributes(e, c->dirs[c->depth - 1]);
}

/* ---- remove ---- */

static void remove_entry(void *context, const struct entry *e)
{
	(void)context;
	must(unlinkat(e->dir, e->name, S_ISDIR(e->st.st_mode) ? AT_REMOVEDIR : 0), e->path);
}

static void copy(int from, int to)
{
	static const char links_name[] = ".links";
	struct copy c = { .depth = 1, .capacity = 64 };
	const char *here = ".";
	struct entry root = { .path = (char[]){ "." }, .name = here, .dir = from };
	AUTO_FD int links = make_dir(to, links_name, 0700, 0, 0);

	c.links_dir = links;
	c.dirs = calloc(c.capacity, sizeof(*c.dirs));
	if (!c.dirs)
		die("memory");
	c.dirs[0] = to;
	must(fstat(from, &root.st), "source");
	walk(from, "", copy_before, copy_after, &c);
	walk(links, "", NULL, remove_entry, NULL);
	must(unlinkat(to, links_name, AT_REMOVEDIR), links_name);
	copy_attributes(&root, to);
	free(c.dirs);
}

/* Trees are deeper than the usual limit. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	must(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	must(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

int main(int argc, char **argv)
{
	const char *command = argc >= 3 ? argv[1] : "";
	AUTO_FD int root = argc >= 3 ? open_dir(AT_FDCWD, argv[2]) : -1;

	raise_descriptors();
	umask(0);
	if (strcmp(command, "make") == 0 && argc == 3) {
		make(root);
	} else if (strcmp(command, "copy") == 0 && argc == 4) {
		AUTO_FD int to = open_dir(AT_FDCWD, argv[3]);

		copy(root, to);
	} else if (strcmp(command, "apply") == 0 && argc == 4) {
		struct stat st;
		gid_t gid;

		if (parse_gid(argv[3], &gid) < 0)
			return 2;
		walk(root, "", NULL, apply_entry, &gid);
		must(fstat(root, &st), "root");
		apply_one(root, ".", &st, gid);
	} else if (strcmp(command, "dump") == 0 && argc == 3) {
		dump_root(root);
		walk(root, "", dump_entry, NULL, NULL);
	} else if (strcmp(command, "remove") == 0 && argc == 3) {
		walk(root, "", NULL, remove_entry, NULL);
	} else {
		fprintf(stderr,
			"usage: tree make|dump|remove DIR | tree copy FROM TO | tree apply DIR GID\n");
		return 2;
	}
	return 0;
}
