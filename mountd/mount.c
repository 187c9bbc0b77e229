// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/apart.h"

enum { BUSY_TRIES = 4, BUSY_PAUSE_MS = 20 };

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x00001000U
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

/* libmount's border: it returns -errno, or codes of its own from MNT_ERR_NOFSTAB on. */
static int mount_errno(int code)
{
	if (code >= 0)
		return code;
	return code <= -MNT_ERR_NOFSTAB ? -EIO : code;
}

int mount_look(int dir_fd, const char *name, struct mount_view *ret_view)
{
	const int flags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
	AUTO_FD int fd = -1;
	struct statx stx;
	int r = name[0] ? apart_open(dir_fd, name, O_PATH | O_NOFOLLOW, 0, &fd) : 0;

	if (r < 0)
		return r;
	if (statx(name[0] ? fd : dir_fd, "", flags, STATX_TYPE | STATX_MNT_ID | STATX_MNT_ID_UNIQUE,
		  &stx) < 0)
		return -errno;
	*ret_view = (struct mount_view){
		.id = stx.stx_mnt_id,
		.is_root = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0,
		.mode = stx.stx_mode,
		.dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
		.rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor),
	};
	return 0;
}

static int id_of(int fd, uint64_t *ret_id)
{
	struct mount_view view;
	int r = mount_look(fd, "", &view);

	if (r == 0)
		*ret_id = view.id;
	return r;
}

int mount_clone(int fd, const struct mount_flags *flags, int *ret_tree_fd, uint64_t *ret_id)
{
	/* Private: what is mounted below the clone later must not appear in the original. */
	struct mount_attr attr = { .attr_set = flags ? flags->set : 0,
				   .attr_clr = flags ? flags->clear : 0,
				   .propagation = MS_PRIVATE };
	AUTO_FD int tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	int r;

	if (tree < 0)
		return -errno;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	r = id_of(tree, ret_id);
	if (r == 0)
		*ret_tree_fd = take_fd(&tree);
	return r;
}

int mount_flags_like(int fd, const struct mount_flags *flags, struct mount_flags *ret_flags)
{
	/* The atime mode that has no bit is what there is without the others. */
	static const struct {
		unsigned long flag;
		uint64_t attr;
	} rows[] = {
		{ ST_RDONLY, MOUNT_ATTR_RDONLY },   { ST_NOSUID, MOUNT_ATTR_NOSUID },
		{ ST_NODEV, MOUNT_ATTR_NODEV },	    { ST_NOEXEC, MOUNT_ATTR_NOEXEC },
		{ ST_NOATIME, MOUNT_ATTR_NOATIME }, { ST_NODIRATIME, MOUNT_ATTR_NODIRATIME },
	};
	struct mount_flags like = { .clear = MOUNT_ATTR__ATIME };
	struct statvfs st;

	if (fstatvfs(fd, &st) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (st.f_flag & rows[i].flag)
			like.set |= rows[i].attr;
		else
			like.clear |= rows[i].attr;
	}
	if (!(st.f_flag & (ST_NOATIME | ST_RELATIME)))
		like.set |= MOUNT_ATTR_STRICTATIME;
	*ret_flags = mount_flags_over(&like, flags);
	return 0;
}

int mount_change(int dir_fd, const char *name, uint64_t id, const struct mount_flags *flags)
{
	struct mount_attr attr = { .attr_set = flags->set, .attr_clr = flags->clear };
	AUTO_FD int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct mount_view view;
	int r;

	if (fd < 0)
		return -errno;
	r = mount_look(fd, "", &view);
	if (r == 0 && (view.id != id || !view.is_root))
		r = -ENOENT;
	if (r == 0 && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		r = -errno;
	return r;
}

int mount_new_tmpfs(uint64_t size_bytes, mode_t mode, int *ret_tree_fd, uint64_t *ret_id)
{
	AUTO_FD int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	AUTO_FD int tree = -1;
	char text[32];
	int r;

	if (fs < 0)
		return -errno;
	snprintf(text, sizeof(text), "%o", (unsigned)mode & 07777);
	if (fsconfig(fs, FSCONFIG_SET_STRING, "mode", text, 0) < 0)
		return -errno;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)size_bytes);
	if (size_bytes > 0 && fsconfig(fs, FSCONFIG_SET_STRING, "size", text, 0) < 0)
		return -errno;
	/* Linux 6.4; refused in user namespaces. What is in memory only should stay there, where it can. */
	(void)fsconfig(fs, FSCONFIG_SET_FLAG, "noswap", NULL, 0);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	tree = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (tree < 0)
		return -errno;
	r = id_of(tree, ret_id);
	if (r == 0)
		*ret_tree_fd = take_fd(&tree);
	return r;
}

