// SPDX-License-Identifier: Apache-2.0
#include "fs/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/gid_map.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/channel.h"
#include "fs/control.h"
#include "fs/handoff.h"
#include "fs/mounting.h"
#include "fs/shared.h"
#include "fs/users.h"

enum {
	NOTIFY_MS = 250,    /* watchers hear of counters at most this often */
	TRY_FIRST_MS = 250, /* after a refused hand-off; doubles */
	TRY_LAST_MS = 5000,
};

struct keeper {
	struct overlay_options options; /* as they apply: a read-only volume is virtual */
	const char *source, *target_path;
	char **arguments;
	int ready_fd;

	struct mount_target target;
	uint64_t attributes;	 /* of the overlay and of the native mount */
	uint64_t expected_files; /* 0: unknown */
	int server_tree_fd;	 /* detached mount of the lower tree, for the server */
	int native_tree_fd;	 /* another, to go beneath the overlay; -1: there is no hand-off */
	struct shared shared;
	int device_fd, channel_fd, signal_fd, server_pidfd;
	pid_t server_pid;
	struct overlay_mount overlay;
	uint64_t native_id;
	struct buried buried; /* by hand-offs that failed */
	bool is_mounted, is_ready, is_native;

	struct control control;
	bool notify_due;
	int64_t notify_at_ms; /* not before */
	int64_t try_at_ms;    /* 0: no try is due */
	int64_t try_pause_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the word to whoever started us ---- */

static void report(struct keeper *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(struct keeper *k, const char *format, ...)
{
	char line[1024];
	va_list args;
	ssize_t n;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	if (k->ready_fd >= 0) {
		n = write(k->ready_fd, line, (size_t)len);
		cleanup_fd(&k->ready_fd);
	} else if (!k->is_ready) {
		n = write(STDERR_FILENO, line, (size_t)len);
	} else {
		return;
	}
	(void)n; /* nobody listens any more */
}

/* A failed step of the start: one line, and the exit status. */
static int fail(struct keeper *k, const char *what, int error)
{
	report(k, "fsgroupfs: mount %s on %s: %s: %s", k->source, k->target_path, what,
	       strerror(error < 0 ? -error : error));
	return EXIT_FAILURE;
}

static int fail_reason(struct keeper *k, const char *reason)
{
	report(k, "fsgroupfs: mount %s on %s: %s", k->source, k->target_path, reason);
	return EXIT_FAILURE;
}

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

static int prepare_trees(struct keeper *k)
{
	AUTO_FD int lower_fd = -1;
	char reason[256];
	int r = open_lower(k, &lower_fd);

	if (r < 0)
		return fail(k, "source", r);
	r = refuse_nested_mounts(lower_fd, reason);
	if (r != 0)
		return r > 0 ? fail_reason(k, reason) : fail(k, "nested mounts", r);
	r = mounting_attributes(lower_fd, &k->attributes);
	if (r < 0)
		return fail(k, "source", r);
	k->attributes &= ~k->options.mount_attr_clear;
	k->attributes |= k->options.mount_attr_set;
	settle_read_only(k);
	k->expected_files = k->options.expected_files ? k->options.expected_files :
							mounting_count_files(lower_fd);
	r = mounting_clone(lower_fd, k->attributes, &k->server_tree_fd);
	if (r < 0)
		return fail(k, "clone of the source's mount", r);
	if (k->options.ownership == OWNERSHIP_CONVERGE && k->options.handoff) {
		r = mounting_clone(lower_fd, k->attributes, &k->native_tree_fd);
		if (r < 0)
			return fail(k, "clone of the source's mount", r);
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
			return fail_reason(k, "no group is given: -o gid=N is needed");
		if (!gid_is_mapped(rule->gid)) {
			snprintf(reason, sizeof(reason),
				 "gid %u is not mapped in this user namespace", rule->gid);
			return fail_reason(k, reason);
		}
	}
	r = open_target(k);
	if (r < 0)
		return fail(k, "target", r);
	r = prepare_trees(k);
	close_given(k);
	if (r != 0)
		return r;
	k->device_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (k->device_fd < 0)
		return fail(k, "/dev/fuse", errno);
	r = shared_create(&k->shared);
	if (r < 0)
		return fail(k, "shared memory", r);
	atomic_store(&k->shared.header->paused, k->options.paused);
	atomic_store(&k->shared.header->converge_rate, k->options.converge_rate);
	atomic_store(&k->shared.header->total, k->expected_files);
	return 0;
}

/* ---- the server ---- */

static void keep_open(int fd)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, 0);
}

