// SPDX-License-Identifier: Apache-2.0
/*
 * fsgroup-mountd: the volume manager's daemon, one for each root directory.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/daemon.h"
#include "mountd/proto.h"
#include "mountd/server.h"
#include "mountd/steps.h"

#define IDLE_DEFAULT_MS 60000

struct options {
	const char *root;
	bool foreground;
	uint64_t idle_ms; /* UINT64_MAX: never */
};

static int usage(FILE *out)
{
	fprintf(out,
		"usage: fsgroup-mountd [--root DIR] [-f] [--idle-exit SECONDS]\n"
		"  --root DIR           state in DIR/var/lib/fsgroupfs, sockets in DIR/run/fsgroupfs (default /)\n"
		"  -f, --foreground     stay in the foreground, log to standard error\n"
		"  --idle-exit SECONDS  end after so long without a volume and a client (default 60; 0: never)\n");
	return out == stdout ? EXIT_OK : EXIT_USAGE;
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option longs[] = {
		{ "root", required_argument, NULL, 'r' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "idle-exit", required_argument, NULL, 'i' },
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
	sigaddset(&signals, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static enum log_level configured_level(const struct layout *layout)
{
	AUTO(rules) *rules = NULL;
	char why[RULES_ERROR_MAX];

	if (rules_load(layout->config_path, &rules, why) < 0) {
		log_line(LOG_WARNING, "start", "ignoring the log level; mounts will fail: %s", why);
		return LOG_INFO;
	}
	return rules->log_level;
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

/* From here on we are the daemon of this root. */
static int serve(const struct options *options, const struct layout *layout, int ready_fd)
{
	AUTO(manager) *m = NULL;
	char why[ANSWER_TEXT_MAX];
	AUTO_FD int listen_fd = -1;
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
	log_setup(configured_level(layout), NULL);
	manager_reconstruct_start(m);
	r = daemon_listen(layout, &listen_fd);
	if (r < 0)
		return fail(layout->run_path, r);
	if (ready_fd >= 0) {
		r = daemon_log_open(layout, &log_fd);
		if (r == 0)
			r = daemon_ready(ready_fd, log_fd);
		if (r < 0)
			return fail(layout->state_path, r);
	}
	log_line(LOG_INFO, "start", "pid=%d", (int)getpid());
	r = manager_mend_start(m);
	if (r < 0)
		return fail("starting", r);
	r = server_run(m, layout, take_fd(&listen_fd), options->idle_ms, ready_fd >= 0);
	manager_stop(m);
	manager_mend_stop(m);
	return r < 0 ? fail("serving", r) : EXIT_OK;
}

int main(int argc, char **argv)
{
	struct options options = { .root = getenv("FSGROUPFS_ROOT"), .idle_ms = IDLE_DEFAULT_MS };
	AUTO(layout) *layout = NULL;
	AUTO_FD int lock_fd = -1;
	int ready_fd = -1, r;

	proto_wipe_json();
	if (!options.root || !*options.root)
		options.root = "/";
	r = parse_options(argc, argv, &options);
	if (r >= 0)
		return r;
	r = daemon_harden();
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
	r = daemon_lock(layout, &lock_fd);
	if (r == -EALREADY && !options.foreground)
		return daemon_ready(ready_fd, STDERR_FILENO) < 0; /* somebody was faster: as good */
	if (r == -EALREADY) {
		fprintf(stderr, "fsgroup-mountd: already running for %s\n", layout->root);
		return EXIT_FAILED;
	}
	if (r < 0)
		return fail(layout->run_path, r);
	block_signals();
	daemon_enter_cgroup();
	r = serve(&options, layout, ready_fd);
	daemon_leave_cgroup();
	return r;
}