/* ---- file systems on devices ---- */

/* What options of mount(8) are to the kernel: to the mount, by number; to the file system, by name. */
static const struct {
	unsigned long flag;
	uint64_t attr;	  /* of the mount; 0: none */
	const char *name; /* of the file system's option; NULL: none */
} mount_flags[] = {
	{ MS_RDONLY, MOUNT_ATTR_RDONLY, "ro" },
	{ MS_NOSUID, MOUNT_ATTR_NOSUID, NULL },
	{ MS_NODEV, MOUNT_ATTR_NODEV, NULL },
	{ MS_NOEXEC, MOUNT_ATTR_NOEXEC, NULL },
	{ MS_NOATIME, MOUNT_ATTR_NOATIME, NULL },
	{ MS_STRICTATIME, MOUNT_ATTR_STRICTATIME, NULL },
	{ MS_NODIRATIME, MOUNT_ATTR_NODIRATIME, NULL },
	{ MS_RELATIME, MOUNT_ATTR_RELATIME, NULL },
	{ MS_SYNCHRONOUS, 0, "sync" },
	{ MS_DIRSYNC, 0, "dirsync" },
	{ MS_LAZYTIME, 0, "lazytime" },
	{ MS_SILENT, 0, "silent" },
};

struct split_options {
	uint64_t attr;
	unsigned long flags;
	char *fs; /* what only the file system knows, separated by commas; or NULL */
};

static int split_options(const char *options, struct split_options *ret_split, char *ret_why,
			 size_t size)
{
	const unsigned long in_programs = MNT_MS_LOOP | MNT_MS_OFFSET | MNT_MS_SIZELIMIT |
					  MNT_MS_ENCRYPTION | MNT_MS_HELPER | MNT_MS_UHELPER;
	AUTO_FREE char *user = NULL, *vfs = NULL, *fs = NULL;
	unsigned long flags = 0, user_flags = 0, known = 0;
	uint64_t attr = 0;
	int r = mount_errno(mnt_split_optstr(options, &user, &vfs, &fs, 0, 0));

	if (r == 0 && vfs)
		r = mount_errno(
			mnt_optstr_get_flags(vfs, &flags, mnt_get_builtin_optmap(MNT_LINUX_MAP)));
	if (r == 0 && user)
		r = mount_errno(mnt_optstr_get_flags(user, &user_flags,
						     mnt_get_builtin_optmap(MNT_USERSPACE_MAP)));
	for (size_t i = 0; i < ARRAY_SIZE(mount_flags); i++) {
		known |= mount_flags[i].flag;
		if (flags & mount_flags[i].flag)
			attr |= mount_flags[i].attr;
	}
	if (r < 0 || (flags & ~known) || (user_flags & in_programs)) {
		snprintf(ret_why, size, "mount options that cannot be used here");
		return r < 0 ? r : -EINVAL;
	}
	*ret_split = (struct split_options){ .attr = attr, .flags = flags, .fs = take_ptr(&fs) };
	return 0;
}

/* The last thing that the file system said; else the error's own text. */
static void read_why(int fs_fd, int error, char *ret_why, size_t size)
{
	char line[256];
	ssize_t n;

	snprintf(ret_why, size, "%s", strerror(-error));
	while ((n = read(fs_fd, line, sizeof(line) - 1)) > 2) {
		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == 'e') /* "e text": an error; w and i are warnings and news */
			log_quote(line + 2, ret_why, size);
	}
}

static int set_fs_option(int fs_fd, const char *name, const char *value)
{
	int r = value && *value ? fsconfig(fs_fd, FSCONFIG_SET_STRING, name, value, 0) :
				  fsconfig(fs_fd, FSCONFIG_SET_FLAG, name, NULL, 0);

	return r < 0 ? -errno : 0;
}

