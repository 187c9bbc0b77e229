// SPDX-License-Identifier: Apache-2.0
/* What the kernel can do, asked of it by calls that cannot succeed, or known by its release; and its limits. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"
#include "mountd/ctl/doctor.h"

/* Newer than the headers of some of our build machines. */
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef SYS_listmount
#define SYS_listmount 458
#endif
#ifndef MOVE_MOUNT_BENEATH
#define MOVE_MOUNT_BENEATH 0x00000200
#endif

#define FILES_WANTED 65536
#define MEMLOCK_WANTED (64 << 10)

/* ---- calls ---- */

static bool has_fsopen(void)
{
	return syscall(SYS_fsopen, NULL, 0) >= 0 || errno != ENOSYS;
}

static bool has_open_tree(void)
{
	return syscall(SYS_open_tree, -1, NULL, 0) >= 0 || errno != ENOSYS;
}

static bool has_openat2(void)
{
	return syscall(SYS_openat2, -1, "", NULL, 0) >= 0 || errno != ENOSYS;
}

static bool has_mount_setattr(void)
{
	return syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) >= 0 || errno != ENOSYS;
}

static bool has_statmount(void)
{
	return (syscall(SYS_statmount, NULL, NULL, 0, 0) >= 0 || errno != ENOSYS) &&
	       (syscall(SYS_listmount, NULL, NULL, 0, 0) >= 0 || errno != ENOSYS);
}

static const struct {
	const char *check;
	bool (*is_there)(void);
	enum verdict without;
	const char *what;
} calls[] = {
	/* clang-format off */
	{ "fsopen", has_fsopen, VERDICT_FAIL, "mounts cannot be made by descriptor" },
	{ "open_tree", has_open_tree, VERDICT_FAIL, "mounts cannot be cloned" },
	{ "openat2", has_openat2, VERDICT_FAIL, "sources cannot be opened beneath their prefix" },
	{ "mount_setattr", has_mount_setattr, VERDICT_FAIL, "flags and propagation of a mount cannot be set" },
	{ "statmount", has_statmount, VERDICT_WARN, "mounts are read from mountinfo, which takes longer with many" },
	/* clang-format on */
};

static void judge_calls(struct doctor *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].is_there())
			doctor_find(d, calls[i].check, VERDICT_OK, NULL, "the kernel has it");
		else
			doctor_find(d, calls[i].check, calls[i].without,
				    calls[i].without == VERDICT_FAIL ? "a newer kernel (5.12)" :
								       "a newer kernel (6.8)",
				    "%s", calls[i].what);
	}
}

/* ---- by release ---- */

static const struct {
	unsigned major, minor;
	const char *check, *what, *mend;
} releases[] = {
	/* clang-format off */
	{ 6, 5, "hand-off", "volumes stay behind their overlay: nothing can be put beneath a mount", "Linux 6.5" },
	{ 6, 8, "mount ids", "a mount whose number is used again may be taken for ours", "Linux 6.8" },
	{ 6, 9, "passthrough", "file data goes through the overlay's page cache", "Linux 6.9" },
	{ 6, 9, "resend", "the death of an overlay's server ends its mount", "Linux 6.9" },
	{ 6, 15, "failover", "there is one server a mount, and containers' copies are not handed off", "Linux 6.15" },
	/* clang-format on */
};

void doctor_judge_release(struct doctor *d, const char *release)
{
	unsigned major = 0, minor = 0;

	if (sscanf(release, "%u.%u", &major, &minor) != 2) {
		doctor_find(d, "release", VERDICT_WARN, NULL, "%s cannot be read", release);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(releases); i++) {
		bool is_there = major > releases[i].major ||
				(major == releases[i].major && minor >= releases[i].minor);

		if (is_there)
			doctor_find(d, releases[i].check, VERDICT_OK, NULL, "Linux %s has it",
				    release);
		else
			doctor_find(d, releases[i].check, VERDICT_WARN, releases[i].mend, "%s",
				    releases[i].what);
	}
}

/* A release may have been built without it, or have it earlier: the kernel's own word, where it gives it. */
static void judge_beneath(struct doctor *d)
{
	if (syscall(SYS_move_mount, -1, "", -1, "", MOVE_MOUNT_BENEATH) < 0 && errno == EINVAL)
		doctor_find(d, "mount beneath", VERDICT_WARN, "Linux 6.5",
			    "not known here: volumes stay behind their overlay");
	else if (errno == EPERM)
		doctor_find(d, "mount beneath", VERDICT_WARN, "run it as root",
			    "cannot be looked at");
	else
		doctor_find(d, "mount beneath", VERDICT_OK, NULL, "the kernel has it");
}

/* An ioctl of /dev/fuse that fails in another way where it is known: the descriptor has no mount yet. */
static void judge_passthrough(struct doctor *d, int fuse_fd)
{
	struct {
		int32_t fd;
		uint32_t flags;
		uint64_t padding;
	} map = { .fd = -1 };

	if (ioctl(fuse_fd, _IOW(229, 1, map), &map) < 0 &&
	    (errno == ENOTTY || errno == EOPNOTSUPP || errno == EINVAL))
		doctor_find(d, "FUSE passthrough", VERDICT_WARN,
			    "a kernel with CONFIG_FUSE_PASSTHROUGH",
			    "not in this kernel: file data goes through the overlay's page cache");
	else
		doctor_find(d, "FUSE passthrough", VERDICT_OK, NULL, "the kernel has it");
}

