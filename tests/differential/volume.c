// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/volume.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "tests/differential/eager.h"
#include "tests/differential/outside.h"
#include "tests/differential/situation.h"
#include "tests/differential/tree.h"
#include "tests/idmap.h"

enum { PATH_BYTES = 256, IMAGE_BLOCK = 4096 };
enum { CONVERGE_MS = 60000, FAILED_MS = 3000, RETRY_MS = 500, ANSWER_MS = 20000 };

/* Each two directories deep in a file system of its own: a symbolic link may lead to "../..". */
static const char EAGER[] = "eager/d/v", LOWER[] = "lower/d/v", TARGET[] = "overlay/d/v";
/* The same, idmapped. */
static const char EAGER_MAPPED[] = "eager/d/m", TARGET_MAPPED[] = "overlay/d/m";
/* All ids that the trees and the workers have, elsewhere. */
static const char MAP[] = "0:100000:65536";

/* At the scratch directory. */
static void path_in(const struct volume_config *c, const char *name, char ret[PATH_BYTES])
{
	snprintf(ret, PATH_BYTES, "%s/%s", c->scratch, name);
}

const char *volume_tmpfs_data(bool is_for_inside)
{
	_Static_assert(OUTSIDE_FIRST_ID == 300000, "as below");
	return is_for_inside ? "mode=755,uid=300000,gid=300000" : "mode=755";
}

static int run(char *const argv[])
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -errno;
	return status == 0 ? 0 : -EIO;
}

static const struct {
	const char *type;
	off_t bytes;
	const char *mkfs[8];
	const char *data; /* of the mount */
} types[] = {
	{ "ext4", 48 << 20, { "mkfs.ext4", "-q", "-F", "-N", "4096", "-I", "256" }, "" },
	{ "xfs", 320 << 20, { "mkfs.xfs", "-q", "-f" }, "nouuid" },
	{ "btrfs", 256 << 20, { "mkfs.btrfs", "-q", "-f", "-M" }, "" },
	{ "tmpfs", 0, { NULL }, "mode=755,size=256m" },
};

static int type_index(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].type, type) == 0)
			return (int)i;
	}
	return -1;
}

