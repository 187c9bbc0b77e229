// SPDX-License-Identifier: Apache-2.0
#include "mountd/device_holders.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/holders.h"

#define NAMED_MAX 4
#define NAMESPACES_MAX 512 /* looked into; a node has fewer */

struct search {
	dev_t rdev;
	char dev_text[32]; /* as mountinfo writes it */
	char *text;
	size_t used, size;
	unsigned named;
	ino_t seen[NAMESPACES_MAX];
	size_t seen_count;
};

static void __attribute__((format(printf, 2, 3))) add(struct search *s, const char *format, ...)
{
	va_list args;
	int n;

	if (s->named == NAMED_MAX)
		format = " and more";
	if (s->named++ > NAMED_MAX)
		return;
	if (s->named > 1 && s->named <= NAMED_MAX && s->used + 2 < s->size) {
		memcpy(s->text + s->used, ", ", 3);
		s->used += 2;
	}
	va_start(args, format);
	n = vsnprintf(s->text + s->used, s->size - s->used, format, args);
	va_end(args);
	if (n > 0)
		s->used += (size_t)n < s->size - s->used ? (size_t)n : s->size - s->used - 1;
}

static bool leads_to(const char *path, dev_t rdev)
{
	struct stat st;

	return strncmp(path, "/dev/", 5) == 0 && stat(path, &st) == 0 && S_ISBLK(st.st_mode) &&
	       st.st_rdev == rdev;
}

/*
 * One line of mountinfo: "id parent dev root path options fields... - type source options" (source:
 * proc_pid_mountinfo(5)). btrfs has device numbers of its own: there the source tells.
 */
static void look_at_mount(struct search *s, char *line, bool is_ours, const char *pid)
{
	char *fields[5] = { 0 }, *tail = strstr(line, " - "), *source = NULL, quoted[160];

	if (!tail)
		return;
	*tail = '\0';
	tail += 3;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		fields[i] = strsep(&line, " ");
	if (!fields[4])
		return;
	(void)strsep(&tail, " ");
	source = strsep(&tail, " ");
	if (strcmp(fields[2], s->dev_text) != 0 && (!source || !leads_to(source, s->rdev)))
		return;
	log_quote(fields[4], quoted, sizeof(quoted));
	if (is_ours)
		add(s, "mounted at %s", quoted);
	else
		add(s, "mounted at %s in the mount namespace of process %s", quoted, pid);
}

static void look_into_namespace(struct search *s, int pid_fd, const char *pid, ino_t ours)
{
	AUTO_FD int fd = -1;
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	struct stat ns;
	FILE *file;

	/* /proc/PID/ns/mnt is followed to the namespace itself, whose inode number names it. */
	if (fstatat(pid_fd, "ns/mnt", &ns, 0) < 0 || s->seen_count == NAMESPACES_MAX)
		return;
	for (size_t i = 0; i < s->seen_count; i++) {
		if (s->seen[i] == ns.st_ino)
			return;
	}
	s->seen[s->seen_count++] = ns.st_ino;
	fd = openat(pid_fd, "mountinfo", O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "re");
	if (!file)
		return;
	take_fd(&fd);
	while (getline(&line, &room, file) >= 0)
		look_at_mount(s, line, ns.st_ino == ours, pid);
	fclose(file);
}

static void find_mounts(struct search *s)
{
	AUTO_FD int self = open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct stat ns = { 0 };

	if (self >= 0 && fstatat(self, "ns/mnt", &ns, 0) == 0)
		look_into_namespace(s, self, "self", ns.st_ino);
	while (proc && (entry = readdir(proc)) != NULL) {
		AUTO_FD int fd = -1;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		fd = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			look_into_namespace(s, fd, entry->d_name, ns.st_ino);
	}
	if (proc)
		closedir(proc);
}

/* Devices of the device mapper, RAID, bcache, ... */
static void find_built_on(struct search *s)
{
	char path[96], quoted[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/dev/block/%s/holders", s->dev_text);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			add(s, "part of %s", log_quote(entry->d_name, quoted, sizeof(quoted)));
	}
	if (dir)
		closedir(dir);
}

static void find_swap(struct search *s)
{
	FILE *file = fopen("/proc/swaps", "re");
	AUTO_FREE char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) >= 0) {
		line[strcspn(line, " \t")] = '\0';
		if (leads_to(line, s->rdev))
			add(s, "swap space");
	}
	if (file)
		fclose(file);
}

char *device_holders_describe(dev_t rdev, char *ret_text, size_t size)
{
	AUTO_FREE struct search *s = calloc(1, sizeof(*s));
	char processes[256];

	snprintf(ret_text, size, "in use");
	if (!s)
		return ret_text;
	s->rdev = rdev;
	s->text = ret_text;
	s->size = size;
	snprintf(s->dev_text, sizeof(s->dev_text), "%u:%u", major(rdev), minor(rdev));
	find_mounts(s);
	find_built_on(s);
	find_swap(s);
	if (holders_of_node(rdev, processes, sizeof(processes))[0])
		add(s, "%s", processes);
	if (s->named == 0)
		snprintf(ret_text, size, "held by something that cannot be seen from here");
	return ret_text;
}
