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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/mount.h"

#define HOLDERS_NAMED_MAX 5

struct wanted {
	uint64_t mount_id; /* 0: any */
	dev_t dev;	   /* 0: any */
	dev_t rdev;	   /* of a block device that is open; 0: any */
	pid_t except;	   /* 0: nobody */
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
		if (atoi(entry->d_name) == wanted->except)
			continue;
		pid_fd = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (pid_fd >= 0 && process_holds(pid_fd, wanted))
			more = found(arg, (pid_t)atoi(entry->d_name), pid_fd);
	}
	if (proc)
		closedir(proc);
}

static void read_namespace(int pid_fd, char *ret_name, size_t size)
{
	ssize_t n = readlinkat(pid_fd, "ns/mnt", ret_name, size - 1);

	ret_name[n < 0 ? 0 : n] = '\0';
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

bool holders_find(uint64_t mount_id, dev_t dev, pid_t except, char *ret_text, size_t size)
{
	struct wanted wanted = { .mount_id = mount_id, .dev = dev, .except = except };
	struct description d = { .text = ret_text, .size = size };

	ret_text[0] = '\0';
	each_holder(&wanted, describe_one, &d);
	return d.count > 0;
}

char *holders_describe(uint64_t mount_id, dev_t dev, char *ret_text, size_t size)
{
	if (!holders_find(mount_id, dev, 0, ret_text, size))
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
	size_t i;

	read_namespace(pid_fd, ns, sizeof(ns));
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

/* ---- in detail ---- */

static void add_use(json_t *uses, const char *use)
{
	const json_t *item;
	size_t i;

	json_array_foreach(uses, i, item) {
		if (strcmp(json_string_value(item), use) == 0)
			return;
	}
	json_array_append_new(uses, json_string(use));
}

static void add_open_files(int pid_fd, const struct wanted *wanted, json_t *uses)
{
	AUTO_FD int fd = openat(pid_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir)
		return;
	take_fd(&fd);
	while ((entry = readdir(dir)) != NULL) {
		struct mount_view view;
		AUTO_FD int link_fd = -1;

		if (entry->d_name[0] == '.' || !link_matches(dirfd(dir), entry->d_name, wanted))
			continue;
		link_fd = openat(dirfd(dir), entry->d_name, O_PATH | O_CLOEXEC);
		if (link_fd >= 0 && mount_look(link_fd, "", &view) == 0)
			add_use(uses, S_ISDIR(view.mode) ? "directory" : "file");
	}
	closedir(dir);
}

struct detail {
	const struct wanted *wanted;
	json_t *list;
	size_t limit;
};

static bool detail_one(void *arg, pid_t pid, int pid_fd)
{
	struct detail *d = arg;
	json_t *uses = json_array();
	char name[64], ns[64];

	add_open_files(pid_fd, d->wanted, uses);
	if (any_link_matches(pid_fd, "map_files", d->wanted))
		add_use(uses, "mapping");
	if (link_matches(pid_fd, "cwd", d->wanted))
		add_use(uses, "cwd");
	if (link_matches(pid_fd, "root", d->wanted))
		add_use(uses, "root");
	if (link_matches(pid_fd, "exe", d->wanted))
		add_use(uses, "program");
	read_name(pid_fd, name, sizeof(name));
	read_namespace(pid_fd, ns, sizeof(ns));
	json_array_append_new(d->list, json_pack("{s:i, s:s, s:s, s:o}", "pid", (int)pid, "program",
						 name, "mntns", ns, "uses", uses));
	return json_array_size(d->list) < d->limit;
}

json_t *holders_detail(dev_t dev, size_t limit)
{
	const struct wanted wanted = { .dev = dev };
	struct detail d = { .wanted = &wanted, .list = json_array(), .limit = limit };

	if (d.list && dev)
		each_holder(&wanted, detail_one, &d);
	return d.list;
}

/* ---- copies of a mount ---- */

/* Where a process's namespace has the file system: a field of its mountinfo. */
static bool find_mount(int pid_fd, dev_t dev, char *ret_path, size_t size)
{
	AUTO_FD int fd = openat(pid_fd, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	AUTO_FREE char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!file)
		return false;
	take_fd(&fd);
	while (!found && getline(&line, &room, file) > 0) {
		unsigned major = 0, minor = 0;
		int path = 0, end = 0;

		if (sscanf(line, "%*u %*u %u:%u %*s %n%*s%n", &major, &minor, &path, &end) < 2 ||
		    end <= path || makedev(major, minor) != dev)
			continue;
		line[end] = '\0';
		log_quote(line + path, ret_path, size);
		found = true;
	}
	fclose(file);
	return found;
}

static bool is_known(const json_t *seen, const char *ns)
{
	return json_object_get(seen, ns) != NULL;
}

json_t *holders_copies(dev_t dev)
{
	json_t *list = json_array(), *seen = json_object();
	DIR *proc = dev ? opendir("/proc") : NULL;
	const struct dirent *entry;
	char ns[64], name[64], path[4096];
	AUTO_FD int self_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (self_fd >= 0) {
		read_namespace(self_fd, ns, sizeof(ns));
		json_object_set_new(seen, ns, json_true());
	}
	while (proc && (entry = readdir(proc)) != NULL) {
		AUTO_FD int pid_fd = -1;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid_fd = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (pid_fd < 0)
			continue;
		read_namespace(pid_fd, ns, sizeof(ns));
		if (!ns[0] || is_known(seen, ns))
			continue;
		json_object_set_new(seen, ns, json_true());
		if (!find_mount(pid_fd, dev, path, sizeof(path)))
			continue;
		read_name(pid_fd, name, sizeof(name));
		json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:s}", "mntns", ns, "pid",
						      atoi(entry->d_name), "program", name, "path",
						      path));
	}
	if (proc)
		closedir(proc);
	json_decref(seen);
	return list;
}
