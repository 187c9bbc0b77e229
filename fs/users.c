// SPDX-License-Identifier: Apache-2.0
#include "fs/users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"

/* Mount namespaces seen in one search. */
struct seen {
	ino_t *namespaces;
	size_t count, capacity;
};

static void close_file(FILE **io_file)
{
	if (*io_file)
		fclose(*io_file);
}

static void close_dir(DIR **io_dir)
{
	if (*io_dir)
		closedir(*io_dir);
}

static int see(struct seen *seen, ino_t ns, bool *ret_is_new)
{
	for (size_t i = 0; i < seen->count; i++) {
		if (seen->namespaces[i] == ns) {
			*ret_is_new = false;
			return 0;
		}
	}
	if (seen->count == seen->capacity) {
		size_t capacity = seen->capacity ? 2 * seen->capacity : 16;
		ino_t *grown = reallocarray(seen->namespaces, capacity, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		seen->namespaces = grown;
		seen->capacity = capacity;
	}
	seen->namespaces[seen->count++] = ns;
	*ret_is_new = true;
	return 0;
}

static FILE *open_proc(int proc_fd, const char *pid, const char *name)
{
	char path[300];
	int fd;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

/* "process 12 (name)" */
static void name_process(int proc_fd, const char *pid, char *ret_name, size_t size)
{
	__attribute__((cleanup(close_file))) FILE *file = open_proc(proc_fd, pid, "comm");
	char comm[32] = "", quoted[64];

	if (file && fgets(comm, sizeof(comm), file))
		comm[strcspn(comm, "\n")] = '\0';
	snprintf(ret_name, size, "process %.20s (%s)", pid,
		 comm[0] ? log_quote(comm, quoted, sizeof(quoted)) : "?");
}

/*
 * Looks for mounts of the overlay's superblock in the mount namespace of process @pid. In ours there
 * must be one, the overlay itself, with nothing mounted on it.
 */
static int search_mounts(int proc_fd, const char *pid, const struct overlay_mount *overlay,
			 bool is_ours, char ret_reason[256])
{
	__attribute__((cleanup(close_file))) FILE *file = open_proc(proc_fd, pid, "mountinfo");
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	char name[96];

	if (!file)
		return errno == ENOENT || errno == EACCES || errno == EINVAL ? 0 : -errno;
	while (getline(&line, &size, file) > 0) {
		uint64_t id, parent;
		uint32_t dev_major, dev_minor;

		/* mount id, parent id, major:minor (proc_pid_mountinfo(5)) */
		if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu32 ":%" SCNu32, &id, &parent,
			   &dev_major, &dev_minor) != 4)
			continue;
		if (is_ours && parent == overlay->short_id) {
			snprintf(ret_reason, 256, "something is mounted below it");
			return 1;
		}
		if (dev_major != overlay->dev_major || dev_minor != overlay->dev_minor)
			continue;
		if (is_ours && id == overlay->short_id)
			continue;
		name_process(proc_fd, pid, name, sizeof(name));
		if (is_ours)
			snprintf(ret_reason, 256, "it is mounted at another place too");
		else
			snprintf(ret_reason, 256, "it is mounted in the mount namespace of %s",
				 name);
		return 1;
	}
	return 0;
}

static int search_mappings(int proc_fd, const char *pid, const struct overlay_mount *overlay,
			   char ret_reason[256])
{
	__attribute__((cleanup(close_file))) FILE *file = open_proc(proc_fd, pid, "maps");
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	char name[96];

	if (!file)
		return errno == ENOENT || errno == EACCES || errno == EPERM || errno == ESRCH ?
			       0 :
			       -errno;
	while (getline(&line, &size, file) > 0) {
		uint32_t dev_major, dev_minor;

		/* address perms offset major:minor in hexadecimal (proc_pid_maps(5)) */
		if (sscanf(line, "%*s %*s %*s %" SCNx32 ":%" SCNx32, &dev_major, &dev_minor) != 2)
			continue;
		if (dev_major == overlay->dev_major && dev_minor == overlay->dev_minor) {
			name_process(proc_fd, pid, name, sizeof(name));
			snprintf(ret_reason, 256, "%s has a file mapped", name);
			return 1;
		}
	}
	return 0;
}

/*
 * Whether the text of the overlay's device stands anywhere in the process's mappings: a fraction of the time
 * that their fields take. It may stand in a path too. -errno as search_mappings().
 */