static bool is_zero(const unsigned char *bytes, size_t len)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* What is there from @at on, but for blocks of zeros; @ret_at: behind it. -ENXIO: nothing more. */
static int copy_extent(int from, int to, off_t at, off_t *ret_at)
{
	unsigned char bytes[IMAGE_BLOCK];
	off_t end;

	at = lseek(from, at, SEEK_DATA);
	end = at < 0 ? -1 : lseek(from, at, SEEK_HOLE);
	if (end < 0)
		return -errno;
	while (at < end) {
		ssize_t n = pread(from, bytes, sizeof(bytes), at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (!is_zero(bytes, (size_t)n) && pwrite(to, bytes, (size_t)n, at) != n)
			return -EIO;
		at += n;
	}
	*ret_at = end;
	return 0;
}

/* An image is some megabytes with large holes: they stay, and so do those that mkfs wrote out. */
static int copy_image(const char *from_path, const char *to_path)
{
	AUTO_FD int from = open(from_path, O_RDONLY | O_CLOEXEC);
	AUTO_FD int to = open(to_path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	struct stat st;
	off_t at = 0;
	int r = 0;

	if (from < 0 || to < 0 || fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	while (r == 0)
		r = copy_extent(from, to, at, &at);
	return r == -ENXIO ? 0 : r;
}

static int make_empty_image(int type, const char *image)
{
	char *argv[ARRAY_SIZE(types[0].mkfs) + 2] = { NULL };
	AUTO_FD int fd = open(image, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	size_t count = 0;

	if (fd < 0 || ftruncate(fd, types[type].bytes) < 0)
		return -errno;
	while (types[type].mkfs[count]) {
		argv[count] = (char *)types[type].mkfs[count];
		count++;
	}
	argv[count] = (char *)image;
	return run(argv);
}

/* An empty file system: a copy of the one that is made for the first trial. */
static int make_image(const struct volume_config *c, int type, const char *image)
{
	char empty[PATH_BYTES];
	int r = 0;

	path_in(c, "empty.img", empty);
	if (access(empty, F_OK) < 0)
		r = make_empty_image(type, empty);
	return r < 0 ? r : copy_image(empty, image);
}

/* A loop device that goes with its mount. */
static int open_loop(const char *image, int *ret_fd, char ret_device[64])
{
	AUTO_FD int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	AUTO_FD int file = open(image, O_RDWR | O_CLOEXEC);

	if (control < 0 || file < 0)
		return -errno;
	for (int tries = 0; tries < 100; tries++) {
		struct loop_config config = { .fd = (uint32_t)file,
					      .info.lo_flags = LO_FLAGS_AUTOCLEAR };
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		AUTO_FD int fd = -1;

		if (number < 0)
			return -errno;
		snprintf(ret_device, 64, "/dev/loop%d", number);
		fd = open(ret_device, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
		/* Another test was faster. */
		if (errno != EBUSY && errno != ENOENT && errno != ENXIO)
			return -errno;
	}
	return -EBUSY;
}

static unsigned long atime_flag(const char *atime)
{
	return strcmp(atime, "noatime") == 0  ? MS_NOATIME :
	       strcmp(atime, "relatime") == 0 ? MS_RELATIME :
						MS_STRICTATIME;
}

/*
 * No file system that belongs to a user namespace opens devices, and FUSE's do: so that both sides refuse it.
 */
static unsigned long mount_flags(const struct volume_config *c)
{
	return atime_flag(c->atime) | (c->userns ? MS_NODEV : 0);
}

static int mount_at(const struct volume_config *c, int type, const char *image, const char *at)
{
	char device[64] = "tmpfs";
	AUTO_FD int loop = -1;
	int r = types[type].bytes ? open_loop(image, &loop, device) : 0;

	if (r < 0)
		return r;
	if (mkdir(at, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (mount(device, at, types[type].type, mount_flags(c), types[type].data) < 0)
		return -errno;
	return 0;
}

static int make_tree(const char *at, uint64_t seed)
{
	char lost[PATH_BYTES + 16];

	snprintf(lost, sizeof(lost), "%s/lost+found", at);
	if (rmdir(lost) < 0 && errno != ENOENT)
		return -errno;
	return tree_make(at, seed);
}

/* The directories that the trees lie in, new for each trial. */
static int make_parents(const struct volume_config *c, bool is_for_inside)
{
	static const char *const names[] = { "eager", "lower", "overlay" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path) - 2, "%s/%s", c->scratch, names[i]);
		if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
		    mount("tmpfs", path, "tmpfs", 0, volume_tmpfs_data(is_for_inside)) < 0)
			return -errno;
		strcat(path, "/d");
		if (mkdir(path, 0755) < 0 ||
		    (is_for_inside && chown(path, OUTSIDE_FIRST_ID, OUTSIDE_FIRST_ID) < 0))
			return -errno;
	}
	return 0;
}

/* Two images of one file system with the tree in it, which was written out by an unmount. */
static int make_images(const struct volume_config *c, int type, uint64_t seed)
{
	char at[PATH_BYTES], image_a[PATH_BYTES], image_b[PATH_BYTES];
	int r;

	path_in(c, EAGER, at);
	path_in(c, "a.img", image_a);
	path_in(c, "b.img", image_b);
	r = make_image(c, type, image_a);
	if (r == 0)
		r = mount_at(c, type, image_a, at);
	if (r == 0)
		r = make_tree(at, seed);
	if (r == 0 && umount(at) < 0)
		r = -errno;
	return r < 0 ? r : copy_image(image_a, image_b);
}

/*
 * In a mount namespace that is not copied: a server that starts meanwhile, in a volume at another place, has copies of
 * all mounts for a moment, and with one of them an unmount would write nothing.
 */
static int make_images_alone(const struct volume_config *c, int type, uint64_t seed)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(-(unshare(CLONE_NEWNS) < 0 ? -errno : make_images(c, type, seed)));
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

/* The two trees. */
static int make_trees(const struct volume_config *c, uint64_t seed, bool is_for_inside)
{
	int type = type_index(c->type), r;
	char a[PATH_BYTES], b[PATH_BYTES], image_a[PATH_BYTES], image_b[PATH_BYTES];

	if (type < 0)
		return -EINVAL;
	path_in(c, EAGER, a);
	path_in(c, LOWER, b);
	path_in(c, "a.img", image_a);
	path_in(c, "b.img", image_b);
	r = make_parents(c, is_for_inside);
	if (r == 0 && types[type].bytes)
		r = make_images_alone(c, type, seed);
	if (r == 0)
		r = mount_at(c, type, image_a, a);
	if (r == 0)
		r = mount_at(c, type, image_b, b);
	if (r == 0 && !types[type].bytes)
		r = make_tree(a, seed);
	if (r == 0 && !types[type].bytes)
		r = make_tree(b, seed);
	/* The mounted loop devices hold them. */
	unlink(image_a);
	unlink(image_b);
	return r;
}

/* ---- the overlay ---- */

static int connect_keeper(const struct sockaddr_un *address, int *ret_fd)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Marks are refused in a user namespace: an empty journal, which the overlay inherits; else -1. */
static int open_journal(const struct volume_config *c, int *ret_fd)
{
	char path[PATH_BYTES];

	*ret_fd = -1;
	if (!c->userns || !c->is_durable)
		return 0;
	path_in(c, "journal", path);
	*ret_fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_TRUNC, 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static struct sockaddr_un control_address(const struct volume_config *c)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%.99s/control", c->scratch);
	return address;
}

/* It is reached by its control socket (connect_overlay()). */
static int start_overlay(const struct volume_config *c, uint64_t seed)
{
	struct sockaddr_un address = control_address(c);
	char options[320], run_option[64] = "", journal_option[32] = "", lower[PATH_BYTES],
			   target[PATH_BYTES];
	AUTO_FD int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	AUTO_FD int journal = -1;
	int r = open_journal(c, &journal);

	if (r < 0)
		return r;

	path_in(c, LOWER, lower);
	path_in(c, TARGET, target);
	unlink(address.sun_path);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(listener, 4) < 0)
		return -errno;
	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		return -errno;
	if (c->is_durable)
		snprintf(run_option, sizeof(run_option), ",run=%032llx", (unsigned long long)seed);
	if (journal >= 0)
		snprintf(journal_option, sizeof(journal_option), ",journal_fd=%d", journal);
	snprintf(
		options, sizeof(options),
		"gid=%d,handoff=no,paused,max_deaths=0,coherence=%s,transport=%s,idmap=%s,control_fd=%d%s%s",
		VOLUME_GID, c->is_exclusive ? "exclusive" : "shared", c->transport,
		c->is_idmapped ? "yes" : "no", listener, run_option, journal_option);
	return run(
		(char *[]){ (char *)c->program, (char[]){ "-o" }, options, lower, target, NULL });
}

static int connect_overlay(struct volume *v, uint64_t seed)
{
	const struct volume_config *c = v->config;
	struct sockaddr_un address = control_address(c);
	int killer_fd = -1, r = connect_keeper(&address, &v->control_fd);

	if (r == 0 && c->kill_ms > 0)
		r = connect_keeper(&address, &killer_fd);
	return r < 0 || c->kill_ms == 0 ?
		       r :
		       killer_start(&v->killer, killer_fd, c->program, (unsigned)seed, c->kill_ms);
}

static int open_root(const struct volume_config *c, const char *name, int *ret_fd)
{
	char path[PATH_BYTES];

	path_in(c, name, path);
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* The eager change reads directories; what is compared begins with the times that they were made with. */
static int change_eagerly(const struct volume_config *c)
{
	char eager[PATH_BYTES];
	int r;

	path_in(c, EAGER, eager);
	if (mount(NULL, eager, NULL, MS_REMOUNT | MS_BIND | MS_NOATIME, NULL) < 0)
		return -errno;
	r = eager_change(eager, VOLUME_GID);
	if (r == 0 && mount(NULL, eager, NULL, MS_REMOUNT | MS_BIND | mount_flags(c), NULL) < 0)
		r = -errno;
	return r;
}

/* What is mounted there is mounted again with the ids of a user namespace. */
static int map_ids(const struct volume_config *c, const char *name, int userns_fd)
{
	char path[PATH_BYTES];
	AUTO_FD int fd = -1;

	path_in(c, name, path);
	fd = idmap_clone(path, userns_fd);
	if (fd < 0)
		return fd;
	if (umount2(path, MNT_DETACH) < 0 ||
	    move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int volume_make(const struct volume_config *config, uint64_t seed, int userns_fd)
{
	int r = make_trees(config, seed, userns_fd >= 0);

	if (r == 0)
		r = change_eagerly(config);
	if (r == 0 && userns_fd >= 0)
		r = map_ids(config, EAGER, userns_fd);
	if (r == 0 && userns_fd >= 0)
		r = map_ids(config, LOWER, userns_fd);
	return r;
}

static int mount_mapped(const struct volume *v, const char *name, const char *at_name)
{
	char path[PATH_BYTES], at[PATH_BYTES];
	AUTO_FD int tree = -1;

	path_in(v->config, name, path);
	path_in(v->config, at_name, at);
	if (mkdir(at, 0755) < 0 && errno != EEXIST)
		return -errno;
	tree = idmap_clone(path, v->user_space_fd);
	if (tree < 0)
		return tree;
	return move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int map_trees(struct volume *v)
{
	int r = idmap_user_namespace(MAP);

	if (r < 0)
		return r;
	v->user_space_fd = r;
	r = mount_mapped(v, EAGER, EAGER_MAPPED);
	return r < 0 ? r : mount_mapped(v, TARGET, TARGET_MAPPED);
}

int volume_enter(const struct volume *v)
{
	static const char *const hidden[] = { EAGER, LOWER, TARGET };

	if (v->user_space_fd < 0)
		return 0;
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		char path[PATH_BYTES];

		path_in(v->config, hidden[i], path);
		if (umount2(path, MNT_DETACH) < 0)
			return -errno;
	}
	return setns(v->user_space_fd, CLONE_NEWUSER) < 0 ? -errno : 0;
}

/* The one that volume_leave() had made. */
static int await_overlay(struct volume_place *place, uint64_t seed)
{
	int result;
	ssize_t n = read(place->made_fd, &result, sizeof(result));

	cleanup_fd(&place->made_fd);
	assert(seed == place->seed);
	return n == sizeof(result) ? result : -ECHILD;
}

int volume_open(const struct volume_config *config, uint64_t seed, struct volume *ret)
{
	struct volume v = VOLUME_CLOSED(config);
	struct volume_place *place = config->place;
	bool is_ready = place && place->made_fd >= 0;
	int r = is_ready			? await_overlay(place, seed) :
		config->userns == USERNS_MAPPED ? outside_ask(config->outside_fd, seed) :
						  volume_make(config, seed, -1);

	*ret = v;
	if (r == 0 && !is_ready)
		r = start_overlay(config, seed);
	if (r == 0)
		r = connect_overlay(ret, seed);
	if (r == 0 && config->is_idmapped)
		r = map_trees(ret);
	if (r == 0)
		r = open_root(config, config->is_idmapped ? EAGER_MAPPED : EAGER, &ret->eager_fd);
	if (r == 0)
		r = open_root(config, EAGER, &ret->settled_fd);
	if (r == 0)
		r = open_root(config, LOWER, &ret->lower_fd);
	if (r == 0)
		r = open_root(config, config->is_idmapped ? TARGET_MAPPED : TARGET,
			      &ret->overlay_fd);
	if (r < 0)
		volume_close(ret);
	return r;
}

unsigned volume_spare(struct volume *v)
{
	return killer_stop(&v->killer);
}

static void close_descriptors(struct volume *v)
{
	cleanup_fd(&v->overlay_fd);
	cleanup_fd(&v->lower_fd);
	cleanup_fd(&v->settled_fd);
	cleanup_fd(&v->user_space_fd);
	cleanup_fd(&v->eager_fd);
}

/* The workers that were killed, and what an overlay has left behind. */
static void reap_children(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

void volume_close(struct volume *v)
{
	static const char *const points[] = { TARGET_MAPPED, EAGER_MAPPED, TARGET,  LOWER,
					      EAGER,	     "overlay",	   "lower", "eager" };

	(void)volume_spare(v);
	close_descriptors(v);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		char path[PATH_BYTES];

		path_in(v->config, points[i], path);
		while (umount2(path, MNT_DETACH) == 0)
			;
		/* The keeper ends when its overlay is gone: then its end of the socket is closed. */
		if (points[i] == TARGET && v->control_fd >= 0) {
			char text[256];
			struct pollfd p = { .fd = v->control_fd, .events = POLLIN };

			while (poll(&p, 1, ANSWER_MS) > 0 &&
			       recv(v->control_fd, text, sizeof(text), 0) > 0)
				;
			cleanup_fd(&v->control_fd);
		}
	}
	reap_children();
}

static void __attribute__((noreturn)) close_and_make(struct volume *v, uint64_t seed, int made_fd)
{
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	volume_close(v);
	r = volume_make(v->config, seed, -1);
	if (r == 0)
		r = start_overlay(v->config, seed);
	_exit(write(made_fd, &r, sizeof(r)) < 0);
}

void volume_leave(struct volume *v, uint64_t next_seed)
{
	struct volume_place *place = v->config->place;
	int pair[2];
	pid_t child;

	(void)volume_spare(v); /* its thread */
	if (pipe2(pair, O_CLOEXEC) < 0) {
		volume_close(v);
		return;
	}
	child = fork();
	if (child == 0)
		close_and_make(v, next_seed, pair[1]);
	close(pair[1]);
	if (child < 0) {
		close(pair[0]);
		volume_close(v);
		return;
	}
	place->made_fd = pair[0];
	place->seed = next_seed;
	close_descriptors(v);
	cleanup_fd(&v->control_fd);
	reap_children();
}

void volume_discard(const struct volume_config *config)
{
	struct volume_place *place = config->place;
	struct volume v = VOLUME_CLOSED(config);

	if (place->made_fd < 0)
		return;
	if (await_overlay(place, place->seed) == 0) {
		struct sockaddr_un address = control_address(config);

		/* Its end is waited for. */
		(void)connect_keeper(&address, &v.control_fd);
	}
	volume_close(&v);
}

/* ---- its keeper ---- */

static int ask(struct volume *v, const char *request, char *ret_answer)
{
	struct pollfd p = { .fd = v->control_fd, .events = POLLIN };
	ssize_t n;

	if (send(v->control_fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return -errno;
	if (poll(&p, 1, ANSWER_MS) <= 0)
		return -ETIME;
	n = recv(v->control_fd, ret_answer, KEYVAL_MAX, 0);
	if (n <= 0)
		return -EPIPE;
	ret_answer[n] = '\0';
	return 0;
}

int volume_send(struct volume *v, const char *request)
{
	AUTO_FREE char *answer = malloc(KEYVAL_MAX + 1);
	int r = answer ? ask(v, request, answer) : -ENOMEM;

	return r < 0 ? r : keyval_verb_is(answer, "error") ? -EIO : 0;
}

/* The process that answers on the control socket; -1: none does. */
static pid_t keeper_pid(const struct volume_config *c)
{
	const struct sockaddr_un address = control_address(c);
	struct ucred keeper;
	socklen_t len = sizeof(keeper);
	AUTO_FD int fd = -1;

	if (connect_keeper(&address, &fd) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &keeper, &len) < 0)
		return -1;
	return keeper.pid;
}

/* Until it has converged, and nothing failed. @io_answer: the last status, as far as there was one. */
static int await_converged(struct volume *v, char *io_answer, char *ret_reason, size_t size)
{
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	char state[32] = "";
	int r = 0;

	for (int ms = 0; r == 0 && ms < CONVERGE_MS; ms += 5) {
		r = ask(v, "status\n", io_answer);
		if (r == 0)
			keyval_get(io_answer, "state", state, sizeof(state));
		if (strcmp(state, "converged") == 0) {
			char failed[32] = "0";

			keyval_get(io_answer, "failed", failed, sizeof(failed));
			if (strcmp(failed, "0") == 0)
				return 0;
			/* The walk may have found them before they could be changed: once more. */
			keyval_get(io_answer, "failure.0", ret_reason, size);
			if (ms > FAILED_MS)
				return -EIO;
			if (ms % RETRY_MS == 0)
				r = volume_send(v, "converge\n");
		}
		nanosleep(&pause, NULL);
	}
	return r < 0 ? r : -ETIME;
}

int volume_converge(struct volume *v, char *ret_reason, size_t size)
{
	AUTO_FREE char *answer = calloc(1, KEYVAL_MAX + 1);
	int r = answer ? volume_send(v, "rate\nrate=0\n") : -ENOMEM;

	snprintf(ret_reason, size, "never converged");
	if (r == 0)
		r = volume_send(v, "converge\n");
	if (r == 0)
		r = await_converged(v, answer, ret_reason, size);
	if (r < 0 && answer) {
		/* It may not be the same when it is run again. */
		printf("# %s: %s\n", ret_reason, strerror(-r));
		situation_print_text(stdout, answer);
		situation_print(stdout, keeper_pid(v->config));
		fflush(stdout);
	}
	return r == 0 && v->config->is_durable ? volume_send(v, "finished\n") : r;
}
