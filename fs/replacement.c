// SPDX-License-Identifier: Apache-2.0
#include "fs/replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/clock.h"
#include "fs/mount_idmap.h"

#define ATTRIBUTES                                                                                 \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |            \
	 MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME)

/* What is asked of a helper, and its answer. */
enum step { STEP_PREPARE, STEP_BURY, STEP_UNCOVER };

struct step_answer {
	int32_t error;
	char text[200];
};

struct helper {
	pid_t pid;
	int fd;
	int space;
};

struct replacement {
	const struct copies *copies;
	const struct buried *buried; /* as the helpers find it */
	/* Ids of the mounts put beneath each copy, 0: none yet; shared with the helpers, who write it. */
	uint64_t *placed;
	struct helper helpers[COPIES_MAX];
	size_t helper_count;
};

/* ---- in the helper ---- */

struct work {
	const struct copies *copies;
	int space, native_tree_fd, fds_dir, socket;
	const struct buried *buried;
	uint64_t *placed;
	int trees[COPIES_MAX], tops[COPIES_MAX]; /* of each copy; -1: none */
};

static int failed(struct step_answer *a, int error, const char *what, const struct copy *copy)
{
	snprintf(a->text, sizeof(a->text), "%s at %.120s", what, copy->point);
	return error;
}

static bool is_buried(const struct buried *buried, uint64_t id)
{
	for (size_t i = 0; i < COPIES_MAX; i++) {
		if (id != 0 && buried->ids[i] == id)
			return true;
	}
	return false;
}

/* The part of the lower tree that the copy shows, as a mount with the copy's flags. */
static int make_tree(struct work *w, const struct copy *copy, int *ret_tree, struct statx *ret_stx)
{
	const char *path = copy->root[1] ? copy->root + 1 : ".";
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	AUTO_FD int fd = (int)syscall(SYS_openat2, w->native_tree_fd, path, &how, sizeof(how));

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_TYPE, ret_stx) < 0)
		return -errno;
	return mounting_clone(fd, copy->attributes & ATTRIBUTES, ret_tree);
}

static int make_trees(struct work *w, struct step_answer *a)
{
	for (size_t i = 0; i < w->copies->count; i++) {
		const struct copy *copy = &w->copies->list[i];
		struct statx stx;
		int r;

		w->trees[i] = w->tops[i] = -1;
		if (copy->space != w->space)
			continue;
		if (copy->root[0] != '/')
			return failed(a, -ESTALE, "a removed directory is mounted", copy);
		if (copy->attributes & MOUNT_ATTR_IDMAP && !copy->uid_map)
			return failed(a, -EOPNOTSUPP, "an idmapped copy", copy);
		/* What is mounted below such a copy, or on its like elsewhere, would go on to it. */
		if (copy->propagation & (MS_SHARED | MS_SLAVE) &&
		    w->copies->spaces[w->space].fd >= 0)
			return failed(a, -EOPNOTSUPP, "a copy with mount propagation", copy);
		r = make_tree(w, copy, &w->trees[i], &stx);
		if (r < 0)
			return failed(a, r,
				      r == -EINVAL ? "kernel too old for the copy" : "the copy",
				      copy);
		if (copy->attributes & MOUNT_ATTR_IDMAP)
			r = mount_idmap(w->trees[i], copy->uid_map, copy->gid_map);
		if (r < 0)
			return failed(a, r, "the id map of the copy", copy);
	}
	return 0;
}

