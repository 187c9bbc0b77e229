// SPDX-License-Identifier: Apache-2.0

/*
 * differential: whether any system call tells an overlay from a tree that was eagerly changed
 * (trial.h, compare.h).
 *
 *     differential [--fs ext4|xfs|btrfs|tmpfs] [--mode paused|converging] [--coherence shared|exclusive]
 *                  [--transport dev|io_uring] [--atime strictatime|noatime|relatime] [--durable yes|no]
 *                  [--seed N] [--steps N] [--trial N] [--seconds N] [--shrink N] [--keep-going]
 *                  [--kill MILLISECONDS] [--userns mapped|own] [--refresh] [--idmap yes|no]
 *
 * Steps are run in trials of some hundred, each with a tree of its own and its seed: the first has the
 * seed given. A difference is shrunk for at most N seconds and printed as a script. Exit status 0, 1 at
 * a difference, 2 for a wrong argument or when a trial could not be made.
 *
 * Needs root, /dev/fuse and, but for tmpfs, loop devices. The work is done in mount and (but for --idmap) process
 * namespaces of its own: however it ends, nothing stays (supervisor.h).
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "tests/differential/outside.h"
#include "tests/differential/supervisor.h"
#include "tests/differential/trial.h"

enum { EXIT_USAGE = 2, KINDS_MAX = 64 };

struct settings {
	struct volume_config volume;
	uint64_t seed, steps, trial, seconds, shrink;
	bool keeps_going;
};

static int usage(void)
{
	fprintf(stderr,
		"usage: differential [--fs TYPE] [--mode paused|converging] "
		"[--coherence shared|exclusive] [--transport dev|io_uring] [--atime OPTION] [--durable yes|no] [--kill MILLISECONDS] [--userns mapped|own] [--refresh]\n"
		"    [--idmap yes|no]\n"
		"    [--seed N] [--steps N] [--trial N] [--seconds N] [--shrink SECONDS] [--keep-going]\n");
	return EXIT_USAGE;
}

static int parse_settings(int argc, char **argv, struct settings *ret)
{
	static const struct option options[] = {
		{ "fs", required_argument, NULL, 'f' },
		{ "mode", required_argument, NULL, 'm' },
		{ "coherence", required_argument, NULL, 'c' },
		{ "transport", required_argument, NULL, 'T' },
		{ "atime", required_argument, NULL, 'a' },
		{ "durable", required_argument, NULL, 'd' },
		{ "kill", required_argument, NULL, 'r' },
		{ "userns", required_argument, NULL, 'u' },
		{ "refresh", no_argument, NULL, 'b' },
		{ "idmap", required_argument, NULL, 'i' },
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'n' },
		{ "trial", required_argument, NULL, 't' },
		{ "seconds", required_argument, NULL, 'S' },
		{ "shrink", required_argument, NULL, 'k' },
		{ "keep-going", no_argument, NULL, 'K' },
		{ NULL, 0, NULL, 0 },
	};
	struct volume_config *v = &ret->volume;
	int option, r = 0;

	while (r == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'f':
			v->type = optarg;
			break;
		case 'm':
			v->converges = strcmp(optarg, "converging") == 0;
			break;
		case 'c':
			v->is_exclusive = strcmp(optarg, "exclusive") == 0;
			break;
		case 'T':
			v->transport = optarg;
			break;
		case 'a':
			v->atime = optarg;
			break;
		case 'd':
			r = parse_bool(optarg, &v->is_durable);
			break;
		case 'i':
			r = parse_bool(optarg, &v->is_idmapped);
			break;
		case 'r':
			r = parse_u32(optarg, &v->kill_ms);
			break;
		case 'u':
			v->userns = strcmp(optarg, "own") == 0 ? USERNS_OWN : USERNS_MAPPED;
			break;
		case 'b':
			v->refreshes = true;
			break;
		case 's':
			r = parse_u64(optarg, &ret->seed);
			break;
		case 'n':
			r = parse_u64(optarg, &ret->steps);
			break;
		case 't':
			r = parse_u64(optarg, &ret->trial);
			break;
		case 'S':
			r = parse_u64(optarg, &ret->seconds);
			break;
		case 'k':
			r = parse_u64(optarg, &ret->shrink);
			break;
		case 'K':
			ret->keeps_going = true;
			break;
		default:
			r = -EINVAL;
		}
	}
	/* Nobody but the overlay writes below an exclusive one. */
	if (v->refreshes && v->is_exclusive)
		return -EINVAL;
	/* No server can follow one that has died in a user namespace (README). */
	if ((v->userns && v->kill_ms > 0) || (v->is_idmapped && (v->userns || v->refreshes)) ||
	    (v->userns == USERNS_OWN && strcmp(v->type, "tmpfs") != 0))
		return -EINVAL;
	/* With the server the overlay would end. */
	if (v->kill_ms > 0 && strcmp(v->transport, "dev") != 0)
		r = -EINVAL;
	return r == 0 && optind == argc && ret->trial > 0 ? 0 : -EINVAL;
}

