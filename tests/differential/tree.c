// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/acl.h"
#include "tests/differential/program.h"
#include "tests/differential/random.h"

enum { FILES = 70, DIRS_MAX = 14, DEPTH_MAX = 3 };

struct maker {
	struct random random;
	int root_fd;
	char dirs[DIRS_MAX][TREE_PATH_MAX];
	unsigned dir_count;
	char files[FILES][TREE_PATH_MAX];
	unsigned file_count;
};

static const uid_t uids[] = { 0, 1001, 1001, 1002, 1003, 1004 };
static const gid_t gids[] = { 0, 1001, 1002, 2000, 4242, 4242 };
static const mode_t modes[] = { 0644,  0644,  0600,  0640,  0400,  0000,  0755,	 0755,
				0700,  0666,  0777,  0604,  0070,  0007,  04755, 02755,
				06755, 02644, 04711, 01644, 06711, 02745, 04644, 0464 };
static const mode_t dir_modes[] = { 0755,  0755, 0755, 0700, 0750,  0777, 01777, 02755,
				    02770, 0711, 0555, 0000, 03777, 0705, 0070 };

static int set_acl(struct maker *m, const char *path, const char *name)
{
	unsigned char acl[ACL_BYTES_MAX];
	size_t len = acl_random(&m->random, false, acl);

	return setxattr(path, name, acl, len, 0) < 0 ? -errno : 0;
}

/* The kernel's VFS_CAP_REVISION_2 with CAP_NET_RAW, permitted and effective. */
static int set_capability(const char *path)
{
	const uint32_t capability[5] = { htole32(0x02000001), htole32(1 << 13), 0, 0, 0 };

	return setxattr(path, "security.capability", capability, sizeof(capability), 0) < 0 ?
		       -errno :
		       0;
}