/* By its path in the namespace that we are in now; its mount's id tells whether it is that copy. */
static int open_tops(struct work *w, struct step_answer *a)
{
	for (size_t i = 0; i < w->copies->count; i++) {
		const struct copy *copy = &w->copies->list[i];
		struct statx top, tree;

		if (copy->space != w->space)
			continue;
		w->tops[i] = open(copy->point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (w->tops[i] < 0 || statx(w->tops[i], "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
					    MOUNTING_UNIQUE_ID | STATX_INO | STATX_TYPE, &top) < 0)
			return failed(a, -errno, "the copy", copy);
		if (top.stx_mnt_id != copy->id)
			return failed(a, -EBUSY, "something is mounted over the copy", copy);
		if (statx(w->trees[i], "", AT_EMPTY_PATH, STATX_INO | STATX_TYPE, &tree) < 0)
			return failed(a, -errno, "the copy", copy);
		/* The root of all cannot be another, and its attributes may never have been asked for. */
		if ((copy->root[1] && top.stx_ino != tree.stx_ino) ||
		    (top.stx_mode & S_IFMT) != (tree.stx_mode & S_IFMT))
			return failed(a, -ESTALE, "another file than shown", copy);
	}
	return 0;
}

static int prepare(struct work *w, struct step_answer *a)
{
	int space_fd = w->copies->spaces[w->space].fd;
	int r = make_trees(w, a);

	if (r < 0)
		return r;
	if (space_fd >= 0 && setns(space_fd, CLONE_NEWNS) < 0) {
		snprintf(a->text, sizeof(a->text), "a mount namespace cannot be entered");
		return -errno;
	}
	return open_tops(w, a);
}

static int bury(struct work *w, struct step_answer *a)
{
	int r;

	for (size_t i = 0; i < w->copies->count; i++) {
		const struct copy *copy = &w->copies->list[i];

		if (copy->space != w->space || is_buried(w->buried, copy->parent_id))
			continue;
		r = mounting_move_beneath(w->trees[i], w->tops[i], &w->placed[i]);
		if (r < 0)
			return failed(a, r, "the copy cannot be replaced", copy);
	}
	return 0;
}

static int uncover(struct work *w, struct step_answer *a)
{
	int r = 0;

	for (size_t i = 0; i < w->copies->count; i++) {
		char name[16];

		if (w->copies->list[i].space != w->space)
			continue;
		/* The /proc of the namespace may be another or none: ours, as the working directory. */
		snprintf(name, sizeof(name), "%d", w->tops[i]);
		if (r == 0 && (fchdir(w->fds_dir) < 0 || umount2(name, MNT_DETACH) < 0))
			r = failed(a, -errno, "the overlay stays", &w->copies->list[i]);
	}
	return r;
}

/* Steps as they are asked for, until nobody asks any more. */
static void __attribute__((noreturn)) helper_main(struct work *w)
{
	static int (*const steps[])(struct work * w, struct step_answer * a) = {
		[STEP_PREPARE] = prepare, [STEP_BURY] = bury, [STEP_UNCOVER] = uncover
	};
	unsigned char step;

	while (recv(w->socket, &step, 1, 0) == 1 && step < ARRAY_SIZE(steps)) {
		struct step_answer answer = { .error = 0 };

		answer.error = steps[step](w, &answer);
		if (send(w->socket, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* ---- in the keeper ---- */

static int start_helper(struct replacement *r, int space, int native_tree_fd)
{
	struct helper *h = &r->helpers[r->helper_count];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	h->pid = fork();
	if (h->pid == 0) {
		struct work w = {
			.copies = r->copies,
			.space = space,
			.native_tree_fd = native_tree_fd,
			.socket = pair[1],
			.buried = r->buried,
			.placed = r->placed,
			.fds_dir = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC),
		};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		helper_main(&w);
	}
	close(pair[1]);
	if (h->pid < 0) {
		close(pair[0]);
		return -errno;
	}
	h->fd = pair[0];
	h->space = space;
	r->helper_count++;
	return 0;
}

static int await(struct helper *h, int64_t deadline, struct step_answer *ret_answer)
{
	struct pollfd fd = { .fd = h->fd, .events = POLLIN };
	int64_t left = deadline - (int64_t)clock_now_ms();
	int n = poll(&fd, 1, left > 0 ? (int)left : 0);

	snprintf(ret_answer->text, sizeof(ret_answer->text), "a mount namespace's helper");
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	if (recv(h->fd, ret_answer, sizeof(*ret_answer), 0) != (ssize_t)sizeof(*ret_answer))
		return -EPIPE;
	ret_answer->text[sizeof(ret_answer->text) - 1] = '\0';
	return ret_answer->error;
}

/* All helpers do @step at the same time. 0, or the first one's error. */
static int take_step(struct replacement *r, enum step step, char ret_reason[256])
{
	unsigned char byte = step;
	int64_t deadline = (int64_t)clock_now_ms() + REPLACEMENT_STEP_MS;
	int result = 0;

	for (size_t i = 0; i < r->helper_count; i++) {
		if (send(r->helpers[i].fd, &byte, 1, MSG_NOSIGNAL) < 0 && result == 0)
			result = -errno;
	}
	for (size_t i = 0; i < r->helper_count; i++) {
		struct step_answer answer;
		int error = await(&r->helpers[i], deadline, &answer);

		if (error < 0 && result == 0) {
			result = error;
			snprintf(ret_reason, 256, "%s: %s", answer.text, strerror(-error));
		}
	}
	return result;
}

static size_t placed_size(void)
{
	return COPIES_MAX * sizeof(uint64_t);
}

static int replacement_new(const struct copies *copies, const struct buried *buried,
			   struct replacement **ret_replacement)
{
	struct replacement *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->copies = copies;
	r->buried = buried;
	r->placed = mmap(NULL, placed_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	if (r->placed == MAP_FAILED) {
		free(r);
		return -ENOMEM;
	}
	*ret_replacement = r;
	return 0;
}

int replacement_prepare(const struct copies *copies, int native_tree_fd,
			const struct buried *buried, struct replacement **ret_replacement,
			char ret_reason[256])
{
	struct replacement *r = NULL;
	int error = replacement_new(copies, buried, &r);

	snprintf(ret_reason, 256, "no helper for a mount namespace");
	for (size_t i = 0; error == 0 && i < copies->space_count; i++)
		error = start_helper(r, (int)i, native_tree_fd);
	if (error == 0)
		error = take_step(r, STEP_PREPARE, ret_reason);
	if (error < 0) {
		replacement_free(r);
		return error;
	}
	*ret_replacement = r;
	return 0;
}

int replacement_bury(struct replacement *r, struct buried *io_buried, char ret_reason[256])
{
	int error = take_step(r, STEP_BURY, ret_reason);

	for (size_t i = 0; i < r->copies->count; i++) {
		if (r->placed[i] == 0)
			continue;
		io_buried->ids[io_buried->next] = r->placed[i];
		io_buried->next = (io_buried->next + 1) % COPIES_MAX;
	}
	return error;
}

int replacement_uncover(struct replacement *r, char ret_reason[256])
{
	return take_step(r, STEP_UNCOVER, ret_reason);
}

/* One that is stuck in a dead file system of its namespace ends when that lets it: not waited for. */
static void end_helper(struct helper *h)
{
	AUTO_FD int pid_fd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	struct pollfd fd = { .fd = pid_fd, .events = POLLIN };

	close(h->fd);
	kill(h->pid, SIGKILL);
	if (pid_fd < 0 || poll(&fd, 1, REPLACEMENT_STEP_MS) > 0)
		waitpid(h->pid, NULL, 0);
}

void replacement_free(struct replacement *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->helper_count; i++)
		end_helper(&r->helpers[i]);
	munmap(r->placed, placed_size());
	free(r);
}