/* Differences that were printed before, so that each kind is shrunk once. */
struct kinds {
	unsigned count;
	struct {
		char kind[sizeof(((struct difference *)0)->kind)];
		unsigned times;
	} rows[KINDS_MAX];
};

static bool is_new_kind(struct kinds *k, const char *kind)
{
	for (unsigned i = 0; i < k->count; i++) {
		if (strcmp(k->rows[i].kind, kind) == 0) {
			k->rows[i].times++;
			return false;
		}
	}
	if (k->count < KINDS_MAX) {
		snprintf(k->rows[k->count].kind, sizeof(k->rows[0].kind), "%s", kind);
		k->rows[k->count++].times = 1;
	}
	return true;
}

static void report(const struct settings *s, struct trial *t, struct difference *d,
		   struct kinds *kinds)
{
	if (!is_new_kind(kinds, d->kind))
		return;
	if (s->shrink > 0)
		trial_shrink(t, d, (unsigned)s->shrink);
	else if (d->at + 1 < t->count)
		t->count = d->at + 1;
	trial_print(stdout, t, d);
}

/*
 * A trial. Whether two times that one call set are a tick of the clock apart may be the scheduler's work, on
 * either side: that one difference counts when it is there again in a second run of the same trial.
 */
static int run_trial(struct trial *t, struct difference *d)
{
	int r = trial_run(t, true, d);

	if (r < 0 || !d->is_found || !strstr(d->kind, DIFFERENCE_APART))
		return r;
	printf("%s, seed %llu: again, because of the clock\n", d->kind,
	       (unsigned long long)t->seed);
	return trial_run(t, false, d);
}

enum { PLACES = 2 };

/* The two places, and the trees of the second trial under way. In a user namespace one process makes them all, outside. */
static bool make_places(const struct settings *s, struct volume_place places[PLACES])
{
	struct volume_config config = s->volume;
	struct volume second = VOLUME_CLOSED(&config);

	if (s->volume.userns == USERNS_MAPPED || s->trial >= s->steps)
		return false;
	for (int i = 0; i < PLACES; i++) {
		snprintf(places[i].scratch, sizeof(places[i].scratch), "%.128s/%d",
			 s->volume.scratch, i);
		places[i].made_fd = -1;
		if (mkdir(places[i].scratch, 0755) < 0)
			return false;
	}
	config.place = &places[1];
	config.scratch = places[1].scratch;
	volume_leave(&second, s->seed + 1);
	return true;
}

/* The trials that were not run, because the time was up or there is a difference. */
static void discard_places(const struct settings *s, struct volume_place places[PLACES])
{
	for (int i = 0; i < PLACES; i++) {
		struct volume_config config = s->volume;

		config.place = &places[i];
		config.scratch = places[i].scratch;
		volume_discard(&config);
	}
}