static int set_fs_options(int fs_fd, const struct split_options *split, char *ret_why, size_t size)
{
	char *next = split->fs, *name = NULL, *value = NULL;
	size_t name_len = 0, value_len = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mount_flags); i++) {
		if ((split->flags & mount_flags[i].flag) && mount_flags[i].name)
			r = set_fs_option(fs_fd, mount_flags[i].name, NULL);
	}
	while (r == 0 && next && *next &&
	       mnt_optstr_next_option(&next, &name, &name_len, &value, &value_len) == 0) {
		AUTO_FREE char *one = strndup(name, name_len);
		AUTO_FREE char *its = value ? strndup(value, value_len) : NULL;
		char why[192], quoted[64];

		r = one && (its || !value) ? set_fs_option(fs_fd, one, its) : -ENOMEM;
		if (r < 0) {
			read_why(fs_fd, r, why, sizeof(why));
			snprintf(ret_why, size, "mount option %s: %s",
				 log_quote(one ? one : "?", quoted, sizeof(quoted)), why);
		}
	}
	return r;
}

static int make_fs(int fs_fd, const char *source, const struct split_options *split, char *ret_why,
		   size_t size)
{
	int r = set_fs_options(fs_fd, split, ret_why, size);

	if (r < 0)
		return r;
	if (fsconfig(fs_fd, FSCONFIG_SET_STRING, "source", source, 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		r = -errno;
		read_why(fs_fd, r, ret_why, size);
	}
	return r;
}

int mount_new_fs(const char *source, const char *type, const char *options, int *ret_tree_fd,
		 uint64_t *ret_id, char *ret_why, size_t size)
{
	struct split_options split = { 0 };
	AUTO_FD int fs = -1, tree = -1;
	int r = options ? split_options(options, &split, ret_why, size) : 0;

	if (r < 0)
		return r;
	fs = fsopen(type, FSOPEN_CLOEXEC);
	if (fs < 0) {
		r = -errno;
		snprintf(ret_why, size, "%s",
			 r == -ENODEV ? "the kernel has no such file system" : strerror(-r));
	} else {
		r = make_fs(fs, source, &split, ret_why, size);
	}
	free(split.fs);
	if (r < 0)
		return r;
	tree = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)split.attr);
	r = tree < 0 ? -errno : id_of(tree, ret_id);
	if (r < 0)
		snprintf(ret_why, size, "%s", strerror(-r));
	else
		*ret_tree_fd = take_fd(&tree);
	return r;
}

bool mount_needs_helper(const char *type)
{
	return strcmp(type, "nfs") == 0 || strcmp(type, "nfs4") == 0;
}

static int helper_mount(struct libmnt_context *context, const char *source, const char *type,
			const char *options, const char *path, char *ret_why, size_t size)
{
	int r;

	if (mnt_context_disable_mtab(context, 1) < 0 ||
	    mnt_context_disable_canonicalize(context, 1) < 0 ||
	    mnt_context_set_fstype(context, type) < 0 ||
	    mnt_context_set_source(context, source) < 0 ||
	    mnt_context_set_target(context, path) < 0 ||
	    (options && mnt_context_set_options(context, options) < 0))
		return -ENOMEM;
	r = mnt_context_mount(context);
	if (r == 0 && mnt_context_get_status(context) == 1)
		return 0;
	if (!mnt_context_helper_executed(context)) {
		snprintf(ret_why, size, "mount.%s cannot be run: is it installed?", type);
		return -ENOENT;
	}
	snprintf(ret_why, size, "mount.%s ended with status %d", type,
		 mnt_context_get_helper_status(context));
	return -EIO;
}

int mount_by_helper(const char *source, const char *type, const char *options, int dir_fd,
		    const char *name, uint64_t *ret_id, char *ret_why, size_t size)
{
	struct libmnt_context *context = mnt_new_context();
	char path[64 + NAME_MAX];
	struct mount_view view;
	int n = snprintf(path, sizeof(path), "/proc/%d/fd/%d/%s", (int)getpid(), dir_fd, name);
	int r = n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : 0;

	snprintf(ret_why, size, "%s", strerror(r < 0 ? -r : ENOMEM));
	if (r == 0)
		r = context ? helper_mount(context, source, type, options, path, ret_why, size) :
			      -ENOMEM;
	mnt_free_context(context);
	if (r < 0)
		return r;
	r = mount_look(dir_fd, name, &view);
	if (r == 0 && !view.is_root)
		r = -EIO;
	if (r < 0)
		snprintf(ret_why, size, "mount.%s reports success, and nothing is mounted", type);
	else
		*ret_id = view.id;
	return r;
}

