// SPDX-License-Identifier: Apache-2.0
#include "mountd/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/mount.h"

#define HOLDERS_NAMED_MAX 5

struct wanted {
	uint64_t mount_id; /* 0: any */
	dev_t dev;	   /* 0: any */
	dev_t rdev;	   /* of a block device that is open; 0: any */
};

/* Follows a magic link of /proc, which jumps to the file without a walk: no server is asked. */
static bool link_matches(int dir_fd, const char *name, const struct wanted *wanted)
{
	struct mount_view view;
	AUTO_FD int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);

	if (fd < 0 || mount_look(fd, "", &view) < 0)
		return false;
	return (wanted->mount_id && view.id == wanted->mount_id) ||
	       (wanted->dev && view.dev == wanted->dev) ||
	       (wanted->rdev && S_ISBLK(view.mode) && view.rdev == wanted->rdev);
}

static bool any_link_matches(int pid_fd, const char *dir_name, const struct wanted *wanted)
{
	AUTO_FD int fd = openat(pid_fd, dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!dir)
		return false;
	take_fd(&fd);
	while (!found && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			found = link_matches(dirfd(dir), entry->d_name, wanted);
	}
	closedir(dir);
	return found;
}

static bool process_holds(int pid_fd, const struct wanted *wanted)
{
	return link_matches(pid_fd, "cwd", wanted) || link_matches(pid_fd, "root", wanted) ||
	       link_matches(pid_fd, "exe", wanted) || any_link_matches(pid_fd, "fd", wanted) ||
	       any_link_matches(pid_fd, "map_files", wanted);
}

static void read_name(int pid_fd, char *ret_name, size_t size)
{
	AUTO_FD int fd = openat(pid_fd, "comm", O_RDONLY | O_CLOEXEC);
	char raw[32];
	ssize_t n = fd < 0 ? -1 : read(fd, raw, sizeof(raw) - 1);

	raw[n < 0 ? 0 : n] = '\0';
	raw[strcspn(raw, "\n")] = '\0';
	log_quote(n < 0 ? "?" : raw, ret_name, size);
}

/* Calls @found for each process that holds what is wanted; ends when it returns false. */
static void each_holder(const struct wanted *wanted,
			bool (*found)(void *arg, pid_t pid, int pid_fd), void *arg)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool more = true;

	while (proc && more && (entry = readdir(proc)) != NULL) {
		AUTO_FD int pid_fd = -1;

		if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid())
			continue;
		pid_fd = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (pid_fd >= 0 && process_holds(pid_fd, wanted))
			more = found(arg, (pid_t)atoi(entry->d_name), pid_fd);
	}
	if (proc)
		closedir(proc);
}

struct description {
	char *text;
	size_t used, size;
	int count;
};

static bool describe_one(void *arg, pid_t pid, int pid_fd)
{
	struct description *d = arg;
	char name[64];
	int n;

	if (d->count == HOLDERS_NAMED_MAX) {
		snprintf(d->text + d->used, d->size - d->used, " and more");
		return false;
	}
	read_name(pid_fd, name, sizeof(name));
	n = snprintf(d->text + d->used, d->size - d->used, "%s%d (%s)",
		     d->count ? ", " : "held by process ", (int)pid, name);
	if (n > 0 && (size_t)n < d->size - d->used)
		d->used += (size_t)n;
	d->count++;
	return true;
}

char *holders_describe(uint64_t mount_id, dev_t dev, char *ret_text, size_t size)
{
	struct wanted wanted = { .mount_id = mount_id, .dev = dev };
	struct description d = { .text = ret_text, .size = size };

	ret_text[0] = '\0';
	each_holder(&wanted, describe_one, &d);
	if (d.count == 0)
		snprintf(ret_text, size, "held by something that cannot be seen from here");
	return ret_text;
}

char *holders_of_node(dev_t rdev, char *ret_text, size_t size)
{
	struct wanted wanted = { .rdev = rdev };
	struct description d = { .text = ret_text, .size = size };

	ret_text[0] = '\0';
	each_holder(&wanted, describe_one, &d);
	return ret_text;
}

static bool list_one(void *arg, pid_t pid, int pid_fd)
{
	json_t *list = arg, *item, *pids = NULL;
	char ns[64];
	ssize_t n = readlinkat(pid_fd, "ns/mnt", ns, sizeof(ns) - 1);
	size_t i;

	ns[n < 0 ? 0 : n] = '\0';
	json_array_foreach(list, i, item) {
		if (strcmp(json_string_value(json_object_get(item, "mntns")), ns) == 0)
			pids = json_object_get(item, "pids");
	}
	if (!pids) {
		item = json_pack("{s:s, s:[]}", "mntns", ns, "pids");
		pids = json_object_get(item, "pids");
		json_array_append_new(list, item);
	}
	json_array_append_new(pids, json_integer(pid));
	return true;
}

json_t *holders_list(dev_t dev)
{
	struct wanted wanted = { .dev = dev };
	json_t *list = json_array();

	if (list && dev)
		each_holder(&wanted, list_one, list);
	return list;
}