/* In the child: becomes the server. Only returns when that fails. */
static void exec_server(struct keeper *k, int channel_fd)
{
	char fds[96], effective[32] = "ownership=converge";
	size_t count = 0;
	sigset_t none;
	char **argv;

	while (k->arguments[count])
		count++;
	argv = calloc(2 * count + 8, sizeof(*argv));
	if (!argv)
		return;
	snprintf(fds, sizeof(fds), "--server=%d,%d,%d,%d", k->device_fd, k->shared.fd, channel_fd,
		 k->server_tree_fd);
	count = 0;
	argv[count++] = "fsgroupfs";
	argv[count++] = fds;
	for (size_t i = 0; k->arguments[i]; i++) {
		argv[count++] = "-o";
		argv[count++] = k->arguments[i];
	}
	/* What follows from the lower mount, after what was asked for. */
	if (k->options.ownership == OWNERSHIP_VIRTUAL)
		strcpy(effective, "ownership=virtual");
	else if (k->options.ownership == OWNERSHIP_NONE)
		strcpy(effective, "ownership=none");
	argv[count++] = "-o";
	argv[count++] = effective;
	if (k->options.rule.read_only) {
		argv[count++] = "-o";
		argv[count++] = "ro";
	}
	keep_open(k->device_fd);
	keep_open(k->shared.fd);
	keep_open(channel_fd);
	keep_open(k->server_tree_fd);
	keep_open(k->options.journal_fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv("/proc/self/exe", argv);
}

static int start_server(struct keeper *k)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	k->server_pid = fork();
	if (k->server_pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return -errno;
	}
	if (k->server_pid == 0) {
		exec_server(k, pair[1]);
		_exit(127);
	}
	close(pair[1]);
	k->channel_fd = pair[0];
	k->server_pidfd = (int)syscall(SYS_pidfd_open, k->server_pid, 0);
	return k->server_pidfd < 0 ? -errno : 0;
}

/* The next message of the start; anything but @expected is the server's failure, and reported. */
static int expect(struct keeper *k, enum channel_kind expected)
{
	struct channel_message message;
	int r;

	do
		r = channel_receive(k->channel_fd, &message);
	while (r > 0 && message.kind == CHANNEL_CHANGED);
	if (r <= 0)
		return fail_reason(k, "the server died while starting");
	if (message.kind == CHANNEL_FAILED)
		return fail(k, message.text, message.error);
	return message.kind == expected ? 0 : fail_reason(k, "the server speaks another language");
}

static int start(struct keeper *k)
{
	int r = start_server(k);

	if (r < 0)
		return fail(k, "server", r);
	/* The server has its own mount namespace before there is an overlay that it could get a copy of. */
	r = expect(k, CHANNEL_PREPARED);
	if (r != 0)
		return r;
	cleanup_fd(&k->server_tree_fd);
	r = mounting_attach_overlay(k->device_fd, k->source, k->attributes, &k->target,
				    &k->overlay);
	if (r < 0)
		return fail(k, "mount", r);
	k->is_mounted = true;
	r = channel_send(k->channel_fd, CHANNEL_MOUNTED, 0, NULL);
	if (r < 0)
		return fail(k, "server", r);
	r = expect(k, CHANNEL_READY);
	if (r != 0)
		return r;
	report(k, "ok");
	k->is_ready = true;
	return 0;
}

