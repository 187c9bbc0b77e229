// SPDX-License-Identifier: Apache-2.0
#include "fs/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/securebits.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/fuse_ioctl.h"
#include "fs/mount_spaces.h"

/* Capabilities that an overlay server keeps, and what it does with each. */
static const struct {
	unsigned capability;
	const char *reason;
} kept[] = {
	{ CAP_CHOWN, "the run's group; chown(2) of users, which the kernel has checked" },
	{ CAP_DAC_OVERRIDE,
	  "directories and files that the shown, not the real mode opens to the caller" },
	{ CAP_DAC_READ_SEARCH, "open_by_handle_at(2): nodes are file handles" },
	{ CAP_FOWNER, "mode, times and ACLs of files of any owner; O_NOATIME" },
	{ CAP_FSETID,
	  "set-group-ID is decided by us against the shown group, not by the lower kernel" },
	{ CAP_SETUID, "setfsuid(2): new files belong to the caller" },
	{ CAP_SETGID, "setfsgid(2): new files get the group that the shown directory gives" },
	{ CAP_MKNOD, "mknod(2) of users with that capability" },
	{ CAP_SETFCAP, "file capabilities survive a change of group" },
	{ CAP_LINUX_IMMUTABLE, "chattr of users with that capability" },
	{ CAP_SYS_ADMIN,
	  "trusted.* attributes (the run's mark); the passthrough ioctls of /dev/fuse" },
	{ CAP_SYS_NICE, "a thread that was of SCHED_IDLE for a moment is what it was (affine.h)" },
};

/* The ioctls: attributes of files, and passthrough. */
static const unsigned long allowed_ioctls[] = {
	FS_IOC_GETFLAGS,   FS_IOC_SETFLAGS,	FS_IOC_FSGETXATTR,
	FS_IOC_FSSETXATTR, DEVICE_BACKING_OPEN, DEVICE_BACKING_CLOSE,
};

/* idmap=yes: by which map a caller sees the files. Namespaces are looked at, one after the other, and not entered. */
static const unsigned long mount_ioctls[] = { MOUNT_SPACES_IOCTLS };
static const int mount_calls[] = { MOUNT_SPACES_STATMOUNT, MOUNT_SPACES_LISTMOUNT };

/* clang-format off */
/* Everything else answers EPERM and is logged. No call that makes a process, a namespace, a mount or a socket. */
static const int allowed_calls[] = {
	/* requests and replies */
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
	SCMP_SYS(pwrite64), SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg), SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(splice), SCMP_SYS(vmsplice), SCMP_SYS(tee), SCMP_SYS(pipe2), SCMP_SYS(eventfd2),
	/* descriptors */
	SCMP_SYS(close), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(fcntl), SCMP_SYS(lseek),
	/* the tree */
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(open_by_handle_at),
	SCMP_SYS(name_to_handle_at), SCMP_SYS(newfstatat), SCMP_SYS(fstat), SCMP_SYS(stat),
	SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(getdents64),
	SCMP_SYS(readlinkat), SCMP_SYS(mkdirat), SCMP_SYS(mknodat), SCMP_SYS(symlinkat),
	SCMP_SYS(linkat), SCMP_SYS(unlinkat), SCMP_SYS(renameat), SCMP_SYS(renameat2),
	SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(fchownat), SCMP_SYS(truncate), SCMP_SYS(ftruncate),
	SCMP_SYS(utimensat), SCMP_SYS(getxattr), SCMP_SYS(setxattr), SCMP_SYS(listxattr),
	SCMP_SYS(removexattr), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(fallocate),
	SCMP_SYS(copy_file_range), 452 /* fchmodat2, newer than libseccomp 2.5 */,
	465 /* listxattrat */,
	/* the caller's identity */
	SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(umask), SCMP_SYS(capget), SCMP_SYS(capset),
	/* memory, threads, time, the end */
	SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise),
	SCMP_SYS(brk), SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(getpid),
	SCMP_SYS(gettid), SCMP_SYS(tgkill), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
	SCMP_SYS(getegid), SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep), SCMP_SYS(timerfd_settime), SCMP_SYS(gettimeofday), SCMP_SYS(restart_syscall), SCMP_SYS(prlimit64),
	SCMP_SYS(exit), SCMP_SYS(exit_group),
