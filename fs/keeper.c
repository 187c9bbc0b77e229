// SPDX-License-Identifier: Apache-2.0
#include "fs/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/gid_map.h"
#include "fs/base/log.h"
#include "fs/base/oom_score.h"
#include "fs/base/parse.h"
#include "fs/handoff.h"
#include "fs/keeper_private.h"
#include "fs/mount_spaces.h"
#include "fs/ring.h"
#include "fs/users.h"

enum {
	NOTIFY_MS = 250,    /* watchers hear of counters at most this often */
	TRY_FIRST_MS = 250, /* after a refused hand-off; doubles */
	TRY_LAST_MS = 5000,
	SMALL_BYTES = 16 * 1024, /* what is larger goes back to the kernel with its free() */
};

/* ---- preparing ---- */

static int open_lower(struct keeper *k, int *ret_fd)
{
	int fd = k->options.lower_fd >= 0 ?
			 openat(k->options.lower_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC) :
			 open(k->source, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int open_target(struct keeper *k)
{
	struct stat st;
	int r;

	if (k->options.parent_fd < 0) {
		r = mounting_open_target(k->target_path, &k->target);
	} else {
		struct mount_target last;
		const char *slash = strrchr(k->target_path, '/');

		last.parent_fd = fcntl(k->options.parent_fd, F_DUPFD_CLOEXEC, 3);
		r = last.parent_fd < 0 ? -errno : 0;
		snprintf(last.name, sizeof(last.name), "%s", slash ? slash + 1 : k->target_path);
		if (r == 0 && (last.name[0] == '\0' || strcmp(last.name, ".") == 0 ||
			       strcmp(last.name, "..") == 0))
			r = -EINVAL;
		k->target = last;
	}
	if (r == 0 && fstatat(k->target.parent_fd, k->target.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && !S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	return r;
}

/* A tree with mounts inside would be shown without them, and what they cover would be changed. */
static int refuse_nested_mounts(int lower_fd, char ret_reason[256])
{
	char link[64], path[4096], nested[256];
	ssize_t len;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", lower_fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return -errno;
	path[len] = '\0';
	r = users_mount_below(path, nested);
	if (r == 1)
		snprintf(ret_reason, 256,
			 "%.180s is mounted inside the source: nested mounts are refused", nested);
	return r;
}

/*
 * A lower tree that is mounted read-only, and a volume that is asked for read-only: nothing is ever
 * written there, so the ownership is presented for ever, with the read-only mask.
 */
static void settle_read_only(struct keeper *k)
{
	if (k->attributes & MOUNT_ATTR_RDONLY)
		k->options.rule.read_only = true;
	if (k->options.rule.read_only) {
		k->attributes |= MOUNT_ATTR_RDONLY;
		if (k->options.ownership == OWNERSHIP_CONVERGE)
			k->options.ownership = OWNERSHIP_VIRTUAL;
	}
}

/*
 * What SELinux is to let people do there: the same as with the source, unless another label was asked for. All files get
 * the one of the source's root: a FUSE mount has one label.
 */
static int choose_context(struct keeper *k, int lower_fd)
{
	const char *why_not = selinux_why_not(""), *asked = k->options.context;
	char own[SELINUX_LABEL_MAX + 1] = "", reason[SELINUX_LABEL_MAX + 128];
	int r = why_not ? 0 : selinux_label_of(lower_fd, own);

	if (why_not && selinux_label_is_foreign(asked, "")) {
		snprintf(reason, sizeof(reason), "context=%s: %s", asked, why_not);
		return keeper_fail_reason(k, reason);
	}
	if (r < 0 && !*asked)
		log_line(LOG_WARNING, "mount", "ignoring that the source has no label: %s",
			 strerror(-r));
	snprintf(k->context, sizeof(k->context), "%s", selinux_label_to_mount(asked, own));
	k->context_is_foreign = selinux_label_is_foreign(asked, own);
	return 0;
}

static int prepare_trees(struct keeper *k)
{
	AUTO_FD int lower_fd = -1;
	char reason[256];
	int r = open_lower(k, &lower_fd);

	if (r < 0)
		return keeper_fail(k, "source", r);
	r = refuse_nested_mounts(lower_fd, reason);
	if (r != 0)
		return r > 0 ? keeper_fail_reason(k, reason) : keeper_fail(k, "nested mounts", r);
	r = mounting_attributes(lower_fd, &k->attributes);
	if (r < 0)
		return keeper_fail(k, "source", r);
	r = choose_context(k, lower_fd);
	if (r != 0)
		return r;
	k->attributes &= ~k->options.mount_attr_clear;
	k->attributes |= k->options.mount_attr_set;
	settle_read_only(k);
	k->expected_files = k->options.expected_files ? k->options.expected_files :
							mounting_count_files(lower_fd);
	r = mounting_clone(lower_fd, k->attributes, &k->server_tree_fd);
	if (r < 0)
		return keeper_fail(k, "clone of the source's mount", r);
	/* Without it the first server is the only one: kernels before 6.15 clone no detached mount. */
	if (mounting_clone(k->server_tree_fd, k->attributes, &k->spare_tree_fd) < 0)
		k->spare_tree_fd = -1;
	if (k->options.ownership == OWNERSHIP_CONVERGE && k->options.handoff &&
	    !k->context_is_foreign) {
		r = mounting_clone(lower_fd, k->attributes, &k->native_tree_fd);
		if (r < 0)
			return keeper_fail(k, "clone of the source's mount", r);
	}
	return 0;
}

/* The originals of what was cloned and duplicated would keep their mounts busy for ever. */
static void close_given(struct keeper *k)
{
	cleanup_fd(&k->options.lower_fd);
	cleanup_fd(&k->options.parent_fd);
}

static int prepare(struct keeper *k)
{
	const struct ownership_rule *rule = &k->options.rule;
	char reason[256];
	int r;

	if (k->options.ownership != OWNERSHIP_NONE) {
		if (rule->gid == GID_UNSET)
			return keeper_fail_reason(k, "no group is given: -o gid=N is needed");
		if (!gid_is_mapped(rule->gid)) {
			snprintf(reason, sizeof(reason),
				 "gid %u is not mapped in this user namespace", rule->gid);
			return keeper_fail_reason(k, reason);
		}
	}
	if (k->options.transport == TRANSPORT_IO_URING && ring_check(reason) < 0)
		return keeper_fail_reason(k, reason);
	r = open_target(k);
	if (r < 0)
		return keeper_fail(k, "target", r);
	r = prepare_trees(k);
	close_given(k);
	if (r != 0)
		return r;
	k->device_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (k->device_fd < 0)
		return keeper_fail(k, "/dev/fuse", errno);
	r = shared_create(&k->shared);
	if (r < 0)
		return keeper_fail(k, "shared memory", r);
	atomic_store(&k->shared.header->paused, k->options.paused);
	atomic_store(&k->shared.header->converge_rate, k->options.converge_rate);
	atomic_store(&k->shared.header->total, k->expected_files);
	k->shared.header->kill_opcode = k->options.kill_opcode;
	k->shared.header->kill_point = k->options.kill_point;
	/* Where the volume's root cannot be taken out of a detached mount, the kernel's own has to do. */
	k->options.root_is_1 |= k->spare_tree_fd < 0;
	if (k->options.root_is_1)
		k->shared.header->layout = SHARED_LAYOUT_ROOT_IS_1;
	return 0;
}

/* ---- the server ---- */

/*
 * The volume's root, for which the server is asked. By a process apart: nobody follows a server that dies now, and only
 * the end of the connection would end the waiting: it ends with our descriptor of the device, and that process has none.
 */
static int take_root(struct keeper *k, int overlay_fd, int *ret_mount_fd)
{
	AUTO_FD int ours = -1;
	struct channel_message message;
	struct pollfd fds[2];
	int ends[2], mount_fd = -1, status = 0, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ours = ends[0];
	pid = fork();
	if (pid == 0) {
		cleanup_fd(&k->device_fd);
		r = mounting_take_root(overlay_fd, &mount_fd);
		if (r == 0)
			r = channel_send_fd(ends[1], CHANNEL_MOUNTED, mount_fd);
		_exit(-r);
	}
	r = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (r < 0)
		return r;
	fds[0] = (struct pollfd){ .fd = ours, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = k->server.channel_fd }; /* its end */
	while (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents)
		cleanup_fd(&k->device_fd);
	r = channel_receive_pin(ours, &message, &mount_fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r > 0 && mount_fd >= 0) {
		*ret_mount_fd = mount_fd;
		return 0;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? -WEXITSTATUS(status) : -EIO;
}

/* The server answers: what it shows goes to the target. */
static int attach_overlay(struct keeper *k, int overlay_fd)
{
	AUTO_FD int root_fd = -1;
	int r = 0;

	if (!k->options.root_is_1)
		r = take_root(k, overlay_fd, &root_fd);
	if (r < 0)
		return keeper_fail(k, "root of the overlay", r);
	r = mounting_attach(root_fd >= 0 ? root_fd : overlay_fd, &k->target, &k->overlay);
	if (r < 0)
		return keeper_fail(k, "mount", r);
	k->is_mounted = true;
	k->overlay.is_below = root_fd >= 0;
	r = keeper_tell(k, CHANNEL_ATTACHED, NULL);
	return r < 0 ? keeper_fail(k, "server", r) : 0;
}

static int start(struct keeper *k)
{
	char what[SELINUX_LABEL_MAX + 32];
	AUTO_FD int overlay_fd = -1;
	int r = keeper_start_server(k, k->program_fd, &k->server);

	if (r < 0)
		return keeper_fail(k, "server", r);
	/* The server has its own mount namespace before there is an overlay that it could get a copy of. */
	r = keeper_expect(k, CHANNEL_PREPARED);
	if (r != 0)
		return r;
	cleanup_fd(&k->server_tree_fd);
	r = mounting_make_overlay(k->device_fd, k->source, k->context, k->attributes, &overlay_fd);
	if (r < 0) {
		snprintf(what, sizeof(what), "mount%s%s", *k->context ? " with context=" : "",
			 k->context);
		return keeper_fail(k, what, r);
	}
	r = keeper_tell(k, CHANNEL_MOUNTED, NULL);
	if (r < 0)
		return keeper_fail(k, "server", r);
	r = keeper_expect(k, CHANNEL_SERVING);
	if (r == 0)
		r = attach_overlay(k, overlay_fd);
	if (r == 0)
		r = keeper_expect(k, CHANNEL_READY);
	if (r != 0)
		return r;
	keeper_report(k, "ok");
	k->is_ready = true;
	keeper_note_ready(k);
	return 0;
}

/* After a failed start: nothing stays. */
static void abandon(struct keeper *k)
{
	if (k->is_mounted)
		mounting_detach(&k->target, k->overlay.id, true);
	child_end(&k->server);
}

/* ---- the hand-off ---- */

static void schedule_try(struct keeper *k)
{
	k->try_pause_ms = k->try_pause_ms == 0 ? TRY_FIRST_MS : 2 * k->try_pause_ms;
	if (k->try_pause_ms > TRY_LAST_MS)
		k->try_pause_ms = TRY_LAST_MS;
	k->try_at_ms = keeper_now_ms() + k->try_pause_ms;
}

static struct handoff handoff_of(struct keeper *k)
{
	return (struct handoff){
		.target = &k->target,
		.overlay = &k->overlay,
		.native_tree_fd = k->native_tree_fd,
		.in_namespaces = k->options.handoff_in_namespaces,
		.with_mappings = atomic_load(&k->shared.header->data_path_cached) == 0,
		.io_buried = &k->buried,
	};
}

/* Without holding anybody up: most of what forbids a swap is found so. */
static void survey(struct keeper *k)
{
	const struct handoff handoff = handoff_of(k);
	char reason[256];

	snprintf(reason, sizeof(reason), "%s",
		 k->context_is_foreign ? SELINUX_FOREIGN_REASON : "hand-off is off");
	if (k->native_tree_fd >= 0 && handoff_survey(&handoff, reason) == 0) {
		keeper_tell(k, CHANNEL_SURVEYED, NULL);
		return;
	}
	keeper_tell(k, CHANNEL_REFUSED, reason);
	if (k->native_tree_fd >= 0)
		schedule_try(k);
}

/* What is put in the overlay's place has the attributes that somebody may have given that since (remount). */
static int follow_attributes(struct keeper *k, char reason[256])
{
	uint64_t now;
	int r = mount_spaces_attributes(k->overlay.id, &now);

	if (r == -ENOSYS)
		return 0;
	if (r == 0)
		r = mounting_set_attributes(k->native_tree_fd, now);
	if (r < 0)
		snprintf(reason, 256, "the attributes of its mount: %s", strerror(-r));
	return r;
}

/* The server holds all opens, and none is open. */
static void swap(struct keeper *k, bool is_quiet)
{
	const struct handoff handoff = handoff_of(k);
	char reason[256] = "";

	if (follow_attributes(k, reason) == 0 &&
	    handoff_swap(&handoff, is_quiet, reason, &k->native_id) == 0) {
		k->is_native = true;
		atomic_store(&k->shared.header->swapped, 1);
		k->is_mounted = false;
		k->try_at_ms = 0;
		cleanup_fd(&k->native_tree_fd);
		keeper_tell(k, CHANNEL_SWAPPED, NULL);
	} else {
		keeper_tell(k, CHANNEL_REFUSED, reason);
		schedule_try(k);
	}
}

/* ---- control ---- */

static int on_controls_changed(void *context)
{
	struct keeper *k = context;

	k->notify_due = true;
	return keeper_tell(k, CHANNEL_CONTROLS, NULL);
}

static int on_converge(void *context)
{
	struct keeper *k = context;

	k->notify_due = true;
	atomic_store(&k->shared.header->converge_asked, 1);
	return keeper_tell(k, CHANNEL_CONVERGE, NULL);
}

static int on_handoff(void *context)
{
	return keeper_tell(context, CHANNEL_TRY, NULL);
}

static int on_finished(void *context)
{
	atomic_store(&((struct keeper *)context)->shared.header->run_recorded, 1);
	return keeper_tell(context, CHANNEL_FINISHED, NULL);
}

static int on_recover(void *context)
{
	return keeper_recover(context);
}

static int on_upgrade(void *context, int program_fd, uint64_t client, char ret_error[256])
{
	return keeper_upgrade_begin(context, program_fd, client, ret_error);
}

/* A server that does not read its messages is not waited for. */
static int on_explain(void *context, int fd)
{
	const struct keeper *k = context;
	struct pollfd room = { .fd = k->server.channel_fd, .events = POLLOUT };

	if (k->server.channel_fd < 0 || k->failover.is_refusing)
		return -ENOTCONN;
	if (poll(&room, 1, 0) <= 0 || !(room.revents & POLLOUT))
		return -EBUSY;
	return channel_send_fd(k->server.channel_fd, CHANNEL_EXPLAIN, fd);
}

static void on_facts(void *context, struct control_facts *ret_facts)
{
	const struct keeper *k = context;

	*ret_facts = (struct control_facts){
		.run_id = k->options.run_id,
		.server_pid = k->failover.is_refusing ? 0 : k->server.pid,
		.server_version = k->server_version,
		.failed = failover_reason(&k->failover),
		.is_stuck = k->failover.is_stuck,
		.mount_id = k->is_native ? k->native_id : k->overlay.id,
		.is_native = k->is_native,
		.over_ring = k->options.transport == TRANSPORT_IO_URING,
	};
}

/* ---- the loop ---- */

static void handle_channel(struct keeper *k)
{
	struct channel_message message;
	int r = keeper_receive(k, &message);

	if (r <= 0) {
		cleanup_fd(&k->server.channel_fd); /* the process's end is told by the pidfd */
		return;
	}
	if (message.kind == CHANNEL_SURVEY)
		survey(k);
	else if (message.kind == CHANNEL_SWAP)
		swap(k, message.error == 0);
	else if (message.kind == CHANNEL_CHANGED)
		keeper_notify_now(k);
	else if (message.kind == CHANNEL_DRAINED)
		keeper_upgrade_drained(k, message.slot, message.error);
	else if (message.kind == CHANNEL_FAILED)
		log_line(LOG_ERROR, "serve", "%s: %s", message.text, strerror(message.error));
	k->notify_due = true;
}

/*
 * SIGTERM and SIGINT mean "unmount"; with users it stays, like umount(8) would say. By a process apart: the kernel may
 * have to write back through the server first, and that is looked after here.
 */
static void handle_signal(struct keeper *k)
{
	struct signalfd_siginfo info;

	if (read(k->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info) || !k->is_mounted ||
	    k->detacher > 0)
		return;
	k->detacher = fork();
	if (k->detacher == 0)
		_exit(-mounting_detach(&k->target, k->overlay.id, false));
	if (k->detacher > 0)
		k->detacher_fd = (int)syscall(SYS_pidfd_open, k->detacher, 0);
	else
		log_line(LOG_ERROR, "unmount", "%s: %m", k->target_path);
}

static void handle_detached(struct keeper *k)
{
	int status = 0;

	if (waitpid(k->detacher, &status, WNOHANG) != k->detacher)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		k->is_mounted = false;
	else
		log_line(LOG_ERROR, "unmount", "%s: %s", k->target_path,
			 WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "killed");
	k->detacher = 0;
	cleanup_fd(&k->detacher_fd);
}

/* The earlier of @timeout (-1: none) and the moment @at_ms (0: none). */
static int64_t sooner(int64_t timeout, int64_t at_ms, int64_t now)
{
	int64_t wait = at_ms > now ? at_ms - now : 0;

	return at_ms > 0 && (timeout < 0 || wait < timeout) ? wait : timeout;
}

static int poll_timeout(const struct keeper *k, int64_t now)
{
	int64_t timeout = -1, watch;
	bool counts = atomic_load(&k->shared.header->state) == OVERLAY_CONVERGING;

	if (control_has_watchers(&k->control) && (k->notify_due || counts))
		timeout = k->notify_at_ms > now ? k->notify_at_ms - now :
			  k->notify_due		? 0 :
						  NOTIFY_MS;
	timeout = sooner(timeout, k->try_at_ms, now);
	timeout = sooner(timeout, keeper_upgrade_due_ms(k), now);
	watch = k->ended_ms > 0 ? keeper_watch_end_pause_ms(k) : keeper_watch_pause_ms(k);
	if (watch >= 0 && (timeout < 0 || watch < timeout))
		timeout = watch;
	return timeout > INT_MAX ? INT_MAX : (int)timeout;
}

static void handle_time(struct keeper *k)
{
	int64_t now = keeper_now_ms();
	bool counts = atomic_load(&k->shared.header->state) == OVERLAY_CONVERGING;

	if (keeper_look_for_end(k, now))
		keeper_watch_end(k, now);
	else
		keeper_watch(k, now);
	keeper_upgrade_time(k, now);
	if (k->try_at_ms > 0 && now >= k->try_at_ms) {
		k->try_at_ms = 0;
		keeper_tell(k, CHANNEL_TRY, NULL);
	}
	if ((k->notify_due || counts) && now >= k->notify_at_ms) {
		k->notify_due = false;
		k->notify_at_ms = now + NOTIFY_MS;
		control_notify(&k->control);
	}
}

static int run(struct keeper *k)
{
	enum {
		CHANNEL,
		SERVER,
		SIGNAL,
		UPGRADE,
		DETACHER = UPGRADE + UPGRADE_POLL_COUNT,
		CONTROL,
		COUNT = CONTROL + CONTROL_CLIENTS_MAX + 1
	};
	struct pollfd fds[COUNT];
	int status;

	for (;;) {
		fds[CHANNEL] = (struct pollfd){ .fd = k->server.channel_fd, .events = POLLIN };
		fds[SERVER] = (struct pollfd){ .fd = k->server.pidfd, .events = POLLIN };
		fds[SIGNAL] = (struct pollfd){ .fd = k->signal_fd, .events = POLLIN };
		keeper_upgrade_poll(k, fds + UPGRADE);
		fds[DETACHER] = (struct pollfd){ .fd = k->detacher_fd, .events = POLLIN };
		control_poll(&k->control, fds + CONTROL);
		if (poll(fds, COUNT, poll_timeout(k, keeper_now_ms())) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		/* What the server said last comes before its end. */
		if (fds[CHANNEL].revents)
			handle_channel(k);
		else if (fds[SERVER].revents && keeper_handle_death(k, &status))
			return status;
		if (fds[SIGNAL].revents)
			handle_signal(k);
		keeper_upgrade_handle(k, fds + UPGRADE);
		if (fds[DETACHER].revents)
			handle_detached(k);
		control_handle(&k->control, fds + CONTROL);
		handle_time(k);
	}
}

/* One for each inode without a link that is still known. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* As far as we may: an ordinary user's keeper ends like any process of his. */
static void protect_from_want(void)
{
	int r = oom_score_set(OOM_SCORE_KEEPER);

	if (r < 0 && r != -EACCES)
		log_line(LOG_WARNING, "start", "ignoring that oom_score_adj is not set: %s",
			 strerror(-r));
}

static int block_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	sigdelset(&set, SIGHUP);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int keeper_main(const struct overlay_options *options, const char *source, const char *target,
		char **arguments, int ready_fd)
{
	struct keeper k = {
		.options = *options,
		.source = source,
		.target_path = target,
		.arguments = arguments,
		.ready_fd = ready_fd,
		.target.parent_fd = -1,
		.server_tree_fd = -1,
		.native_tree_fd = -1,
		.shared.fd = -1,
		.spare_tree_fd = -1,
		.device_fd = -1,
		.detacher_fd = -1,
		.server = CHILD_NONE,
		.program_fd = -1,
		.stash = STASH_ENDS_NONE,
		.upgrade = { .successor = CHILD_NONE,
			     .leaving = CHILD_NONE,
			     .program_fd = -1,
			     .program_before_fd = -1 },
		.failover.limit = options->max_deaths,
	};
	const struct control_actions actions = {
		.controls_changed = on_controls_changed,
		.converge = on_converge,
		.handoff = on_handoff,
		.finished = on_finished,
		.recover = on_recover,
		.upgrade = on_upgrade,
		.explain = on_explain,
		.facts = on_facts,
		.context = &k,
	};
	int status;

	umask(077);
	/* There may be a thousand of us: what is used for a moment goes back at once. */
	mallopt(M_MMAP_THRESHOLD, SMALL_BYTES);
	mallopt(M_TOP_PAD, 0);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	raise_descriptors();
	protect_from_want();
	k.signal_fd = block_signals();
	status = k.signal_fd < 0 ? keeper_fail(&k, "signals", k.signal_fd) : prepare(&k);
	if (status == 0)
		status = start(&k);
	if (status != 0) {
		abandon(&k);
		return status;
	}
	/* Nothing of the place we were started at stays in use. */
	if (chdir("/") < 0)
		log_line(LOG_WARNING, "start", "chdir: %m (ignoring)");
	malloc_trim(0);
	control_init(&k.control, options->control_fd, &k.shared, &actions);
	status = run(&k);
	keeper_upgrade_fini(&k);
	control_fini(&k.control);
	stash_empty(&k.stash, &k.pins);
	pins_fini(&k.pins);
	shared_fini(&k.shared);
	return status;
}
