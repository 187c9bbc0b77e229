// SPDX-License-Identifier: Apache-2.0
/*
 * fsgroup-mountd: the volume manager's daemon, one for each root directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "fs/base/version.h"
#include "mountd/daemon.h"
#include "mountd/peer.h"
#include "mountd/proto.h"
#include "mountd/server.h"
#include "mountd/service.h"
#include "mountd/steps.h"
#include "mountd/successor.h"

#define IDLE_DEFAULT_MS 60000

struct options {
	const char *root;
	bool foreground;
	bool check;
	uint64_t idle_ms; /* UINT64_MAX: never */
	bool follows;	  /* another daemon was in this process, and has left: */
	struct successor_inherits inherits;
	char **argv;
};

static int usage(FILE *out)
{
	fprintf(out,
		"usage: fsgroup-mountd [--root DIR] [-f] [--idle-exit SECONDS] [--check]\n"
		"  --root DIR           state in DIR/var/lib/fsgroupfs, sockets in DIR/run/fsgroupfs (default /)\n"
		"  -f, --foreground     stay in the foreground, log to standard error (in a service to journald)\n"
		"  --idle-exit SECONDS  end after so long without a volume and a client (default 60; 0: never)\n"
		"  --check              only says whether this program could serve what is there, and its version\n");
	return out == stdout ? EXIT_OK : EXIT_USAGE;
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option longs[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "idle-exit", required_argument, NULL, 'i' },
		{ "check", no_argument, NULL, 'c' },
		{ "follow", required_argument, NULL, 'F' }, /* successor_exec()'s own */
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "f", longs, NULL)) != -1) {
		switch (c) {
		case 'r':
			ret_options->root = optarg;
			break;
		case 'f':
			ret_options->foreground = true;
			break;
		case 'i':
			if (parse_duration(optarg, 1000, &ret_options->idle_ms) < 0)
				return usage(stderr);
			if (ret_options->idle_ms == 0)
				ret_options->idle_ms = UINT64_MAX;
			break;
		case 'c':
			ret_options->check = true;
			break;
		case 'F':
			ret_options->follows = ret_options->foreground = true;
			if (successor_parse(optarg, &ret_options->inherits) < 0)
				return usage(stderr);
			break;
		case 'h':
			return usage(stdout);
		default:
			return usage(stderr);
		}
	}
	return optind == argc ? -1 : usage(stderr);
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "fsgroup-mountd: %s: %s\n", what, strerror(-error));
	return EXIT_FAILED;
}

/* Signals are taken from a descriptor; every thread inherits this mask. */
static void block_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

/* What mountd.conf says of the daemon itself. */
struct configuration {
	gid_t status_gid;	       /* who may look, or GID_UNSET */
	int64_t cpu_latency_us;	       /* of overlays; -1: unset */
	char warning[RULES_ERROR_MAX]; /* of what is ignored, or "": for when there is a log */
};

/* What cannot be used must not keep volumes from being served. */
static void configure(const struct layout *layout, struct configuration *ret)
{
	AUTO(rules) *rules = NULL;
	char why[RULES_ERROR_MAX], quoted[64];
	int r;

	*ret = (struct configuration){ .status_gid = GID_UNSET, .cpu_latency_us = -1 };
	if (rules_load(layout->config_path, &rules, why) < 0) {
		snprintf(ret->warning, sizeof(ret->warning),
			 "ignoring [log] and [daemon]; mounts will fail: %.400s", why);
		return;
	}
	log_setup(rules->log_level, NULL);
	ret->cpu_latency_us = rules->cpu_latency_us;
	if (!rules->status_group)
		return;
	r = peer_group_resolve(rules->status_group, &ret->status_gid);
	if (r < 0)
		snprintf(ret->warning, sizeof(ret->warning), "ignoring status-group = %s: %s",
			 log_quote(rules->status_group, quoted, sizeof(quoted)),
			 r == -ENOENT ? "no such group" : strerror(-r));
}

/* For tests (steps.h): a service's environment must not make it crash. */
static int crash_requested(struct manager *m, const struct layout *layout)
{
	const char *text = getenv("FSGROUPFS_CRASH_AT");
	char quoted[64];

	if (!text)
		return 0;
	if (strcmp(layout->root, "/") == 0) {
		fprintf(stderr, "fsgroup-mountd: FSGROUPFS_CRASH_AT needs a --root other than /\n");
		return -EPERM;
	}
	if (step_crash_at(m, text) == 0)
		return 0;
	fprintf(stderr, "fsgroup-mountd: FSGROUPFS_CRASH_AT: %s is no step\n",
		log_quote(text, quoted, sizeof(quoted)));
	return -EINVAL;
}

static int listen_on(const struct layout *layout, struct service *service, gid_t status_gid,
		     struct daemon_socket *ret_socket)
{
	int r = service_socket(service) < 0 ?
			daemon_listen(layout, ret_socket) :
			daemon_listen_passed(layout, service_take_socket(service), ret_socket);

	if (r == 0)
		r = daemon_let_in(layout, status_gid);
	return r;
}

/* What takes our place. */
struct succession {
	int program_fd; /* -1: nothing does */
	struct daemon_socket socket;
	bool log_is_ours;
};