/* Whether --transport io_uring is refused; nothing else needs it. */
static void judge_io_uring(struct doctor *d)
{
	static const char parameter[] = "/sys/module/fuse/parameters/enable_uring";
	char text[16] = "";

	if (io_read_line(AT_FDCWD, parameter, text, sizeof(text)) < 0)
		doctor_find(d, "FUSE io_uring", VERDICT_OK, NULL,
			    "not in this kernel, and not needed: --transport io_uring is refused");
	else if (text[0] != 'Y')
		doctor_find(d, "FUSE io_uring", VERDICT_OK, NULL,
			    "off, and not needed: --transport io_uring needs Y in %s", parameter);
	else
		doctor_find(d, "FUSE io_uring", VERDICT_OK, NULL,
			    "on: there is --transport io_uring");
}

static void judge_fuse(struct doctor *d)
{
	AUTO_FD int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		doctor_find(d, "/dev/fuse", VERDICT_OK, NULL, "can be opened");
		judge_passthrough(d, fd);
	} else if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
		doctor_find(d, "/dev/fuse", VERDICT_FAIL, "modprobe fuse", "%s", strerror(errno));
	} else {
		doctor_find(d, "/dev/fuse", d->is_root ? VERDICT_FAIL : VERDICT_WARN,
			    "chmod 666 /dev/fuse, or in a container give it the device", "%s",
			    strerror(errno));
	}
}

void doctor_kernel(struct doctor *d)
{
	struct utsname name;

	judge_calls(d);
	if (uname(&name) == 0)
		doctor_judge_release(d, name.release);
	judge_beneath(d);
	judge_fuse(d);
	judge_io_uring(d);
}

/* ---- limits ---- */

/* The number in a file of /proc/sys; -ENOENT and the like where it is not there. */
static int read_number(const char *path, uint64_t *ret_value)
{
	char text[32];
	int r = io_read_line(AT_FDCWD, path, text, sizeof(text));

	return r < 0 ? r : parse_u64(text, ret_value);
}

static void judge_files(struct doctor *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_max < FILES_WANTED)
		doctor_find(
			d, "open files", VERDICT_WARN, "LimitNOFILE=1048576, or ulimit -Hn",
			"at most %llu: a volume with many unlinked or looked-up files needs more",
			(unsigned long long)limit.rlim_max);
	else
		doctor_find(d, "open files", VERDICT_OK, NULL, "up to %llu",
			    (unsigned long long)limit.rlim_max);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		doctor_find(d, "locked memory",
			    limit.rlim_max < MEMLOCK_WANTED ? VERDICT_WARN : VERDICT_OK,
			    limit.rlim_max < MEMLOCK_WANTED ? "ulimit -Hl 64" : NULL,
			    limit.rlim_max == RLIM_INFINITY ? "no limit" : "up to %llu bytes",
			    (unsigned long long)limit.rlim_max);
}

static uint64_t count_mounts(void)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	uint64_t count = 0;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0)
		count++;
	if (file)
		fclose(file);
	return count;
}

static void judge_mounts(struct doctor *d)
{
	uint64_t most = 0, count = count_mounts();

	if (read_number("/proc/sys/fs/mount-max", &most) < 0)
		return;
	/* A hand-off needs a moment with one more. */
	doctor_find(d, "mounts", count > most / 10 * 9 ? VERDICT_WARN : VERDICT_OK,
		    count > most / 10 * 9 ? "sysctl fs.mount-max" : NULL, "%llu of at most %llu",
		    (unsigned long long)count, (unsigned long long)most);
}

static void judge_user_namespaces(struct doctor *d)
{
	static const struct {
		const char *path;
		bool forbids_at_zero;
		const char *mend;
	} switches[] = {
		{ "/proc/sys/user/max_user_namespaces", true, "sysctl user.max_user_namespaces" },
		{ "/proc/sys/kernel/unprivileged_userns_clone", true,
		  "sysctl kernel.unprivileged_userns_clone=1" },
		{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", false,
		  "sysctl kernel.apparmor_restrict_unprivileged_userns=0" },
	};
	char map[64] = "";

	if (io_read_line(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) == 0 &&
	    !strstr(map, "4294967295"))
		doctor_find(d, "user namespace", VERDICT_WARN, NULL,
			    "this is one: no passthrough, no failover, a journal instead of marks");
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		uint64_t value = 0;

		if (read_number(switches[i].path, &value) < 0 ||
		    (value == 0) != switches[i].forbids_at_zero)
			continue;
		doctor_find(d, "user namespaces", VERDICT_WARN, switches[i].mend,
			    "ordinary users may not make one, so only root can mount");
		return;
	}
	doctor_find(d, "user namespaces", VERDICT_OK, NULL, "ordinary users may make them");
}

void doctor_limits(struct doctor *d)
{
	judge_files(d);
	judge_mounts(d);
	judge_user_namespaces(d);
}
