// SPDX-License-Identifier: Apache-2.0
/* Programs, files, the daemon and the overlays of a root directory, as they are found. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "mountd/ctl/config.h"
#include "mountd/ctl/doctor.h"
#include "mountd/path.h"
#include "mountd/path_program.h"
#include "mountd/rules.h"

#define ROOM_WANTED (16ULL << 20) /* bytes: the store, its log, its backup */
#define NODES_WANTED 64		  /* inodes */

/* ---- programs ---- */

/* The first line that "PROGRAM --version" prints. -errno, or -EIO: it failed. */
static int ask_version(const char *program, char *ret_text, size_t size)
{
	AUTO_FD int out_fd = -1, in_fd = -1;
	int pair[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	in_fd = pair[0];
	out_fd = pair[1];
	pid = fork();
	if (pid == 0) {
		if (dup2(out_fd, STDOUT_FILENO) < 0)
			_exit(126);
		execl(program, program, "--version", (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		return -errno;
	cleanup_fd(&out_fd);
	n = io_read_all(in_fd, ret_text, size - 1);
	cleanup_fd(&in_fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -EIO;
	ret_text[n] = '\0';
	ret_text[strcspn(ret_text, "\n")] = '\0';
	return 0;
}

static void judge_own_program(struct doctor *d, const char *name)
{
	char path[PATH_MAX];
	int r = program_path(name, path, sizeof(path));

	if (r == 0 && access(path, X_OK) < 0)
		r = -errno;
	if (r < 0)
		doctor_find(d, name, VERDICT_FAIL, "install it beside fsgroupctl", "%s: %s", path,
			    strerror(-r));
	else
		doctor_find(d, name, VERDICT_OK, NULL, "%s", path);
}

/* The overlay's program knows which libfuse it was linked with. */
static void judge_versions(struct doctor *d)
{
	char path[PATH_MAX], version[256];

	if (program_path("fsgroupfs", path, sizeof(path)) < 0 || access(path, X_OK) < 0)
		return;
	if (ask_version(path, version, sizeof(version)) < 0)
		doctor_find(d, "version", VERDICT_FAIL, "install it anew", "%s does not run", path);
	else if (strncmp(version, "fsgroupfs " FSGROUPFS_VERSION,
			 strlen("fsgroupfs " FSGROUPFS_VERSION)) != 0)
		doctor_find(d, "version", VERDICT_WARN, "install programs of one release",
			    "this is fsgroupctl " FSGROUPFS_VERSION ", and that is %s", version);
	else
		doctor_find(d, "version", VERDICT_OK, NULL, "%s", version);
}

static bool is_installed(const char *name)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					    "/usr/bin",	       "/sbin",		 "/bin" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static const struct {
	const char *name, *needed_by, *mend;
} tools[] = {
	{ "git", "gitRepo volumes need it", "install git" },
	{ "e2fsck", "stage of ext4 needs it", "install e2fsprogs" },
	{ "mkfs.ext4", "stage --format needs it", "install e2fsprogs" },
	{ "mkfs.xfs", "stage --format --fs-type xfs needs it", "install xfsprogs" },
	{ "mkfs.btrfs", "stage --format --fs-type btrfs needs it", "install btrfs-progs" },
	{ "mount.nfs", "nfs volumes need it", "install nfs-common or nfs-utils" },
};

void doctor_programs(struct doctor *d)
{
	judge_own_program(d, "fsgroupfs");
	judge_own_program(d, "fsgroup-mountd");
	judge_versions(d);
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		if (is_installed(tools[i].name))
			doctor_find(d, tools[i].name, VERDICT_OK, NULL, "is installed");
		else
			doctor_find(d, tools[i].name, VERDICT_WARN, tools[i].mend,
				    "is not installed: %s", tools[i].needed_by);
	}
}

/* ---- files ---- */

/* @path below the root directory. NULL: no memory. */
static char *path_below_root(const struct doctor *d, const char *path)
{
	AUTO_FREE char *root = NULL;

	if (path_absolute(d->ctl->root, &root) < 0)
		return NULL;
	return path_join(strcmp(root, "/") == 0 ? "" : root, path);
}

static void judge_config(struct doctor *d)
{
	AUTO_FREE char *path = path_below_root(d, PATH_CONFIG);
	AUTO(rules) *rules = NULL;
	char why[RULES_ERROR_MAX];
	json_t *problems;

	if (!path)
		return;
	if (rules_load(path, &rules, why) < 0) {
		doctor_find(d, "mountd.conf", VERDICT_FAIL,
			    "mend the file, and see fsgroupctl config check", "%s", why);
		return;
	}
	problems = config_problems(rules);
	if (json_array_size(problems) > 0)
		doctor_find(d, "mountd.conf", VERDICT_WARN, "fsgroupctl config check",
			    "%zu things in it cannot be meant", json_array_size(problems));
	else
		doctor_find(d, "mountd.conf", VERDICT_OK, NULL, "%s",
			    access(path, F_OK) == 0 ? "can be used" :
						      "is not there: what is built in");
	json_decref(problems);
}

static void judge_room(struct doctor *d, const char *path)
{
	struct statvfs fs;

	if (statvfs(path, &fs) < 0)
		return;
	if (fs.f_flag & ST_RDONLY)
		doctor_find(d, "disk", VERDICT_FAIL, "mount it writable", "%s is read-only", path);
	else if ((uint64_t)fs.f_bavail * fs.f_frsize < ROOM_WANTED ||
		 (fs.f_files > 0 && fs.f_favail < NODES_WANTED))
		doctor_find(d, "disk", VERDICT_WARN,
			    "make room: what is mounted can be unmounted, nothing new set up",
			    "%s has %llu KiB and %llu inodes left", path,
			    (unsigned long long)fs.f_bavail * fs.f_frsize / 1024,
			    (unsigned long long)fs.f_favail);
	else
		doctor_find(d, "disk", VERDICT_OK, NULL, "%s has %llu MiB left", path,
			    (unsigned long long)fs.f_bavail * fs.f_frsize >> 20);
}

/* A directory of ours: @group: others of one group may pass through it, as mountd.conf says. */
static bool judge_dir(struct doctor *d, const char *check, const char *path, mode_t allowed)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		doctor_find(d, check, errno == ENOENT ? VERDICT_OK : VERDICT_WARN,
			    errno == ENOENT ? NULL : "run it as root", "%s: %s", path,
			    errno == ENOENT ? "is made when it is needed" : strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0777 & ~allowed)) {
		doctor_find(d, check, d->is_root ? VERDICT_FAIL : VERDICT_WARN,
			    d->is_root ? "chown root, chmod 700" : "run it as root",
			    "%s: owner %u, mode %03o", path, (unsigned)st.st_uid,
			    (unsigned)st.st_mode & 0777);
		return false;
	}
	doctor_find(d, check, VERDICT_OK, NULL, "%s is its owner's alone", path);
	return true;
}

/* The nearest directory above that is there. */
static void judge_disk(struct doctor *d, const char *state_path)
{
	AUTO_FREE char *path = strdup(state_path);
	char *slash;

	while (path && access(path, F_OK) < 0 && (slash = strrchr(path, '/')) != NULL &&
	       slash > path)
		*slash = '\0';
	if (path)
		judge_room(d, path);
}

void doctor_files(struct doctor *d)
{
	AUTO_FREE char *state_path = path_below_root(d, PATH_STATE);
	AUTO_FREE char *run_path = path_below_root(d, PATH_RUN);

	judge_config(d);
	if (!state_path || !run_path)
		return;
	judge_dir(d, "state", state_path, 0700);
	judge_dir(d, "run-time files", run_path, 0710);
	judge_disk(d, state_path);
}

/* ---- the daemon, and what it has to say ---- */

static void judge_store(struct doctor *d)
{
	json_t *result = NULL;
	size_t faults;

	if (!ctl_ask_running(d->ctl, json_pack("{s:s, s:s}", "command", "store", "action", "check"),
			     &result)) {
		doctor_find(d, "store", VERDICT_FAIL, "fsgroupctl store check",
			    "the daemon cannot vouch for it");
		return;
	}
	faults = json_array_size(json_object_get(result, "faults"));
	doctor_find(d, "store", faults ? VERDICT_FAIL : VERDICT_OK,
		    faults ? "fsgroupctl store check" : NULL, "%lld volumes on record, %zu faults",
		    (long long)json_integer_value(json_object_get(result, "volumes")), faults);
	json_decref(result);
}

static void judge_records(struct doctor *d)
{
	json_t *rows = NULL, *row;
	size_t i;

	if (!ctl_ask_running(d->ctl, json_pack("{s:s, s:b}", "command", "reconstruct", "dryRun", 1),
			     &rows)) {
		doctor_find(d, "records", VERDICT_WARN, "fsgroupctl reconstruct --dry-run",
			    "the daemon did not compare them in time");
		return;
	}
	json_array_foreach(rows, i, row) {
		const char *volume = json_string_value(json_object_get(row, "volume"));

		doctor_find(d, "records", VERDICT_WARN, "fsgroupctl reconstruct", "%s: %s",
			    volume ? volume : "-",
			    json_string_value(json_object_get(row, "found")));
	}
	if (json_array_size(rows) == 0)
		doctor_find(d, "records", VERDICT_OK, NULL,
			    "they are what is mounted, and the other way round");
	json_decref(rows);
}

/* A socket that nobody listens at any more is that of an overlay whose keeper is dead. */
static bool is_deserted(int dir_fd, const char *dir_path, const char *name)
{
	struct sockaddr_un address;
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = path_socket_address(dir_fd, dir_path, name, &address);

	return fd >= 0 && connect(fd, (struct sockaddr *)&address, len) < 0 &&
	       errno == ECONNREFUSED;
}

static void judge_keepers(struct doctor *d)
{
	AUTO_FREE char *path = path_below_root(d, PATH_RUN "/" PATH_KEEPERS);
	AUTO_FD int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(dup(fd));
	const struct dirent *entry;
	size_t alive = 0, dead = 0;

	if (fd < 0 && errno != ENOENT) {
		doctor_find(d, "overlays", VERDICT_WARN, "run it as root",
			    "cannot be looked at: %s", strerror(errno));
		return;
	}
	while (dir && (entry = readdir(dir)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (len < 6 || strcmp(entry->d_name + len - 5, ".sock") != 0)
			continue;
		if (is_deserted(fd, path, entry->d_name)) {
			dead++;
			doctor_find(d, "overlays", VERDICT_WARN, "fsgroupctl reconstruct",
				    "that of volume %.*s is dead", (int)len - 5, entry->d_name);
		} else {
			alive++;
		}
	}
	if (dir)
		closedir(dir);
	if (dead == 0)
		doctor_find(d, "overlays", VERDICT_OK, NULL, "%zu are served", alive);
}

void doctor_daemon(struct doctor *d)
{
	json_t *result = NULL;
	bool runs = ctl_ask_running(d->ctl, json_pack("{s:s}", "command", "ping"), &result);

	if (runs)
		doctor_find(d, "daemon", VERDICT_OK, NULL, "process %lld",
			    (long long)json_integer_value(json_object_get(result, "pid")));
	else if (d->is_root)
		doctor_find(
			d, "daemon", VERDICT_OK, NULL,
			"does not run: it is started when it is needed; store and records were not looked into");
	else
		doctor_find(d, "daemon", VERDICT_WARN, "run it as root",
			    "does not run, or answers to root only");
	json_decref(result);
	judge_keepers(d);
	if (!runs)
		return;
	judge_store(d);
	judge_records(d);
}