/* Owner, mode, attributes; the times are old, so that whatever touches them is seen. */
static int decorate(struct maker *m, const char *path, mode_t type)
{
	struct random *random = &m->random;
	struct timespec times[2] = { { .tv_sec = 978307200, .tv_nsec = 123456789 },
				     { .tv_sec = 946684800 + random_below(random, 1 << 24),
				       .tv_nsec = random_below(random, 1000000000) } };
	uid_t uid = random_pick(random, uids);
	gid_t gid = random_pick(random, gids);
	mode_t mode = S_ISDIR(type) ? random_pick(random, dir_modes) : random_pick(random, modes);
	int r = 0;

	if (lchown(path, uid, gid) < 0)
		return -errno;
	if (S_ISREG(type) || S_ISDIR(type)) {
		if (random_percent(random, 25))
			r = set_acl(m, path, "system.posix_acl_access");
		if (r == 0 && S_ISDIR(type) && random_percent(random, 25))
			r = set_acl(m, path, "system.posix_acl_default");
		if (r == 0 && random_percent(random, 20) &&
		    setxattr(path, "user.one", "1", 1, 0) < 0)
			r = -errno;
		/* EPERM: in a user namespace. */
		if (r == 0 && random_percent(random, 15) &&
		    setxattr(path, "trusted.two", "second", 6, 0) < 0 && errno != EPERM)
			r = -errno;
		if (r == 0 && S_ISREG(type) && random_percent(random, 12))
			r = set_capability(path);
	}
	if (r == 0 && !S_ISLNK(type) && chmod(path, mode) < 0)
		r = -errno;
	if (r == 0 && utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int make_file(struct maker *m, const char *path)
{
	struct random *random = &m->random;
	unsigned char program[PROGRAM_BYTES_MAX], data[8192];
	size_t len = random_below(random, 3) == 0 ? random_below(random, sizeof(data)) :
						    random_below(random, 200);
	AUTO_FD int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	const void *bytes = data;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < len; i++)
		data[i] = (unsigned char)random_next(random);
	if (random_percent(random, 25)) {
		len = program_image(program);
		bytes = program;
	}
	if (len > 0 && write(fd, bytes, len) != (ssize_t)len)
		return -EIO;
	if (random_percent(random, 10) && ftruncate(fd, 64 * 1024) < 0)
		return -errno;
	return 0;
}

static int make_link(struct maker *m, const char *path)
{
	static const char *const targets[] = { "nowhere", "..", ".",	"a",
					       "../b",	  "d0", "loop", "../../x" };
	const char *target = m->file_count > 0 && random_percent(&m->random, 40) ?
				     m->files[random_below(&m->random, m->file_count)] :
				     random_pick(&m->random, targets);

	return symlink(target, path) < 0 ? -errno : 0;
}

/* In a user namespace there are no devices but whiteouts. */
static int make_special(const char *path, mode_t type)
{
	if (mknod(path, type | 0600, S_ISCHR(type) ? makedev(1, 3) : 0) == 0 ||
	    (errno == EPERM && S_ISCHR(type) && mknod(path, type | 0600, 0) == 0))
		return 0;
	return -errno;
}

static int make_object(struct maker *m, const char *path, mode_t type)
{
	int r = S_ISREG(type) ? make_file(m, path) :
		S_ISLNK(type) ? make_link(m, path) :
				make_special(path, type);

	return r < 0 ? r : decorate(m, path, type);
}

/* One entry that is not a directory, of a random type, with a random name. */
static int make_entry(struct maker *m, unsigned number)
{
	static const mode_t types[] = { S_IFREG, S_IFREG, S_IFREG, S_IFREG,  S_IFREG, S_IFREG,
					S_IFLNK, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFREG };
	char path[TREE_PATH_MAX + 16];
	mode_t type = random_pick(&m->random, types);
	int r;

	snprintf(path, sizeof(path), "%s/%c%u", m->dirs[random_below(&m->random, m->dir_count)],
		 "abcefg"[random_below(&m->random, 6)], number);
	if (m->file_count > 0 && random_percent(&m->random, 12)) {
		const char *old = m->files[random_below(&m->random, m->file_count)];

		return linkat(AT_FDCWD, old, AT_FDCWD, path, 0) < 0 ? -errno : 0;
	}
	r = make_object(m, path, type);
	if (r == 0 && S_ISREG(type))
		snprintf(m->files[m->file_count++], TREE_PATH_MAX, "%.300s", path);
	return r;
}

static int make_dirs(struct maker *m)
{
	strcpy(m->dirs[0], ".");
	m->dir_count = 1;
	while (m->dir_count < DIRS_MAX) {
		char *path = m->dirs[m->dir_count], parent[TREE_PATH_MAX];
		unsigned depth = 0;

		strcpy(parent, m->dirs[random_below(&m->random, m->dir_count)]);
		for (const char *c = parent; *c; c++)
			depth += *c == '/';
		if (depth >= DEPTH_MAX)
			continue;
		snprintf(path, TREE_PATH_MAX, "%.200s/d%u", parent, m->dir_count);
		if (mkdir(path, 0755) < 0)
			return -errno;
		m->dir_count++;
	}
	return 0;
}

int tree_make(const char *path, uint64_t seed)
{
	AUTO_FREE struct maker *m = calloc(1, sizeof(*m));
	AUTO_FD int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (!m || before < 0)
		return -ENOMEM;
	m->random.state = seed;
	if (chdir(path) < 0)
		return -errno;
	r = make_dirs(m);
	for (unsigned i = 0; r == 0 && i < FILES; i++)
		r = make_entry(m, i);
	/* From the inside out: what is made in a directory changes its times. */
	for (unsigned i = m->dir_count; r == 0 && i-- > 1;)
		r = decorate(m, m->dirs[i], S_IFDIR);
	if (r == 0)
		r = decorate(m, ".", S_IFDIR);
	if (r == 0 && chmod(".", 0755) < 0)
		r = -errno;
	if (fchdir(before) < 0 && r == 0)
		r = -errno;
	return r;
}

int tree_add(const char *path, mode_t type, struct random *io_random)
{
	AUTO_FREE struct maker *m = calloc(1, sizeof(*m));
	char child[TREE_PATH_MAX + 16];
	int r = 0;

	if (!m)
		return -ENOMEM;
	m->random = *io_random;
	if (!S_ISDIR(type)) {
		r = make_object(m, path, type);
	} else if (mkdir(path, 0700) < 0) {
		r = -errno;
	} else {
		for (unsigned i = 0; r == 0 && i < TREE_ADDED; i++) {
			snprintf(child, sizeof(child), "%s/%c", path, 'a' + (int)i);
			r = make_object(m, child, S_IFREG);
		}
		if (r == 0)
			r = decorate(m, path, type);
	}
	*io_random = m->random;
	return r;
}

/* The first byte of what read_names() gives is the type. */
static int compare_entries(const void *a, const void *b)
{
	return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

enum { LISTED_MAX = 1000 };

/* The sorted names in a directory, each behind its type (DT_REG ...), to be freed one by one. Changes no times. */
static unsigned read_names(int dir_fd, const char *name, char *ret_names[LISTED_MAX])
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	unsigned count = 0;

	while (dir && count < LISTED_MAX && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    asprintf(&ret_names[count], "%c%s", entry->d_type, entry->d_name) > 0)
			count++;
	}
	if (dir)
		closedir(dir);
	qsort(ret_names, count, sizeof(ret_names[0]), compare_entries);
	return count;
}

