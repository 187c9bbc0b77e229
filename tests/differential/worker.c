// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/op.h"

enum { ANSWER_SECONDS = 60 };

#define CAP(name) (1ULL << CAP_##name)
#define ALL_CAPS (~0ULL)

/* Who works: root with all and with fewer capabilities, owners, members of the group, strangers. */
static const struct {
	const char *name;
	uid_t uid;
	gid_t gid;
	gid_t groups[2];
	int group_count;
	mode_t umask;
	uint64_t capabilities;
} kinds[] = {
	{ "root", 0, 0, { 0 }, 0, 0022, ALL_CAPS },
	{ "root-fsetid", 0, 0, { 0 }, 0, 0000, ALL_CAPS & ~CAP(FSETID) },
	{ "root-dac",
	  0,
	  0,
	  { 0 },
	  0,
	  0077,
	  ALL_CAPS & ~(CAP(DAC_OVERRIDE) | CAP(DAC_READ_SEARCH)) },
	{ "root-chown", 0, 0, { 0 }, 0, 0022, ALL_CAPS & ~CAP(CHOWN) },
	{ "root-fowner-fsetid", 0, 0, { 0 }, 0, 0002, ALL_CAPS & ~(CAP(FOWNER) | CAP(FSETID)) },
	{ "root-sys_admin-setfcap",
	  0,
	  0,
	  { 4242 },
	  1,
	  0022,
	  ALL_CAPS & ~(CAP(SYS_ADMIN) | CAP(SETFCAP) | CAP(LINUX_IMMUTABLE)) },
	{ "owner1001", 1001, 1001, { 0 }, 0, 0022, 0 },
	{ "owner1001+4242", 1001, 1001, { 4242 }, 1, 0000, 0 },
	{ "member1002:4242", 1002, 4242, { 0 }, 0, 0077, 0 },
	{ "member1003+4242+2000", 1003, 1003, { 4242, 2000 }, 2, 0000, 0 },
	{ "stranger1004:2000", 1004, 2000, { 0 }, 0, 0022, 0 },
	{ "stranger1005", 1005, 1005, { 0 }, 0, 0000, 0 },
	{ "user1003+fsetid+dac+fowner",
	  1003,
	  1003,
	  { 0 },
	  0,
	  0022,
	  CAP(FSETID) | CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(MKNOD) },
};
_Static_assert(ARRAY_SIZE(kinds) == WORKERS, "as many as steps name");

const char *worker_name(unsigned index)
{
	return kinds[index].name;
}

/* Exactly these capabilities, of those the process has. */
static int limit_capabilities(uint64_t wanted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(wanted >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int become(unsigned index)
{
	if (setgroups((size_t)kinds[index].group_count, kinds[index].groups) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1) < 0 ||
	    setresgid(kinds[index].gid, kinds[index].gid, kinds[index].gid) < 0 ||
	    setresuid(kinds[index].uid, kinds[index].uid, kinds[index].uid) < 0)
		return -errno;
	/* Else its /proc/<pid> belongs to root, and linking an open file by it is refused. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0)
		return -errno;
	umask(kinds[index].umask);
	return limit_capabilities(kinds[index].capabilities);
}

static void run_step(struct hands *h, const struct step *s, struct result *ret)
{
	int at = s->relative && h->cwd_fd >= 0 ? h->cwd_fd : h->root_fd;

	memset(ret, 0, offsetof(struct result, text));
	ret->text[0] = '\0';
	ret->before.error = EBADF;
	if (slot_fd(h, s->slot) >= 0)
		observe(slot_fd(h, s->slot), "", &ret->before);
	errno = 0;
	ret->value = fchdir(at) < 0 ? -1 : op_get(s->op)->run(h, s, ret);
	ret->error = ret->value < 0 ? errno : 0;
	ret->fd = slot_fd(h, s->slot);
	if (ret->fd >= 0)
		observe(ret->fd, "", &ret->after);
}

/* What driver and worker share; a byte through their socket says whose turn it is. */
struct exchange {
	struct step step;
	unsigned side; /* where the worker is */
	struct result results[SIDES];
};

static void __attribute__((noreturn)) serve(unsigned index, const struct volume *volume,
					    const int root_fds[SIDES], int fd, struct exchange *e)
{
	struct hands hands[SIDES];
	char turn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < SIDES; i++) {
		hands[i] = (struct hands){ .readable_fd = root_fds[i], .cwd_fd = -1 };
		hands[i].root_fd = openat(root_fds[i], ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		memset(hands[i].slots, 0xff, sizeof(hands[i].slots));
	}
	if (volume_enter(volume) < 0 || become(index) < 0)
		_exit(1);
	/* As the worker's own user: each may have so many only. Both or none. */
	for (int i = 0; i < SIDES; i++)
		hands[i].inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	for (int i = 0; i < SIDES; i++) {
		if (hands[!i].inotify_fd < 0)
			cleanup_fd(&hands[i].inotify_fd);
	}
	while (recv(fd, &turn, 1, 0) == 1) {
		for (e->side = 0; e->side < SIDES; e->side++)
			run_step(&hands[e->side], &e->step, &e->results[e->side]);
		if (send(fd, &turn, 1, 0) < 0)
			break;
	}
	_exit(0);
}

int worker_start(unsigned index, const struct volume *volume, const int root_fds[SIDES],
		 struct worker *ret)
{
	const struct timeval patience = { .tv_sec = ANSWER_SECONDS };
	struct exchange *e =
		mmap(NULL, sizeof(*e), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pair[2], r = 0;

	if (e == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		munmap(e, sizeof(*e));
		return r;
	}
	ret->pid = fork();
	if (ret->pid == 0) {
		close(pair[0]);
		serve(index, volume, root_fds, pair[1], e);
	}
	if (ret->pid < 0 ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		r = -errno;
	close(pair[1]);
	ret->fd = pair[0];
	ret->exchange = e;
	return r;
}

int worker_borrow(const struct worker *w, int fd)
{
	AUTO_FD int pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
	int borrowed = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return borrowed < 0 ? -errno : borrowed;
}

/* Not waited for: that takes its time, and the volume is not gone before they are. */
void workers_stop(struct worker workers[WORKERS])
{
	for (unsigned i = 0; i < WORKERS; i++) {
		if (workers[i].pid > 0)
			kill(workers[i].pid, SIGKILL);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		cleanup_fd(&w->fd);
		if (w->exchange)
			munmap(w->exchange, sizeof(*w->exchange));
		*w = (struct worker){ .fd = -1 };
	}
}

int worker_run(struct worker *w, const struct step *step, const struct result **ret_results,
	       unsigned *ret_side)
{
	char turn = 0;
	ssize_t n;

	w->exchange->step = *step;
	w->exchange->side = 0;
	*ret_results = w->exchange->results;
	n = send(w->fd, &turn, 1, MSG_NOSIGNAL);
	if (n == 1)
		n = recv(w->fd, &turn, 1, 0);
	*ret_side = w->exchange->side;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -ETIME;
	return n == 1 ? 0 : -EPIPE;
}
