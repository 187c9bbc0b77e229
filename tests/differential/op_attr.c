// SPDX-License-Identifier: Apache-2.0

/* Operations on attributes: mode, owner, times, extended attributes, flags, access. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/acl.h"
#include "tests/differential/op.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static const mode_t modes[] = { 0644,  0600,  0755,  0777, 0000, 02755, 04755,
				06777, 02644, 01777, 0660, 0070, 02770, 04711 };

static void generate_chmod(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->mode = random_percent(&g->random, 20) ? random_below(&g->random, 07777) :
						   random_pick(&g->random, modes);
	s->flags = random_percent(&g->random, 15) ? AT_SYMLINK_NOFOLLOW : 0;
}

static int64_t run_chmod(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return syscall(SYS_fchmodat2, AT_FDCWD, s->path, s->mode, s->flags);
}

static void generate_fchmod(struct generator *g, struct step *s)
{
	generate_chmod(g, s);
	pick_slot(g, s, &s->slot);
}

static int64_t run_fchmod(struct hands *h, const struct step *s, struct result *r)
{
	(void)r;
	return fchmod(slot_fd(h, s->slot), s->mode);
}

static void generate_chown(struct generator *g, struct step *s)
{
	static const int64_t uids[] = { -1, -1, -1, 0, 1001, 1002, 1003 };
	static const int64_t gids[] = { -1, -1, 4242, 1001, 1002, 1003, 2000, 0 };

	pick_existing(g, s->path);
	s->a = random_pick(&g->random, uids);
	s->b = random_pick(&g->random, gids);
	s->flags = random_percent(&g->random, 30) ? AT_SYMLINK_NOFOLLOW : 0;
}

static int64_t run_chown(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return fchownat(AT_FDCWD, s->path, (uid_t)s->a, (gid_t)s->b, s->flags);
}

static void generate_fchown(struct generator *g, struct step *s)
{
	generate_chown(g, s);
	pick_slot(g, s, &s->slot);
}

static int64_t run_fchown(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	struct stat st;

	(void)r;
	/* Capabilities, and set-ID bits or a flag that forbids to change them: compare.h. */
	if (fstat(fd, &st) == 0 && has_capability(fd) &&
	    (st.st_mode & (S_ISUID | S_ISGID) || file_flags(fd) & (FS_APPEND_FL | FS_IMMUTABLE_FL)))
		return 0;
	return fchown(fd, (uid_t)s->a, (gid_t)s->b);
}

/* Each time: 0 omitted, 1 now, else a second long ago. */
static void generate_utimens(struct generator *g, struct step *s)
{
	int64_t *const times[] = { &s->a, &s->b };

	pick_existing(g, s->path);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint32_t kind = random_below(&g->random, 4);

		*times[i] = kind < 2 ? kind : 900000000 + random_below(&g->random, 1 << 20);
	}
	s->flags = random_percent(&g->random, 20) ? AT_SYMLINK_NOFOLLOW : 0;
}

static struct timespec time_of(int64_t value)
{
	if (value < 2)
		return (struct timespec){ .tv_nsec = value ? UTIME_NOW : UTIME_OMIT };
	return (struct timespec){ .tv_sec = value, .tv_nsec = 987654321 };
}

static int64_t run_utimens(struct hands *h, const struct step *s, struct result *r)
{
	struct timespec times[2] = { time_of(s->a), time_of(s->b) };

	(void)h, (void)r;
	return utimensat(AT_FDCWD, s->path, times, s->flags);
}

static void generate_futimens(struct generator *g, struct step *s)
{
	generate_utimens(g, s);
	pick_slot(g, s, &s->slot);
}

static int64_t run_futimens(struct hands *h, const struct step *s, struct result *r)
{
	struct timespec times[2] = { time_of(s->a), time_of(s->b) };

	(void)r;
	return futimens(slot_fd(h, s->slot), times);
}

static void generate_access(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->mode = random_below(&g->random, 8);
	s->flags = random_pick(&g->random,
			       ((int[]){ 0, 0x200 /* AT_EACCESS */, AT_SYMLINK_NOFOLLOW }));
}

static int64_t run_access(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return syscall(SYS_faccessat2, AT_FDCWD, s->path, s->mode, s->flags);
}

static void generate_stat(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->flags = random_percent(&g->random, 40) ? AT_SYMLINK_NOFOLLOW : 0;
}

static int64_t run_stat(struct hands *h, const struct step *s, struct result *r)
{
	struct statx stx;
	struct stat st;

	(void)h;
	if (fstatat(AT_FDCWD, s->path, &st, s->flags) < 0)
		return -1;
	result_add_stat(r, &st);
	if (statx(AT_FDCWD, s->path, s->flags, STATX_BASIC_STATS | STATX_BTIME, &stx) < 0)
		return -1;
	result_add(r, "statx mask %#x", stx.stx_mask & (STATX_BASIC_STATS | STATX_BTIME));
	return 0;
}

/* ---- extended attributes ---- */

static void generate_xattr_name(struct generator *g, struct step *s)
{
	static const char *const names[] = {
		"user.one",
		"user.n",
		"trusted.two",
		"security.capability",
		"security.capability",
		"system.posix_acl_access",
		"system.posix_acl_access",
		"system.posix_acl_default",
		"system.posix_acl_access",
		"security.other",
		"user.",
		"bogus.name",
		"user.two",
		"trusted.t",
		"trusted.SGI_ACL_FILE",
	};

	pick_existing(g, s->path);
	snprintf(s->name, sizeof(s->name), "%s", random_pick(&g->random, names));
	s->flags2 = random_percent(&g->random, 20);
}