#ifdef __SANITIZE_ADDRESS__
	/* The sanitizers' own reports and leak search. */
	SCMP_SYS(readlink), SCMP_SYS(getcwd), SCMP_SYS(uname), SCMP_SYS(access), SCMP_SYS(prctl),
	SCMP_SYS(getrlimit), SCMP_SYS(setrlimit), SCMP_SYS(ptrace), SCMP_SYS(wait4),
	SCMP_SYS(unlink), SCMP_SYS(getppid), SCMP_SYS(sysinfo),
#endif
};
/* clang-format on */

static int raise_limits(void)
{
	struct rlimit limit;

	/* Where handles cannot be opened each inode costs a descriptor. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		struct rlimit most = { .rlim_cur = 1 << 20, .rlim_max = 1 << 20 };

		if (setrlimit(RLIMIT_NOFILE, &most) < 0) {
			limit.rlim_cur = limit.rlim_max;
			setrlimit(RLIMIT_NOFILE, &limit);
		}
	}
	/* The limit on a file's size is the caller's, and the kernel has applied it. */
	limit = (struct rlimit){ .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };
	setrlimit(RLIMIT_FSIZE, &limit);
	limit = (struct rlimit){ 0 };
	return setrlimit(RLIMIT_CORE, &limit) < 0 ? -errno : 0;
}

/* Makes the detached mount the root of a mount namespace in which there is nothing else. */
static int pivot(int lower_tree_fd, const char **ret_step)
{
	AUTO_FD int old_root = -1;

	*ret_step = "mount namespace";
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	/* Only now: an earlier descriptor would stand for the mount in the namespace that was left. */
	old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (old_root < 0)
		return -errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	*ret_step = "attach the lower tree";
	if (syscall(SYS_move_mount, lower_tree_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	*ret_step = "pivot";
	/* pivot_root(".", "."): the old root ends up on top of the new one, and goes (pivot_root(2)). */
	if (fchdir(lower_tree_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	if (fchdir(old_root) < 0 || umount2(".", MNT_DETACH) < 0)
		return -errno;
	return 0;
}

int sandbox_enter(int lower_tree_fd, int *ret_proc_fd, int *ret_root_fd, const char **ret_step)
{
	AUTO_FD int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int self_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD int root_fd = -1;
	int r;

	*ret_step = "/proc";
	if (proc_fd < 0 || self_fd < 0)
		return -errno;
	*ret_step = "limits";
	r = raise_limits();
	if (r < 0)
		return r;
	r = pivot(lower_tree_fd, ret_step);
	if (r < 0)
		return r;
	*ret_step = "root of the lower tree";
	root_fd = openat(lower_tree_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || fchdir(self_fd) < 0)
		return -errno;
	/* Refused in a namespace with a single mapped gid, where there are none but the caller's own. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	*ret_proc_fd = take_fd(&proc_fd);
	*ret_root_fd = take_fd(&root_fd);
	return 0;
}

int sandbox_drop_capabilities(const char **ret_step)
{
	*ret_step = "securebits";
	/* Creating as the caller must not take our capabilities (caller.h). */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED) < 0)
		return -errno;
	*ret_step = "capabilities";
	if (capng_get_caps_process() < 0)
		return -EPERM;
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++) {
		capng_type_t sets =
			CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE | CAPNG_BOUNDING_SET;
		bool keep = false;

		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			keep = keep || kept[i].capability == cap;
		if (keep)
			sets = CAPNG_INHERITABLE | CAPNG_BOUNDING_SET;
		capng_update(CAPNG_DROP, sets, cap);
	}
	/* The bounding set first: dropping from it needs CAP_SETPCAP, which goes with the rest. */
	if (capng_apply(CAPNG_SELECT_BOUNDS) < 0 || capng_apply(CAPNG_SELECT_CAPS) < 0)
		return -EPERM;
	return 0;
}

/*
 * A refused call answers EPERM, and says so: in silence a library's new way of doing something would look
 * like a file system's error. Async-signal-safe.
 */
static void on_refused_call(int signal, siginfo_t *info, void *context)
{
	char line[64] = "sandbox: refused system call ";
	size_t len = strlen(line);
	unsigned number = (unsigned)info->si_syscall;
	ucontext_t *uc = context;
	char digits[12];
	int count = 0;

	(void)signal;
	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	while (count > 0)
		line[len++] = digits[--count];
	line[len] = '\0';
	log_in_handler(line);
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
	uc->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#else
#error "where does this architecture keep a system call's result?"
#endif
}

static int allow_calls(scmp_filter_ctx filter, const int *calls, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return r;
}

static int allow_ioctls(scmp_filter_ctx filter, const unsigned long *requests, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1_32(SCMP_CMP_EQ, (uint32_t)requests[i]));
	return r;
}