/* On a read-only disk the machine's log has to do, where there is one. */
static int open_log(const struct layout *layout, int *ret_fd, bool *ret_is_ours)
{
	int r = daemon_log_open(layout, ret_fd);

	*ret_is_ours = r == 0;
	if (r != -EROFS)
		return r;
	*ret_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* From here on we are the daemon of this root. */
static int serve(const struct options *options, const struct layout *layout,
		 struct service *service, int ready_fd, struct succession *ret_succession)
{
	AUTO(manager) *m = NULL;
	struct server_options server = { .layout = layout, .service = service };
	struct configuration configuration;
	char why[ANSWER_TEXT_MAX];
	AUTO_FD int log_fd = -1;
	int r;

	json_object_seed(0); /* before there are threads */
	r = manager_new(layout, &m, why);
	if (r < 0) {
		fprintf(stderr, "fsgroup-mountd: %s\n", why[0] ? why : strerror(-r));
		return EXIT_FAILED;
	}
	if (crash_requested(m, layout) < 0)
		return EXIT_FAILED;
	configure(layout, &configuration);
	manager_set_cpu_latency(m, configuration.cpu_latency_us);
	manager_reconstruct_start(m);
	r = listen_on(layout, service, configuration.status_gid, &server.socket);
	if (r == -EADDRNOTAVAIL) {
		fprintf(stderr, "fsgroup-mountd: LISTEN_FDS: the socket is not %s/%s\n",
			layout->run_path, PATH_SOCKET);
		return EXIT_FAILED;
	}
	if (r < 0)
		return fail(layout->run_path, r);
	if (ready_fd >= 0) {
		r = open_log(layout, &log_fd, &server.log_is_ours);
		if (r == 0)
			r = daemon_ready(ready_fd, log_fd);
		if (r < 0)
			return fail(layout->state_path, r);
	}
	if (options->follows)
		server.log_is_ours = options->inherits.log_is_ours;
	if (!server.log_is_ours)
		log_to_system("fsgroup-mountd");
	if (configuration.warning[0])
		log_line(LOG_WARNING, "start", "%s", configuration.warning);
	log_line(LOG_INFO, "start", "pid=%d version=%s", (int)getpid(), FSGROUPFS_VERSION);
	r = manager_mend_start(m);
	if (r < 0)
		return fail("starting", r);
	service_notify(service, "READY=1\nSTATUS=serving");
	server.m = m;
	server.status_gid = configuration.status_gid;
	server.idle_ms = options->idle_ms;
	if (options->follows)
		server.socket.is_passed = !options->inherits.socket_is_ours;
	r = server_run(&server);
	manager_stop(m);
	manager_mend_stop(m);
	if (r == 0)
		*ret_succession = (struct succession){ .program_fd = manager_take_successor(m),
						       .socket = server.socket,
						       .log_is_ours = server.log_is_ours };
	return r < 0 ? fail("serving", r) : EXIT_OK;
}

/* With one thread left and nothing open that matters. Returns only when it fails. */
static int give_place(const struct options *options, const struct layout *layout,
		      const struct service *service, struct succession *succession)
{
	int r = successor_exec(succession->program_fd, options->argv, &succession->socket,
			       succession->log_is_ours, service);

	log_line(LOG_ERROR, "upgrade", "the new daemon: %s", strerror(-r));
	daemon_socket_close(layout, &succession->socket);
	return EXIT_FAILED;
}

/* Alone for its root. Returns the exit status. */
static int run(const struct options *options, const struct layout *layout, struct service *service,
	       int ready_fd)
{
	/* In a service's control group systemd looks for it. */
	const bool is_managed = service_is_managed(service) ||
				(service_socket(service) >= 0 && !options->inherits.socket_is_ours);
	struct succession succession = { .program_fd = -1 };
	AUTO_FD int lock_fd = -1;
	int r = daemon_lock(layout, service_socket(service) >= 0, &lock_fd);

	if (r == -EALREADY && !options->foreground)
		return daemon_ready(ready_fd, STDERR_FILENO) < 0; /* somebody was faster: as good */
	if (r == -EALREADY) {
		fprintf(stderr, "fsgroup-mountd: already running for %s\n", layout->root);
		return EXIT_FAILED;
	}
	if (r < 0)
		return fail(layout->run_path, r);
	block_signals();
	if (!is_managed)
		daemon_enter_cgroup();
	r = serve(options, layout, service, ready_fd, &succession);
	if (succession.program_fd >= 0)
		return give_place(options, layout, service, &succession);
	if (!is_managed)
		daemon_leave_cgroup();
	return r;
}

/* What is another program's heritage. Before there are threads. */
static void take_on(void)
{
	/* Executed by descriptor, we are called after its number on kernels before 6.14. */
	prctl(PR_SET_NAME, "fsgroup-mountd");
	/* Children that ended while there was nobody to hear of it. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(int argc, char **argv)
{
	struct options options = { .root = getenv("FSGROUPFS_ROOT"),
				   .idle_ms = IDLE_DEFAULT_MS,
				   .argv = argv };
	AUTO(layout) *layout = NULL;
	AUTO(service) *service = NULL;
	char why[256];
	int ready_fd = -1, r;

	proto_wipe_json();
	if (!options.root || !*options.root)
		options.root = "/";
	r = parse_options(argc, argv, &options);
	if (r >= 0)
		return r;
	if (options.check)
		return successor_say(options.root);
	if (options.follows)
		take_on();
	r = service_open(&service, why);
	if (r == -EINVAL) {
		fprintf(stderr, "fsgroup-mountd: %s\n", why);
		return EXIT_FAILED;
	}
	if (r < 0)
		return fail("starting", r);
	r = daemon_harden(service_socket(service));
	if (r < 0)
		return fail("hardening", r);
	r = layout_open(options.root, true, &layout);
	if (r < 0)
		return fail(options.root, r);
	if (!options.foreground) {
		r = daemon_fork(&ready_fd);
		if (r < 0)
			return fail("going into the background", r);
	}
	return run(&options, layout, service, ready_fd);
}