static int reap(struct keeper *k)
{
	int status = 0;

	if (k->server_pid <= 0)
		return EXIT_SUCCESS;
	while (waitpid(k->server_pid, &status, 0) < 0 && errno == EINTR)
		;
	k->server_pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return EXIT_SUCCESS;
	if (k->is_ready && WIFSIGNALED(status))
		log_line(LOG_ERROR, "serve", "the server died of signal %d", WTERMSIG(status));
	else if (k->is_ready)
		log_line(LOG_ERROR, "serve", "the server exited with %d", WEXITSTATUS(status));
	return EXIT_FAILURE;
}

/* After a failed start: nothing stays. */
static void abandon(struct keeper *k)
{
	if (k->is_mounted)
		mounting_detach(&k->target, k->overlay.id, true);
	if (k->server_pid > 0)
		kill(k->server_pid, SIGKILL);
	reap(k);
}

/* ---- the hand-off ---- */

static void schedule_try(struct keeper *k)
{
	k->try_pause_ms = k->try_pause_ms == 0 ? TRY_FIRST_MS : 2 * k->try_pause_ms;
	if (k->try_pause_ms > TRY_LAST_MS)
		k->try_pause_ms = TRY_LAST_MS;
	k->try_at_ms = now_ms() + k->try_pause_ms;
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
	char reason[256] = "hand-off is off";

	if (k->native_tree_fd >= 0 && handoff_survey(&handoff, reason) == 0) {
		channel_send(k->channel_fd, CHANNEL_SURVEYED, 0, NULL);
		return;
	}
	channel_send(k->channel_fd, CHANNEL_REFUSED, 0, reason);
	if (k->native_tree_fd >= 0)
		schedule_try(k);
}

/* The server holds all opens, and none is open. */
static void swap(struct keeper *k, bool is_quiet)
{
	const struct handoff handoff = handoff_of(k);
	char reason[256] = "";

	if (handoff_swap(&handoff, is_quiet, reason, &k->native_id) == 0) {
		k->is_native = true;
		k->is_mounted = false;
		k->try_at_ms = 0;
		cleanup_fd(&k->native_tree_fd);
		channel_send(k->channel_fd, CHANNEL_SWAPPED, 0, NULL);
	} else {
		channel_send(k->channel_fd, CHANNEL_REFUSED, 0, reason);
		schedule_try(k);
	}
}

/* ---- control ---- */

static int on_controls_changed(void *context)
{
	struct keeper *k = context;

	k->notify_due = true;
	return channel_send(k->channel_fd, CHANNEL_CONTROLS, 0, NULL);
}

static int on_converge(void *context)
{
	struct keeper *k = context;

	k->notify_due = true;
	return channel_send(k->channel_fd, CHANNEL_CONVERGE, 0, NULL);
}

static int on_handoff(void *context)
{
	return channel_send(((struct keeper *)context)->channel_fd, CHANNEL_TRY, 0, NULL);
}

static int on_finished(void *context)
{
	return channel_send(((struct keeper *)context)->channel_fd, CHANNEL_FINISHED, 0, NULL);
}

static void on_facts(void *context, struct control_facts *ret_facts)
{
	const struct keeper *k = context;

	*ret_facts = (struct control_facts){
		.run_id = k->options.run_id,
		.server_pid = k->server_pid,
		.mount_id = k->is_native ? k->native_id : k->overlay.id,
		.is_native = k->is_native,
	};
}

/* ---- the loop ---- */

static void handle_channel(struct keeper *k)
{
	struct channel_message message;
	int r = channel_receive(k->channel_fd, &message);

	if (r <= 0) {
		cleanup_fd(&k->channel_fd); /* the process's end is told by the pidfd */
		return;
	}
	if (message.kind == CHANNEL_SURVEY)
		survey(k);
	else if (message.kind == CHANNEL_SWAP)
		swap(k, message.error == 0);
	else if (message.kind == CHANNEL_CHANGED)
		k->notify_at_ms = 0; /* a state, not a counter: at once */
	else if (message.kind == CHANNEL_FAILED)
		log_line(LOG_ERROR, "serve", "%s: %s", message.text, strerror(message.error));
	k->notify_due = true;
}