/*
 * Whose requests come close is served on his processor (affine.h): each thread for itself. What it gave up for that it is given
 * back by its number, by itself or another: its policy, or, where that cannot be, the follower its processors. Nothing else can be
 * done to another.
 */
static int allow_scheduling(scmp_filter_ctx filter, const struct sandbox_uses *uses)
{
	static const int own_scheduling[] = { SCMP_SYS(sched_setattr),
					      SCMP_SYS(sched_setaffinity) };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(own_scheduling); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, own_scheduling[i], 1,
				     SCMP_A0(SCMP_CMP_EQ, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 2,
				     SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A1(SCMP_CMP_EQ, SCHED_IDLE));
	for (size_t i = 0; r == 0 && i < uses->raised_count; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 2,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)uses->raised[i]),
				     SCMP_A1(SCMP_CMP_EQ, SCHED_OTHER));
	if (r == 0 && uses->freed != 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sched_setaffinity), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)uses->freed));
	return r;
}

int sandbox_lock(const struct sandbox_uses *uses, const char **ret_step)
{
	const struct sigaction refused = { .sa_sigaction = on_refused_call,
					   .sa_flags = SA_SIGINFO | SA_NODEFER };
	/* The walk's threads, each for itself: no I/O while others have any. */
	const uint64_t which = IOPRIO_WHO_PROCESS, idle = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
	/* A thread is made with these flags and no others (glibc); anything else is a process. */
	const uint64_t thread_flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
	scmp_filter_ctx filter;
	int r;

	*ret_step = "system call filter";
	if (sigaction(SIGSYS, &refused, NULL) < 0)
		return -errno;
	filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return -ENOMEM;
	r = allow_calls(filter, allowed_calls, ARRAY_SIZE(allowed_calls));
	if (r == 0)
		r = allow_ioctls(filter, allowed_ioctls, ARRAY_SIZE(allowed_ioctls));
	if (r == 0 && uses->rings)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(io_uring_enter), 0);
	if (r == 0 && uses->mounts)
		r = allow_calls(filter, mount_calls, ARRAY_SIZE(mount_calls));
	if (r == 0 && uses->mounts)
		r = allow_ioctls(filter, mount_ioctls, ARRAY_SIZE(mount_ioctls));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, thread_flags, thread_flags));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioprio_set), 3,
				     SCMP_A0(SCMP_CMP_EQ, which), SCMP_A1(SCMP_CMP_EQ, 0),
				     SCMP_A2(SCMP_CMP_EQ, idle));
	/* They look at what they have read from the disk. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(getrusage), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)RUSAGE_THREAD));
	if (r == 0)
		r = allow_scheduling(filter, uses);
	/* Its flags lie in memory, where a filter cannot look: glibc then uses clone. */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}