/* @prefix: "" or a directory's path with a slash. */
static void list_below(int dir_fd, const char *name, const char *prefix, struct tree_paths *paths)
{
	AUTO_FREE char **names = calloc(LISTED_MAX, sizeof(*names));
	unsigned count = names ? read_names(dir_fd, name, names) : 0;
	AUTO_FD int here = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (unsigned i = 0; i < count; i++) {
		AUTO_FREE char *entry = names[i];
		const char *child = entry + 1;
		char below[TREE_PATH_MAX + 2];
		unsigned at = paths->count;

		if (at == TREE_PATHS_MAX || strlen(prefix) + strlen(child) >= TREE_PATH_MAX - 32)
			continue;
		stpcpy(stpcpy(paths->entries[at].path, prefix), child);
		paths->entries[at].type = DTTOIF(entry[0]);
		paths->count++;
		snprintf(below, sizeof(below), "%s/", paths->entries[at].path);
		if (entry[0] == DT_DIR)
			list_below(here, child, below, paths);
	}
}

void tree_list(int root_fd, struct tree_paths *ret_paths)
{
	ret_paths->count = 1;
	strcpy(ret_paths->entries[0].path, ".");
	ret_paths->entries[0].type = S_IFDIR;
	list_below(root_fd, ".", "", ret_paths);
}

void tree_describe(FILE *out, int root_fd, const char *path)
{
	char names[1024], where[64], value[128];
	struct stat st;
	AUTO_FD int fd = openat(root_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	ssize_t len;

	if (fd < 0 || fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return;
	fprintf(out, "%s: mode %06o owner %u:%u links %u size %lld", path, st.st_mode, st.st_uid,
		st.st_gid, (unsigned)st.st_nlink, (long long)st.st_size);
	if (S_ISLNK(st.st_mode)) {
		len = readlinkat(fd, "", value, sizeof(value) - 1);
		fprintf(out, " -> %.*s", len > 0 ? (int)len : 0, value);
	}
	snprintf(where, sizeof(where), "/proc/self/fd/%d", fd);
	len = S_ISLNK(st.st_mode) ? 0 : listxattr(where, names, sizeof(names));
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t n = getxattr(where, names + at, value, sizeof(value));

		fprintf(out, " %s=", names + at);
		for (ssize_t i = 0; i < n; i++)
			fprintf(out, "%02x", (unsigned char)value[i]);
	}
	fputc('\n', out);
}
