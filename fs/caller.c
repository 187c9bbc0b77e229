// SPDX-License-Identifier: Apache-2.0
#include "fs/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"

/* What this thread is now; a switch that changes nothing costs nothing. */
static __thread mode_t current_umask = (mode_t)-1;
static __thread uid_t current_uid;
static __thread gid_t current_gid;

/* glibc's setfsuid and setfsgid are per thread, unlike its setuid family. */
static void become(uid_t uid, gid_t gid)
{
	if (gid != current_gid)
		setfsgid(gid);
	if (uid != current_uid)
		setfsuid(uid);
	current_gid = gid;
	current_uid = uid;
}

void caller_enter(const struct caller *c, gid_t gid)
{
	become(c->uid, gid);
	if (c->umask != current_umask) {
		umask(c->umask);
		current_umask = c->umask;
	}
}

void caller_enter_owner(uid_t uid)
{
	become(uid, 0);
}

void caller_leave(void)
{
	become(0, 0);
}

/* Raises or drops one of this thread's effective capabilities; what is not permitted stays dropped. */
static int set_effective(int capability, bool on)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_data_struct *word = &data[CAP_TO_INDEX(capability)];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	if (on)
		word->effective |= word->permitted & CAP_TO_MASK(capability);
	else
		word->effective &= ~(uint32_t)CAP_TO_MASK(capability);
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int caller_enter_stranger(gid_t gid)
{
	become(0, gid == 0 ? 1 : 0);
	return set_effective(CAP_FSETID, false);
}

void caller_leave_stranger(void)
{
	(void)set_effective(CAP_FSETID, true);
	become(0, 0);
}

/*
 * The value of the line "@key:" of the caller's status, in a buffer that the caller frees with
 * *ret_buffer; NULL when it cannot be read.
 */
static char *read_status(const struct caller *c, const char *key, char **ret_buffer)
{
	enum {
		STATUS_BYTES = 1 << 20
	}; /* 65,536 groups (NGROUPS_MAX) of at most 11 characters, and the rest */
	AUTO_FREE char *buffer = malloc(STATUS_BYTES);
	size_t key_len = strlen(key);
	char path[32], *text, *line;
	AUTO_FD int fd = -1;
	ssize_t used;

	if (!buffer || c->pid <= 0)
		return NULL;
	snprintf(path, sizeof(path), "%d/status", (int)c->pid);
	fd = openat(c->proc_fd, path, O_RDONLY | O_CLOEXEC);
	used = fd < 0 ? -1 : io_read_all(fd, buffer, STATUS_BYTES - 1);
	if (used < 0)
		return NULL;
	buffer[used] = '\0';
	text = buffer;
	while ((line = strsep(&text, "\n"))) {
		if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
			*ret_buffer = take_ptr(&buffer);
			return line + key_len + 1;
		}
	}
	return NULL;
}

bool caller_is_in_group(const struct caller *c, gid_t gid)
{
	AUTO_FREE char *buffer = NULL;
	char *groups, *save = NULL;

	if (c->gid == gid || (c->extra_group != GID_UNSET && c->extra_group == gid))
		return true;
	groups = read_status(c, "Groups", &buffer);
	if (!groups)
		return false;
	for (char *word = strtok_r(groups, " \t", &save); word;
	     word = strtok_r(NULL, " \t", &save)) {
		gid_t member;

		if (parse_gid(word, &member) == 0 && member == gid)
			return true;
	}
	return false;
}

/* The map of a process's user namespace, as it looks from ours. Returns its length, or -1. */
static ssize_t read_uid_map(const struct caller *c, const char *process, char *ret_map, size_t size)
{
	char path[32];
	AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/uid_map", process);
	fd = openat(c->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : read(fd, ret_map, size);
}

/*
 * Capabilities are worth something in one's own user namespace only, and everybody can make one below
 * ours. There the map is another: an equal one takes privilege over the same ids.
 */
static bool is_in_our_user_namespace(const struct caller *c)
{
	char ours[4096], theirs[4096], pid[16];
	ssize_t len = read_uid_map(c, "self", ours, sizeof(ours));

	snprintf(pid, sizeof(pid), "%d", (int)c->pid);
	return len > 0 && read_uid_map(c, pid, theirs, sizeof(theirs)) == len &&
	       memcmp(ours, theirs, (size_t)len) == 0;
}

bool caller_has_capability(const struct caller *c, int capability)
{
	AUTO_FREE char *buffer = NULL;
	const char *text = read_status(c, "CapEff", &buffer);

	return text && strtoull(text, NULL, 16) >> capability & 1 && is_in_our_user_namespace(c);
}