static void generate_setxattr(struct generator *g, struct step *s)
{
	static const unsigned char capability[20] = { 1, 0, 0, 2, 0, 4 };

	generate_xattr_name(g, s);
	s->flags = random_pick(&g->random, ((int[]){ 0, 0, 0, XATTR_CREATE, XATTR_REPLACE }));
	if (strcmp(s->name, "trusted.SGI_ACL_FILE") == 0)
		strcpy(s->name,
		       "user.one"); /* XFS takes anything there, and then finds itself damaged */
	if (strncmp(s->name, "system.", 7) == 0) {
		s->value_len = (uint32_t)acl_random(&g->random, true, s->value);
	} else if (strcmp(s->name, "security.capability") == 0) {
		s->value_len = sizeof(capability);
		memcpy(s->value, capability, sizeof(capability));
		if (random_percent(&g->random, 10))
			s->value_len = 3;
	} else {
		s->value_len = random_below(&g->random, sizeof(s->value));
		for (uint32_t i = 0; i < s->value_len; i++)
			s->value[i] = (unsigned char)random_next(&g->random);
	}
}

static int64_t run_setxattr(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return (s->flags2 ? lsetxattr : setxattr)(s->path, s->name, s->value, s->value_len,
						  s->flags);
}

static int64_t run_removexattr(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return (s->flags2 ? lremovexattr : removexattr)(s->path, s->name);
}

static void generate_getxattr(struct generator *g, struct step *s)
{
	generate_xattr_name(g, s);
	s->length = random_pick(&g->random, ((int[]){ 256, 256, 256, 0, 5, 28 }));
}

static int64_t run_getxattr(struct hands *h, const struct step *s, struct result *r)
{
	char value[256];
	ssize_t n = (s->flags2 ? lgetxattr : getxattr)(s->path, s->name, value, (size_t)s->length);

	(void)h;
	if (n > 0 && s->length > 0)
		result_add_bytes(r, value, (size_t)n);
	return n;
}

static void generate_listxattr(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	s->flags2 = random_percent(&g->random, 20);
	s->length = random_pick(&g->random, ((int[]){ 2000, 2000, 0, 12 }));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int64_t run_listxattr(struct hands *h, const struct step *s, struct result *r)
{
	char list[2048], *names[64];
	ssize_t n = (s->flags2 ? llistxattr : listxattr)(s->path, list, (size_t)s->length);
	size_t count = 0;

	(void)h;
	for (char *at = list; n > 0 && s->length > 0 && at < list + n && count < ARRAY_SIZE(names);
	     at += strlen(at) + 1)
		names[count++] = at;
	qsort(names, count, sizeof(names[0]), compare_names);
	for (size_t i = 0; i < count; i++)
		result_add(r, "%s, ", names[i]);
	return n;
}

/* ---- flags of files ---- */

/* Immutable and append-only are set for some steps only: else soon nothing can be changed. */
static void generate_chattr(struct generator *g, struct step *s)
{
	if (g->chattr_path[0] && g->chattr_steps++ > 0) {
		strcpy(s->path, g->chattr_path);
		g->chattr_path[0] = '\0';
		g->chattr_steps = 0;
		s->worker = 0;
		s->relative = false;
		return;
	}
	if (random_percent(&g->random, 70))
		pick_type(g, S_IFREG, s->path);
	else
		pick_existing(g, s->path);
	s->flags = random_percent(&g->random, 50) ? FS_APPEND_FL : FS_IMMUTABLE_FL;
	strcpy(g->chattr_path, s->path);
}

static int64_t run_chattr(struct hands *h, const struct step *s, struct result *r)
{
	AUTO_FD int fd = open(s->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	int flags = 0, wanted;
	struct stat st;

	(void)h;
	/* Of other types the kernel does not pass it on: compare.h. */
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -1;
	result_add(r, "flags %#x ", (unsigned)flags & (FS_APPEND_FL | FS_IMMUTABLE_FL));
	wanted = (flags & ~(FS_APPEND_FL | FS_IMMUTABLE_FL)) | s->flags;
	return ioctl(fd, FS_IOC_SETFLAGS, &wanted);
}

static int64_t run_statfs(struct hands *h, const struct step *s, struct result *r)
{
	struct statfs st;

	(void)h;
	if (statfs(s->path, &st) < 0)
		return -1;
	/* How much is free depends on what is not yet written; the type and id name the mount. */
	result_add(r, "bsize %lld blocks %lld namelen %lld frsize %lld flags %#lx",
		   (long long)st.f_bsize, (long long)st.f_blocks, (long long)st.f_namelen,
		   (long long)st.f_frsize, (unsigned long)st.f_flags);
	return 0;
}

const struct op op_attr_rows[] = {
	{ "chmod", "pmf", 40, generate_chmod, run_chmod },
	{ "fchmod", "sm", 12, generate_fchmod, run_fchmod },
	{ "chown", "pabf", 35, generate_chown, run_chown },
	{ "fchown", "sab", 12, generate_fchown, run_fchown },
	{ "utimensat", "pabf", 20, generate_utimens, run_utimens },
	{ "futimens", "sab", 8, generate_futimens, run_futimens },
	{ "access", "pmf", 25, generate_access, run_access },
	{ "stat", "pf", 20, generate_stat, run_stat },
	{ "setxattr", "pnvfG", 35, generate_setxattr, run_setxattr },
	{ "removexattr", "pnG", 15, generate_xattr_name, run_removexattr },
	{ "getxattr", "pnlG", 18, generate_getxattr, run_getxattr },
	{ "listxattr", "plG", 10, generate_listxattr, run_listxattr },
	{ "chattr", "pf", 10, generate_chattr, run_chattr },
	{ "statfs", "p", 4, generate_stat, run_statfs },
};
const unsigned op_attr_count = ARRAY_SIZE(op_attr_rows);