static int run_trials(const struct settings *s)
{
	static const char *const userns_names[] = { "", " userns", " own userns" };
	AUTO_FREE struct step *steps = calloc(s->trial, sizeof(*steps));
	AUTO_FREE struct difference *d = malloc(sizeof(*d));
	AUTO_FREE struct kinds *kinds = calloc(1, sizeof(*kinds));
	time_t until = time(NULL) + (time_t)s->seconds;
	uint64_t done = 0, seed = s->seed;
	unsigned different = 0, ended = 0, kills = 0, upgrades = 0, changes = 0;
	struct volume_place places[PLACES];
	bool has_places;

	if (!steps || !d || !kinds)
		return EXIT_USAGE;
	has_places = make_places(s, places);
	for (; done < s->steps && (s->seconds == 0 || time(NULL) < until); seed++) {
		uint64_t count = s->trial < s->steps - done ? s->trial : s->steps - done;
		struct trial t = {
			.volume = s->volume, .seed = seed, .steps = steps, .count = (unsigned)count
		};
		int r;

		if (has_places) {
			t.volume.place = &places[(seed - s->seed) % PLACES];
			t.volume.scratch = t.volume.place->scratch;
			t.has_next = done + PLACES * s->trial < s->steps;
			t.next_seed = seed + PLACES;
		}
		r = run_trial(&t, d);
		if (r < 0) {
			fprintf(stderr,
				"differential: a trial of seed %llu could not be made: %s\n",
				(unsigned long long)seed, strerror(-r));
			if (has_places)
				discard_places(s, places);
			return EXIT_USAGE;
		}
		kills += t.kills;
		upgrades += t.upgrades;
		changes += t.changes;
		done += d->is_found ? d->at + 1 : count;
		ended += d->is_found && d->is_deliberate;
		if (!d->is_found || d->is_deliberate)
			continue;
		different++;
		report(s, &t, d, kinds);
		if (!s->keeps_going)
			break;
	}
	if (has_places)
		discard_places(s, places);
	printf("%s %s %s%s: %llu steps, seeds %llu to %llu, %u differences\n", s->volume.type,
	       s->volume.converges ? "converging" : "paused",
	       s->volume.is_exclusive ? "exclusive" : "shared", userns_names[s->volume.userns],
	       (unsigned long long)done, (unsigned long long)s->seed,
	       (unsigned long long)seed - (seed > s->seed), different);
	if (ended > 0)
		printf("  %u trials ended where set-ID bits went of a file that was written meanwhile (README)\n",
		       ended);
	if (s->volume.kill_ms > 0)
		printf("  %u servers were killed, %u were followed by others\n", kills, upgrades);
	if (s->volume.refreshes)
		printf("  %u changes were made behind the overlay's back\n", changes);
	for (unsigned i = 0; i < kinds->count && s->keeps_going; i++)
		printf("  %4u %s\n", kinds->rows[i].times, kinds->rows[i].kind);
	return different ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int work_inside(void *context, int ask_fd)
{
	struct settings *s = context;

	s->volume.outside_fd = ask_fd;
	return run_trials(s);
}

static int work_outside(void *context, int userns_fd, uint64_t seed)
{
	const struct settings *s = context;

	return volume_make(&s->volume, seed, userns_fd);
}

static int work_in_userns(struct settings *s)
{
	const struct outside_work both = { work_inside, work_outside, s };
	int r = outside_run(&both);

	if (r < 0)
		fprintf(stderr, "differential: a user namespace: %s\n", strerror(-r));
	return r < 0 ? EXIT_USAGE : r;
}

/* The program where everybody can reach it, whatever the directories above the repository allow. */
static int copy_program(struct volume_config *c, char *program, size_t size)
{
	AUTO_FD int from = open(c->program, O_RDONLY | O_CLOEXEC);
	AUTO_FD int to = -1;
	struct stat st;

	snprintf(program, size, "%.128s/fsgroupfs", c->scratch);
	to = open(program, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return -errno;
	while (st.st_size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)st.st_size);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		st.st_size -= n;
	}
	c->program = program;
	return 0;
}

/* Its mounts go when the last process ends that has them: none outlives it (supervisor.h). */
static int work(void *context)
{
	struct settings *s = context;
	char program[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0 ||
	    mount("tmpfs", s->volume.scratch, "tmpfs", 0, volume_tmpfs_data(s->volume.userns)) <
		    0 ||
	    copy_program(&s->volume, program, sizeof(program)) < 0) {
		fprintf(stderr, "differential: mounts of its own: %m\n");
		return EXIT_USAGE;
	}
	setenv("XDG_RUNTIME_DIR", s->volume.scratch, 1);
	return s->volume.userns ? work_in_userns(s) : run_trials(s);
}

static void remove_scratch(void *context)
{
	rmdir(((const struct settings *)context)->volume.scratch);
}

int main(int argc, char **argv)
{
	const char *bin = getenv("BIN"), *temporary = getenv("TMPDIR");
	char program[1024], scratch[128];
	struct settings s = {
		.volume = { .type = "ext4",
			    .program = program,
			    .scratch = scratch,
			    .atime = "strictatime",
			    .transport = "dev" },
		.seed = 1,
		.steps = 1000,
		.trial = 600,
		.shrink = 60,
	};
	struct supervised supervised = { work, remove_scratch, &s };
	int status;

	if (parse_settings(argc, argv, &s) < 0)
		return usage();
	snprintf(program, sizeof(program), "%s/fsgroupfs", bin ? bin : "build/bin");
	snprintf(scratch, sizeof(scratch), "%.80s/differential.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0) {
		fprintf(stderr, "differential: %s: %m\n", scratch);
		return EXIT_USAGE;
	}
	/* Idmapped: in the first one the server can ask for the maps (fs/mount_spaces.h). */
	supervised.has_own_pids = !s.volume.is_idmapped;
	status = supervisor_run(&supervised);
	return status < 0 ? EXIT_USAGE : status;
}