int mount_attach(int tree_fd, int dir_fd, const char *name)
{
	if (move_mount(tree_fd, "", dir_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

/*
 * Somebody may just have looked; or a process that we have begun for another volume has copies of all our descriptors
 * until it has closed them. Neither has an end that could be waited for.
 */
int mount_detach(int dir_fd, const char *name, bool lazy, uint64_t limit_ms)
{
	const struct timespec pause = { .tv_nsec = BUSY_PAUSE_MS * 1000000L };
	int r = -EBUSY;

	for (int i = 0; r == -EBUSY && i < BUSY_TRIES; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		r = apart_unmount(dir_fd, name, lazy ? MNT_DETACH : 0, limit_ms);
	}
	return r;
}

/* The kernel's table as it is now. No cache is set: libmount must not canonicalise, which stats. */
static int table_read(struct libmnt_table **ret_table)
{
	struct libmnt_table *table = mnt_new_table();
	int r;

	if (!table)
		return -ENOMEM;
	r = mount_errno(mnt_table_parse_file(table, "/proc/self/mountinfo"));
	if (r < 0) {
		mnt_unref_table(table);
		return r;
	}
	*ret_table = table;
	return 0;
}

/* The last mount in the table for which @matches(target, path). */
static struct libmnt_fs *table_find(struct libmnt_table *table, const char *path,
				    bool (*matches)(const char *target, const char *path))
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_BACKWARD);
	struct libmnt_fs *fs = NULL, *found = NULL;

	while (iter && !found && mnt_table_next_fs(table, iter, &fs) == 0) {
		const char *target = mnt_fs_get_target(fs);

		if (target && matches(target, path))
			found = fs;
	}
	mnt_free_iter(iter);
	return found;
}

static bool is_at(const char *target, const char *path)
{
	return strcmp(target, path) == 0;
}

static bool is_below(const char *target, const char *path)
{
	size_t len = strlen(path);

	return strncmp(target, path, len) == 0 && target[len] == '/';
}

/* table_find() in the table as it is now, which is the caller's to give back on success. 0, -ENOENT or -errno. */
static int look_up(const char *path, bool (*matches)(const char *target, const char *path),
		   struct libmnt_table **ret_table, struct libmnt_fs **ret_fs)
{
	struct libmnt_table *table = NULL;
	int r = table_read(&table);

	if (r < 0)
		return r;
	*ret_fs = table_find(table, path, matches);
	if (!*ret_fs) {
		mnt_unref_table(table);
		return -ENOENT;
	}
	*ret_table = table;
	return 0;
}

int mount_fs_options(const char *path, char **ret_options)
{
	struct libmnt_table *table;
	struct libmnt_fs *fs;
	const char *options;
	char *copy;
	int r = look_up(path, is_at, &table, &fs);

	if (r < 0)
		return r;
	options = mnt_fs_get_fs_options(fs);
	copy = strdup(options ? options : "");
	mnt_unref_table(table);
	if (!copy)
		return -ENOMEM;
	*ret_options = copy;
	return 0;
}

int mount_describe(const char *path, char *ret_text, size_t size)
{
	struct libmnt_table *table;
	const char *type, *source;
	struct libmnt_fs *fs;
	char a[64], b[256];
	int r = look_up(path, is_at, &table, &fs);

	if (r < 0)
		return r;
	type = mnt_fs_get_fstype(fs);
	source = mnt_fs_get_source(fs);
	snprintf(ret_text, size, "%s from %s", log_quote(type ? type : "?", a, sizeof(a)),
		 log_quote(source ? source : "none", b, sizeof(b)));
	mnt_unref_table(table);
	return 0;
}

bool mount_is_overlay(const char *path, const char *type, const char *source)
{
	const char *found_type, *found_source;
	struct libmnt_table *table;
	struct libmnt_fs *fs;
	bool is_it;

	if (look_up(path, is_at, &table, &fs) < 0)
		return false;
	found_type = mnt_fs_get_fstype(fs);
	found_source = mnt_fs_get_source(fs);
	is_it = found_type && found_source && strcmp(found_type, type) == 0 &&
		strcmp(found_source, source) == 0;
	mnt_unref_table(table);
	return is_it;
}

int mount_below(const char *path, char **ret_path)
{
	struct libmnt_table *table;
	struct libmnt_fs *fs;
	int r = look_up(path, is_below, &table, &fs);

	if (r < 0)
		return r;
	*ret_path = strdup(mnt_fs_get_target(fs));
	mnt_unref_table(table);
	return *ret_path ? 0 : -ENOMEM;
}

int mount_table_below(const char *path, struct mount_entry **ret_list)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = NULL;
	struct mount_entry *list = NULL;
	struct libmnt_fs *fs = NULL;
	size_t count = 0;
	int r = iter ? table_read(&table) : -ENOMEM;

	while (r == 0 && mnt_table_next_fs(table, iter, &fs) == 0) {
		const char *point = mnt_fs_get_target(fs), *type = mnt_fs_get_fstype(fs);

		if (!point || !is_below(point, path))
			continue;
		r = mount_list_add(&list, count, 0, point, type ? type : "?");
		count += r == 0;
	}
	mnt_free_iter(iter);
	mnt_unref_table(table);
	if (r < 0) {
		mount_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

int mount_table_ids(uint64_t **ret_ids)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = NULL;
	AUTO_FREE uint64_t *ids = NULL;
	struct libmnt_fs *fs = NULL;
	int count = 0, r = iter ? table_read(&table) : -ENOMEM;

	if (r == 0) {
		ids = calloc((size_t)mnt_table_get_nents(table) + 1, sizeof(*ids));
		r = ids ? 0 : -ENOMEM;
	}
	while (r == 0 && mnt_table_next_fs(table, iter, &fs) == 0)
		ids[count++] = (uint64_t)mnt_fs_get_id(fs);
	mnt_free_iter(iter);
	mnt_unref_table(table);
	if (r < 0)
		return r;
	*ret_ids = take_ptr(&ids);
	return count;
}

/* What is below @prefix ("/" or a path), with its slash; NULL: @path is not below or equal. */
static const char *rest_below(const char *path, const char *prefix)
{
	size_t len = strcmp(prefix, "/") == 0 ? 0 : strlen(prefix);

	if (strncmp(path, prefix, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	return strcmp(path + len, "/") == 0 ? "" : path + len;
}

static int find_by_id(struct libmnt_table *table, int id, struct libmnt_fs **ret_fs)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs = NULL;
	int r = iter ? -ENOENT : -ENOMEM;

	while (r == -ENOENT && mnt_table_next_fs(table, iter, &fs) == 0) {
		if (mnt_fs_get_id(fs) != id)
			continue;
		*ret_fs = fs;
		r = 0;
	}
	mnt_free_iter(iter);
	return r;
}

static int place_in(struct libmnt_table *table, int fd, int mount_id, bool is_root, char **ret_path)
{
	char link[64], path[PATH_MAX];
	const char *root, *rest = "";
	struct libmnt_fs *fs;
	ssize_t len;
	int r = find_by_id(table, mount_id, &fs);

	if (r < 0)
		return r;
	root = mnt_fs_get_root(fs);
	if (!is_root) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, path, sizeof(path) - 1);
		if (len < 0)
			return -errno;
		path[len] = '\0';
		rest = rest_below(path, mnt_fs_get_target(fs));
	}
	if (!root || root[0] != '/' || !rest)
		return -ENOENT;
	if (asprintf(ret_path, "%s%s", strcmp(root, "/") == 0 && *rest ? "" : root, rest) < 0)
		return -ENOMEM;
	return 0;
}

int mount_place(int fd, char **ret_path)
{
	struct libmnt_table *table = NULL;
	struct statx stx;
	int r;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) < 0)
		return -errno;
	r = table_read(&table);
	if (r < 0)
		return r;
	r = place_in(table, fd, (int)stx.stx_mnt_id,
		     (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0, ret_path);
	mnt_unref_table(table);
	return r;
}