/* SIGTERM and SIGINT mean "unmount"; with users it stays, like umount(8) would say. */
static void handle_signal(struct keeper *k)
{
	struct signalfd_siginfo info;
	int r = 0;

	if (read(k->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (k->is_mounted)
		r = mounting_detach(&k->target, k->overlay.id, false);
	if (r < 0)
		log_line(LOG_ERROR, "unmount", "%s: %s", k->target_path, strerror(-r));
	else
		k->is_mounted = false;
}

static int poll_timeout(const struct keeper *k, int64_t now)
{
	int64_t timeout = -1;
	bool counts = atomic_load(&k->shared.header->state) == OVERLAY_CONVERGING;

	if (control_has_watchers(&k->control) && (k->notify_due || counts))
		timeout = k->notify_at_ms > now ? k->notify_at_ms - now :
			  k->notify_due		? 0 :
						  NOTIFY_MS;
	if (k->try_at_ms > 0) {
		int64_t wait = k->try_at_ms > now ? k->try_at_ms - now : 0;

		if (timeout < 0 || wait < timeout)
			timeout = wait;
	}
	return (int)timeout;
}

static void handle_time(struct keeper *k)
{
	int64_t now = now_ms();
	bool counts = atomic_load(&k->shared.header->state) == OVERLAY_CONVERGING;

	if (k->try_at_ms > 0 && now >= k->try_at_ms) {
		k->try_at_ms = 0;
		channel_send(k->channel_fd, CHANNEL_TRY, 0, NULL);
	}
	if ((k->notify_due || counts) && now >= k->notify_at_ms) {
		k->notify_due = false;
		k->notify_at_ms = now + NOTIFY_MS;
		control_notify(&k->control);
	}
}

static int run(struct keeper *k)
{
	enum { CHANNEL, SERVER, SIGNAL, CONTROL, COUNT = CONTROL + CONTROL_CLIENTS_MAX + 1 };
	struct pollfd fds[COUNT];

	for (;;) {
		fds[CHANNEL] = (struct pollfd){ .fd = k->channel_fd, .events = POLLIN };
		fds[SERVER] = (struct pollfd){ .fd = k->server_pidfd, .events = POLLIN };
		fds[SIGNAL] = (struct pollfd){ .fd = k->signal_fd, .events = POLLIN };
		control_poll(&k->control, fds + CONTROL);
		if (poll(fds, COUNT, poll_timeout(k, now_ms())) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		/* What the server said last comes before its end. */
		if (fds[CHANNEL].revents)
			handle_channel(k);
		else if (fds[SERVER].revents)
			return reap(k);
		if (fds[SIGNAL].revents)
			handle_signal(k);
		control_handle(&k->control, fds + CONTROL);
		handle_time(k);
	}
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
		.device_fd = -1,
		.channel_fd = -1,
		.server_pidfd = -1,
	};
	const struct control_actions actions = { on_controls_changed, on_converge, on_handoff,
						 on_finished,	      on_facts,	   &k };
	int status;

	umask(077);
	k.signal_fd = block_signals();
	status = k.signal_fd < 0 ? fail(&k, "signals", k.signal_fd) : prepare(&k);
	if (status == 0)
		status = start(&k);
	if (status != 0) {
		abandon(&k);
		return status;
	}
	/* Nothing of the place we were started at stays in use. */
	if (chdir("/") < 0)
		log_line(LOG_WARNING, "start", "chdir: %m (ignoring)");
	control_init(&k.control, options->control_fd, &k.shared, &actions);
	status = run(&k);
	control_fini(&k.control);
	shared_fini(&k.shared);
	return status;
}