static int may_have_mapping(int proc_fd, const char *pid, const struct overlay_mount *overlay)
{
	char path[300], wanted[32], text[16384];
	size_t kept = 0, overlap;
	AUTO_FD int fd = -1;
	ssize_t n;

	overlap = (size_t)snprintf(wanted, sizeof(wanted), " %02x:%02x ", overlay->dev_major,
				   overlay->dev_minor);
	snprintf(path, sizeof(path), "%s/maps", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text + kept, sizeof(text) - kept)) > 0) {
		size_t len = kept + (size_t)n;

		if (memmem(text, len, wanted, overlap))
			return 1;
		kept = len < overlap ? len : overlap;
		memmove(text, text + len - kept, kept);
	}
	/* What cannot be read for any other reason than that it is not ours to read is looked at again. */
	return fd < 0;
}

/* A search through all processes. */
struct search {
	const struct overlay_mount *overlay;
	ino_t our_space;
	struct seen seen;
	int64_t until_ms; /* of this process's own time; 0: no limit */
	char *reason;
};

static int search_mounts_of(struct search *s, int proc_fd, const char *pid)
{
	char path[300];
	struct stat ns;
	bool is_new = false;
	int r = 0;

	snprintf(path, sizeof(path), "%s/ns/mnt", pid);
	if (fstatat(proc_fd, path, &ns, 0) == 0)
		r = see(&s->seen, ns.st_ino, &is_new);
	if (r < 0 || !is_new)
		return r;
	return search_mounts(proc_fd, pid, s->overlay, ns.st_ino == s->our_space, s->reason);
}

/* Where processors are scarce everybody waits: what the search itself takes is what has a limit. */
static int64_t used_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int search_mappings_of(struct search *s, int proc_fd, const char *pid)
{
	if (s->until_ms > 0 && used_ms() > s->until_ms)
		return -ETIMEDOUT;
	if (!may_have_mapping(proc_fd, pid, s->overlay))
		return 0;
	return search_mappings(proc_fd, pid, s->overlay, s->reason);
}

static int search_all(struct search *s,
		      int (*search)(struct search *s, int proc_fd, const char *pid))
{
	AUTO_FD int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	__attribute__((cleanup(close_dir))) DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct stat ours;
	int r = 0;

	if (proc_fd < 0 || !proc || fstatat(proc_fd, "self/ns/mnt", &ours, 0) < 0)
		return -errno;
	s->our_space = ours.st_ino;
	while (r == 0 && (entry = readdir(proc))) {
		uint32_t pid;

		if (parse_u32(entry->d_name, &pid) == 0)
			r = search(s, proc_fd, entry->d_name);
	}
	free(s->seen.namespaces);
	return r;
}

int users_find_mappings(const struct overlay_mount *overlay, int64_t budget_ms,
			char ret_reason[256])
{
	struct search s = { .overlay = overlay,
			    .reason = ret_reason,
			    .until_ms = budget_ms > 0 ? used_ms() + budget_ms : 0 };

	return search_all(&s, search_mappings_of);
}

int users_find_mounts(const struct overlay_mount *overlay, char ret_reason[256])
{
	struct search s = { .overlay = overlay, .reason = ret_reason };

	return search_all(&s, search_mounts_of);
}

bool users_name_space(ino_t space, char *ret_name, size_t size)
{
	AUTO_FD int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	__attribute__((cleanup(close_dir))) DIR *proc = opendir("/proc");
	const struct dirent *entry;

	while (proc_fd >= 0 && proc && (entry = readdir(proc))) {
		char path[300];
		struct stat ns;
		uint32_t pid;

		if (parse_u32(entry->d_name, &pid) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/ns/mnt", entry->d_name);
		if (fstatat(proc_fd, path, &ns, 0) < 0 || ns.st_ino != space)
			continue;
		name_process(proc_fd, entry->d_name, ret_name, size);
		return true;
	}
	return false;
}

/* Undoes the \ooo of mountinfo in place. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
		    in[3] >= '0' && in[3] <= '7') {
			*out++ = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 3;
		} else {
			*out++ = *in;
		}
	}
	*out = '\0';
}

int users_mount_below(const char *path, char ret_mount[256])
{
	__attribute__((cleanup(close_file))) FILE *file = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0, len = strlen(path);

	if (!file)
		return -errno;
	if (len == 1)
		len = 0; /* "/" */
	while (getline(&line, &size, file) > 0) {
		char *save = NULL, *mount_point = strtok_r(line, " ", &save);

		/* the fifth field (proc_pid_mountinfo(5)) */
		for (int i = 0; mount_point && i < 4; i++)
			mount_point = strtok_r(NULL, " ", &save);
		if (!mount_point)
			continue;
		unescape(mount_point);
		if (strncmp(mount_point, path, len) == 0 && mount_point[len] == '/' &&
		    mount_point[len + 1] != '\0') {
			log_quote(mount_point, ret_mount, 256);
			return 1;
		}
	}
	return 0;
}
